"""Outputs of the target as ids, and the exchanges in which a server with a known convention returns them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.output import Call, Ids, Output, join_output
from eagle_assets.serving.served import Frame, Served, Situation
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import prompt_ids

K2_5 = target_named("moonshotai/kimi-k2.5")
K2 = target_named("moonshotai/kimi-k2-0905")
VOCABULARY, MARKERS = K2_5.vocabulary, K2_5.markers

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}

SENTENCES = (
    "The answer follows from the second equation.",
    "We add both sides, then divide by three.",
    "Prime numbers below twenty: 2, 3, 5, 7, 11, 13, 17, 19.",
    "Привет, это короткий ответ.",
    "今天的天气很好，我们去公园吧。",
    "Let me check: `x = [i ** 2 for i in range(10)]`\n\n```python\nprint(x)\n```",
    "Überraschend größer, naïve façade, coöperate.",
    "مرحبا بالعالم",
    "Emoji 👩‍👩‍👧‍👦 and 🇦🇷 are several code points.",
    "Oi! Tudo bem?",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "So x < 5 and y > 3, hence [x, y] holds.",
    "1234567 + 7654321 = 8888888",
    "한국어 문장도 있습니다.",
)


def text(rng: Random) -> str:
    """A few sentences, the first now and then behind a blank, line breaks now and then at the end."""
    body = rng.choice((" ", "\n", "\n\n")).join(rng.choices(SENTENCES, k=rng.randint(1, 4)))
    return " " * (rng.random() < 0.1) + body + rng.choice(("",) * 8 + ("\n", "\n\n"))


def output_of(
    reasoning: str | None, content: str, calls: Sequence[tuple[str, str]] = (), stopped: bool = True
) -> list[int]:
    """Canonical ids of a whole output; a call is its header (`functions.NAME:INDEX`) and its arguments."""
    encoded: Output[Ids] = Output(
        think_begun=False,
        reasoning=reasoning,
        reasoning_closed=reasoning is not None,
        content=content,
        section_begun=bool(calls),
        calls=tuple(Call(header, arguments, closed=True) for header, arguments in calls),
        section_closed=bool(calls),
        stopped=stopped,
    ).over(lambda segment: tuple(VOCABULARY.encode(segment)))
    return join_output(encoded, MARKERS)


@dataclass(frozen=True)
class Truth:
    """An output as it was generated, and the situation in which it was served."""

    ids: list[int]
    situation: Situation


def some_outputs(count: int, seed: int, streamed: bool = False, calls: bool = True) -> list[Truth]:
    """Canonical outputs of K2.5: thinking, instant, with tools."""
    rng = Random(seed)
    truths = []
    for number in range(count):
        thinking = rng.random() < 0.8
        made = [("functions.look_up:0", json.dumps({"q": text(rng)}, ensure_ascii=False))]
        called = made if calls and number % 4 == 3 else []
        ids = output_of(text(rng) if thinking else None, text(rng) if rng.random() < 0.9 or not called else "", called)
        truths.append(Truth(ids, Situation(K2_5, thinking, (TOOL,) if called else (), 0, streamed)))
    return truths


def spelt_out(reasoning: str, word: str) -> list[int]:
    """A thinking output that is off the canonical path: the word of its answer is a token for each byte."""
    letters = [VOCABULARY.id_of_bytes[bytes([byte])] for byte in word.encode()]
    return [*VOCABULARY.encode(reasoning), MARKERS.think_end, *letters, MARKERS.stop]


def document(
    truth: Truth,
    convention: Convention,
    exchange_id: str = "x1",
    provider: str = "Lakeside",
    steps: Sequence[int] | None = None,
    gives_token_ids: bool = False,
) -> dict[str, Any]:
    """A line of a file of exchanges: what a server of this convention answers, in OpenRouter's envelope."""
    situation = truth.situation
    served = convention.render(truth.ids, situation, steps)
    request: dict[str, Any] = {
        "model": situation.target.name,
        "messages": [{"role": "user", "content": f"Question {exchange_id}"}],
        "stream": situation.streamed,
    }
    if situation.tools:
        request["tools"] = list(situation.tools)
    if gives_token_ids:
        request["return_token_ids"] = True
    if situation.target.thinking == "switchable" and not situation.thinking:
        request["reasoning"] = {"enabled": False}
    given = truth.ids if gives_token_ids else None
    prompt_tokens = len(prompt_ids(situation.target, request)) + served.prompt_offset
    head = {"id": exchange_id, "model": situation.target.name + "-20260127", "provider": provider}
    body = (_event_stream if situation.streamed else _json_body)(head, served, _usage(served, prompt_tokens), given)
    return {
        "exchange_id": exchange_id,
        "model": situation.target.name,
        "provider": provider,
        "status": 200,
        "request": request,
        "body": body,
        "arrivals": _arrivals(body) if situation.streamed else [],
    }


