"""Probe prompts: for each pair of rival conventions, requests whose answers the two would count or show otherwise.

Each probe asks for an answer that is known ahead. It is kept for a pair only if the forward models of both say that
the answer, served by one, cannot have come from the other; the decision does not need the model to obey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, islice
from typing import Any

from eagle_assets.reconstruction.evidence.reading import situation_of
from eagle_assets.reconstruction.probing.probe_decision import REFUTATIONS_NEEDED, Answer, explains, next_index
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.output import Call, Output, join_output
from eagle_assets.serving.served import Message
from eagle_assets.targets.target import Target
from eagle_assets.targets.vocabulary import Vocabulary

PROBES_A_PAIR = REFUTATIONS_NEEDED + 2
"""Answers asked for each pair: as many as must agree, and some for answers that are other than asked for."""

_SHORT, _CALLING, _THINKING = 32, 128, 1024  # max_tokens


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a convention makes of the expected answer: the message, and `completion_tokens`."""

    convention: str
    message: Message
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A request that tells two conventions apart, with what each predicts of the answer that is asked for.

    `expected` is that answer as the model generates it.
    """

    one: Prediction
    other: Prediction
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    thinking: bool
    max_tokens: int
    expected: Output[str]
    why: str

    def request(self, target: Target, streamed: bool = False) -> dict[str, Any]:
        """The body to send, without routing: `provider` must name the one provider that is asked."""
        return _body(self.messages, self.tools, self.thinking, self.max_tokens, target, streamed)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with the answer that it asks for."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    thinking: bool
    max_tokens: int
    expected: Output[str]
    why: str


def probe_requests(target: Target, rivals: Sequence[Convention], streamed: bool = False) -> list[Probe]:
    """PROBES_A_PAIR probes for each pair of rivals, the cheapest kind that tells them apart.

    Many pairs share their requests: see `distinct_requests`. A pair without a probe is one that no answer in the
    forms asked for can tell apart.
    """
    probes: list[Probe] = []
    for one, other in combinations(rivals, 2):
        for asked in _kinds_of_requests(target):
            telling = [_probe(each, one, other, target, streamed) for each in asked]
            if all(telling):
                probes += filter(None, telling)
                break
    return probes


def distinct_requests(probes: Sequence[Probe], target: Target, streamed: bool = False) -> list[dict[str, Any]]:
    """The bodies that have to be sent for all these probes, each once."""
    found: list[dict[str, Any]] = []
    for probe in probes:
        body = probe.request(target, streamed)
        if body not in found:
            found.append(body)
    return found


def words_changed_by_a_blank(vocabulary: Vocabulary) -> list[str]:
    """Words that are one token at the start of a text and two behind a blank: numbers, Chinese, Latin, in turn.

    The most frequent ones of the vocabulary first, which BPE learnt first.
    """
    kinds = (_is_number, _is_chinese, _is_latin)
    found = [list(islice(_changed(vocabulary, kind), 8)) for kind in kinds]
    return [word for row in zip(*found, strict=True) for word in row]


def _probe(asked: _Asked, one: Convention, other: Convention, target: Target, streamed: bool) -> Probe | None:
    """The probe that this request is for two conventions; None where its answer may come from both."""
    one_says, other_says = (_served(asked, convention, target, streamed) for convention in (one, other))
    if explains(other, one_says) or explains(one, other_says):
        return None
    return Probe(
        one=Prediction(one.name, one_says.message, one_says.completion_tokens),
        other=Prediction(other.name, other_says.message, other_says.completion_tokens),
        messages=asked.messages,
        tools=asked.tools,
        thinking=asked.thinking,
        max_tokens=asked.max_tokens,
        expected=asked.expected,
        why=asked.why,
    )


def _served(asked: _Asked, convention: Convention, target: Target, streamed: bool) -> Answer:
    """The expected answer as a server of this convention gives it."""
    request = _body(asked.messages, asked.tools, asked.thinking, asked.max_tokens, target, streamed)
    situation = situation_of(request, target, streamed)
    begun = convention.think_generated and situation.thinking
    ids = replace(asked.expected, think_begun=begun).over(lambda text: tuple(target.vocabulary.encode(text)))
    served = convention.render(join_output(ids, target.markers), situation)
    return Answer("expected", served.message, served.completion_tokens, situation, next_index(request))


def _body(
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    thinking: bool,
    max_tokens: int,
    target: Target,
    streamed: bool,
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": target.name,
        "messages": list(messages),
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": streamed,
    }
    if tools:
        body["tools"] = list(tools)
    if target.thinking == "switchable":
        body["reasoning"] = {"enabled": thinking}
    return body


@cache
def _kinds_of_requests(target: Target) -> tuple[tuple[_Asked, ...], ...]:
    """Every kind of request, the cheapest first, with as many words each as there are probes of a pair."""
    words = words_changed_by_a_blank(target.vocabulary)[:PROBES_A_PAIR]
    thinks = target.thinking == "always"
    kinds = [
        tuple(ask(word, thinks) for word in words)
        for ask in (_text, _text_with_white_space, _call, _call_after_text, _call_after_many)
    ]
    if target.thinking != "never":
        kinds.append(tuple(_thought(word) for word in words))
        kinds.append(tuple(_call_after_text(word, thinking=True) for word in words))
    return tuple(kinds)


def _text(word: str, thinking: bool) -> _Asked:
    why = f"{word!r} is one token, and two behind a blank"
    prompt = f"Answer with exactly this, and nothing before or after it: {word}"
    return _Asked(_user(prompt), (), thinking, _SHORT, _answer(word, "" if thinking else None), why)


def _text_with_white_space(word: str, thinking: bool) -> _Asked:
    why = "white space at both ends shows where it is kept, and is counted where it is trimmed"
    prompt = (
        "Answer with an indented code block: four spaces, then this and nothing else, then an empty line after it: "
        f"{word}"
    )
    answer = _answer(f"    {word}\n\n", "" if thinking else None)
    return _Asked(_user(prompt), (), thinking, _SHORT, answer, why)


def _thought(word: str) -> _Asked:
    why = f"a reasoning that begins with {word!r}, which is one token, and two behind a blank"
    prompt = f"Begin your thinking with the word {word}, think in a few words only, then answer with exactly: {word}"
    return _Asked(_user(prompt), (), True, _THINKING, _answer(word, f"{word}, as I was asked."), why)


def _call(word: str, thinking: bool) -> _Asked:
    why = "arguments of two entries, whose count changes with their spacing"
    prompt = f"Call look_up with q = {word} and n = 3. Say nothing."
    calls = (("functions.look_up:0", f'{{"q": "{word}", "n": 3}}'),)
    return _Asked(_user(prompt), _TOOLS, thinking, _CALLING, _answer("", "" if thinking else None, calls), why)


def _call_after_text(word: str, thinking: bool) -> _Asked:
    why = f"a content that begins with {word!r} and ends before a call, where a blank more is a token more"
    prompt = f"Write exactly this, and nothing else: {word}. Then call look_up with q = {word} and n = 3."
    calls = (("functions.look_up:0", f'{{"q": "{word}", "n": 3}}'),)
    reasoning = f"{word}, as I was asked." if thinking else None
    limit = _THINKING if thinking else _CALLING
    return _Asked(_user(prompt), _TOOLS, thinking, limit, _answer(f"{word}.", reasoning, calls), why)


def _call_after_many(word: str, thinking: bool) -> _Asked:
    why = "the history's last call has number 999: 1000 is a token more than the 1 of a server that numbers anew"
    history = (
        *_user("Call look_up with q = one and n = 1."),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "functions.look_up:999",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": '{"q": "one", "n": 1}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "functions.look_up:999", "content": "found"},
        *_user(f"Call look_up again, with q = {word} and n = 3. Say nothing."),
    )
    calls = (("functions.look_up:1000", f'{{"q": "{word}", "n": 3}}'),)
    return _Asked(history, _TOOLS, thinking, _CALLING, _answer("", "" if thinking else None, calls), why)


def _answer(content: str, reasoning: str | None, calls: Sequence[tuple[str, str]] = ()) -> Output[str]:
    return Output(
        think_begun=False,
        reasoning=reasoning,
        reasoning_closed=reasoning is not None,
        content=content,
        section_begun=bool(calls),
        calls=tuple(Call(header, arguments, closed=True) for header, arguments in calls),
        section_closed=bool(calls),
        stopped=True,
    )


def _user(text: str) -> tuple[dict[str, Any], ...]:
    return ({"role": "user", "content": text},)


_TOOLS: tuple[dict[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Look something up.",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["q", "n"],
            },
        },
    },
)


def _changed(vocabulary: Vocabulary, kind: Callable[[str], bool]) -> Iterator[str]:
    for token, data in enumerate(vocabulary.token_bytes):
        text = data.decode("utf-8", "replace")
        if kind(text) and vocabulary.encode(text) == [token] and len(vocabulary.encode(f" {text}")) == 2:
            yield text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) == 2 and text[0] != "0"


def _is_chinese(text: str) -> bool:
    return len(text) == 2 and all("\u4e00" <= character <= "\u9fff" for character in text)


def _is_latin(text: str) -> bool:
    return text.isascii() and text.isalpha() and len(text) >= 5 and text.istitle()
