"""Servers as forward models against what the real ones returned for known ids, where that data lies.

Every answer is reproduced in full: message, finish reason, both counts, and the frames of its stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eagle_assets.openrouter.event_stream import event_data
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.wire import read_response
from eagle_assets.serving.gateway import leaves_stop_uncounted, normalises, rewrites_calls, trims
from eagle_assets.serving.served import Frame, Served, Situation
from eagle_assets.serving.servers import SGLANG_0_5_8, SGLANG_0_5_23, VLLM_0_33, VLLM_0_33_WITHOUT_BLANKS, Server
from eagle_assets.serving.stepping import possible_steppings
from eagle_assets.targets.kimi import target_named

TRUTH = Path(__file__).parents[3] / "shared" / "truth"

# The labels of the data only group its answers here; the code under test never sees them.
SERVERS = {
    "ServerS": SGLANG_0_5_23,
    "ServerV": VLLM_0_33,
    "ServerW": VLLM_0_33_WITHOUT_BLANKS,
    "ServerY": SGLANG_0_5_8,
    "ServerTokenIds": VLLM_0_33,
    "ServerTrim": SGLANG_0_5_23.behind(trims),
    "ServerNFC": SGLANG_0_5_23.behind(normalises),
    "ServerNoStop": SGLANG_0_5_23.behind(leaves_stop_uncounted),
    "ServerIds": VLLM_0_33_WITHOUT_BLANKS.behind(rewrites_calls),
}
RANDOM_ID = re.compile(r"call_[0-9a-f]{24}")


@cache
def known() -> dict[tuple[str, str | None], list[tuple[Exchange, dict[str, Any]]]]:
    """Exchanges with the record that tells their true ids, by kind of server and tokens a step (None: unstreamed)."""
    records = {}
    for line in (TRUTH / "truth.jsonl").read_bytes().splitlines():
        record = json.loads(line)
        records.update(dict.fromkeys(record["exchanges"], record))
    found: dict[tuple[str, str | None], list[tuple[Exchange, dict[str, Any]]]] = {}
    for file in sorted(TRUTH.glob("exchanges_*.jsonl")):
        for line in file.read_bytes().splitlines():
            exchange = exchange_of(json.loads(line))
            record = records[exchange.exchange_id]
            place = record["exchanges"][exchange.exchange_id]
            found.setdefault((place["persona"], place.get("tokens_per_step")), []).append((exchange, record))
    return found


def situation_of(exchange: Exchange) -> Situation:
    target, request = target_named(exchange.model), exchange.request
    history = sum(len(message.get("tool_calls") or ()) for message in request["messages"])
    tools = tuple(request.get("tools") or ())
    return Situation(target, target.thinks(request), tools, history, bool(request.get("stream")))


def frames_of(exchange: Exchange) -> Iterator[Frame]:
    """The frames as they came, those without text included."""
    for data in event_data(exchange.body):
        if data.strip() == b"[DONE]":
            return
        for choice in json.loads(data)["choices"]:
            delta = choice.get("delta") or {}
            if delta.get("reasoning"):
                yield Frame("reasoning", delta["reasoning"])
            if delta.get("content"):
                yield Frame("content", delta["content"])
            for call in delta.get("tool_calls") or ():
                function = call["function"]
                yield Frame(
                    "tool_calls", function.get("arguments") or "", call["index"], call.get("id"), function.get("name")
                )


def shown(served: Served) -> dict[str, Any]:
    """What a client sees; ids that a gateway draws at random only as that."""
    message = served.message
    return {
        "reasoning": message.reasoning or "",
        "content": message.content or "",
        "calls": [(RANDOM_ID.sub("random", c.id), c.name, c.arguments) for c in message.tool_calls],
        "finish reason": served.finish_reason,
        "completion tokens": served.completion_tokens,
        "reasoning tokens": served.reasoning_tokens,
    }


def received(response: Response) -> dict[str, Any]:
    return {
        "reasoning": response.reasoning or "",
        "content": response.content or "",
        "calls": [(RANDOM_ID.sub("random", c.id or ""), c.name, c.arguments or "") for c in response.tool_calls],
        "finish reason": response.finish_reason,
        "completion tokens": response.completion_tokens,
        "reasoning tokens": response.reasoning_tokens or 0,
    }


def stepping_fits(server: Server, exchange: Exchange, ids: list[int]) -> bool:
    """Whether steps of 2 to 4 tokens explain the frames and the count of reasoning tokens."""
    situation, frames = situation_of(exchange), tuple(frames_of(exchange))
    expected = received(read_response(exchange))
    for stepping in possible_steppings(server, ids, situation, frames, range(2, 5)):
        served = server.render(ids, situation, stepping.sizes)
        if served.frames == frames and shown(served) == expected:
            return True
    return False


if TRUTH.is_dir():
    UNSTREAMED = sorted(kind for kind, tokens in known() if tokens is None)
    ONE_A_STEP = sorted(kind for kind, tokens in known() if tokens == "1")
    SEVERAL_A_STEP = sorted(kind for kind, tokens in known() if tokens not in (None, "1"))

    def test_every_kind_of_server_has_a_model() -> None:
        assert {kind for kind, _ in known()} == SERVERS.keys()

    @pytest.mark.parametrize("kind", UNSTREAMED)
    def test_unstreamed_answers(kind: str) -> None:
        answers = known()[kind, None]
        differing = {}
        for exchange, record in answers:
            made = shown(SERVERS[kind].render(record["true_ids"], situation_of(exchange)))
            expected = received(read_response(exchange))
            if made != expected:
                differing[exchange.exchange_id] = made, expected
        assert answers
        assert not differing

    @pytest.mark.parametrize("kind", ONE_A_STEP)
    def test_streams_of_one_token_a_step(kind: str) -> None:
        answers = known()[kind, "1"]
        differing = {}
        for exchange, record in answers:
            served = SERVERS[kind].render(record["true_ids"], situation_of(exchange))
            expected = received(read_response(exchange))
            if shown(served) != expected or served.frames != tuple(frames_of(exchange)):
                differing[exchange.exchange_id] = shown(served), expected
        assert answers
        assert not differing

    @pytest.mark.parametrize("kind", SEVERAL_A_STEP)
    def test_streams_of_several_tokens_a_step(kind: str) -> None:
        answers = known()[kind, "2-4"]
        unexplained = [
            e.exchange_id for e, record in answers if not stepping_fits(SERVERS[kind], e, record["true_ids"])
        ]
        assert answers
        assert not unexplained

    def test_ids_that_were_not_sent_are_refuted_by_frames() -> None:
        # One ordinary token replaced by another of the same length in characters, at the middle of each output.
        refuted = tried = 0
        for exchange, record in known()["ServerS", "2-4"]:
            ids = list(record["true_ids"])
            middle = len(ids) // 2
            vocabulary = target_named(exchange.model).vocabulary
            if ids[middle] >= vocabulary.ordinary_size:
                continue
            other = replaced(vocabulary.token_bytes[ids[middle]])
            ids[middle] = vocabulary.id_of_bytes.get(other, ids[middle])
            if ids[middle] == record["true_ids"][middle]:
                continue
            tried += 1
            frames = tuple(frames_of(exchange))
            refuted += not possible_steppings(SGLANG_0_5_23, ids, situation_of(exchange), frames, range(1, 5))
        assert tried >= 10
        assert refuted == tried


def replaced(text: bytes) -> bytes:
    return text[:-1] + (b"a" if text[-1:] != b"a" else b"e")