def exchanges(
    truths: Sequence[Truth], convention: Convention, provider: str = "Lakeside", **more: Any
) -> list[Exchange]:
    """One exchange for each truth."""
    return [
        exchange_of(document(truth, convention, f"{provider}-{number}", provider, **more))
        for number, truth in enumerate(truths)
    ]


def _usage(served: Served, prompt_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": served.completion_tokens,
        "total_tokens": prompt_tokens + served.completion_tokens,
        "cost": 0.001,
        "completion_tokens_details": {"reasoning_tokens": served.reasoning_tokens or 0},
    }


def _finish(served: Served) -> dict[str, Any]:
    return {"finish_reason": served.finish_reason, "native_finish_reason": served.finish_reason}


def _json_body(head: Mapping[str, Any], served: Served, usage: Mapping[str, Any], given: Sequence[int] | None) -> str:
    message = {
        "role": "assistant",
        "content": served.message.content,
        "reasoning": served.message.reasoning,
        "tool_calls": [
            {"index": i, "type": "function", "id": c.id, "function": {"name": c.name, "arguments": c.arguments}}
            for i, c in enumerate(served.message.tool_calls)
        ],
    }
    choice = {"index": 0, "message": message, **_finish(served)}
    if given is not None:
        choice["token_ids"] = list(given)
    return "\n         \n" + _json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})


def _event_stream(
    head: Mapping[str, Any], served: Served, usage: Mapping[str, Any], given: Sequence[int] | None
) -> str:
    return ": OPENROUTER PROCESSING\n\n" + "".join(
        f"data: {frame}\n\n" for frame in _frames(head, served, usage, given)
    )


def _arrivals(body: str) -> list[list[float]]:
    """When our own client saw each frame arrive: byte offsets and seconds."""
    offsets = (found.start() for found in re.finditer(rb"^data: ", body.encode(), re.MULTILINE))
    return [[offset, number / 8] for number, offset in enumerate(offsets)]


def _frames(
    head: Mapping[str, Any], served: Served, usage: Mapping[str, Any], given: Sequence[int] | None
) -> Iterator[str]:
    for frame in served.frames:
        yield _json({**head, "choices": [{"index": 0, "delta": _delta(frame), "finish_reason": None}]})
    last: dict[str, Any] = {"index": 0, "delta": {"content": ""}, **_finish(served)}
    if given is not None:
        last["token_ids"] = list(given)
    yield _json({**head, "choices": [last]})
    yield _json({**head, "choices": [], "usage": usage})
    yield "[DONE]"


def _delta(frame: Frame) -> dict[str, Any]:
    if frame.field != "tool_calls":
        return {"role": "assistant", frame.field: frame.text}
    function: dict[str, Any] = {"arguments": frame.text}
    call: dict[str, Any] = {"index": frame.call, "function": function}
    if frame.id is not None:
        call["id"], function["name"] = frame.id, frame.name
    return {"role": "assistant", "tool_calls": [call]}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
