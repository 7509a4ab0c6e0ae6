"""Named servers: a detokeniser and parsers, put together as real releases do, and what gateways do on top."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Protocol

from eagle_assets.serving.detokenise import Detokeniser, SglangDetokeniser, VllmDetokeniser
from eagle_assets.serving.served import Frame, Message, Served, Situation, ToolCall
from eagle_assets.serving.sglang import Sglang0523Parsers
from eagle_assets.serving.sglang_early import (
    SGLANG_0_5_8_PARSERS,
    SGLANG_0_5_9_PARSERS,
    SGLANG_0_5_10_PARSERS,
    SGLANG_0_5_12_PARSERS,
)
from eagle_assets.serving.vllm import VllmParsers

Modifier = Callable[[Served, Situation], Served]


class ParsedStream(Protocol):
    """One stream on its way through a server's parsers."""

    def feed(self, text: str, ids: Sequence[int], last: bool) -> Iterator[Frame]:
        """The frames that a decoding step makes the server send."""
        ...

    @property
    def reasoning_tokens(self) -> int:
        """What `reasoning_tokens` would say if the stream ended here."""
        ...


class Parsers(Protocol):
    """What a server's parsers make of text."""

    def message(self, text: str, situation: Situation) -> tuple[Message, bool]:
        """The message of an unstreamed answer, and whether its finish reason is `tool_calls`."""
        ...

    def stream(self, situation: Situation) -> ParsedStream: ...

    def reasoning_tokens(self, ids: Sequence[int], situation: Situation) -> int: ...


class ServerStream:
    """One stream of a server, step by step."""

    def __init__(self, server: Server, situation: Situation) -> None:
        self._detokenising = server.detokeniser.start(situation)
        self._parsing = server.parsers.stream(situation)

    def feed(self, ids: Sequence[int], last: bool) -> tuple[Frame, ...]:
        """The frames that the server sends after a step of these ids; `last` after the last one."""
        return tuple(self._parsing.feed(self._detokenising.add(ids, last), ids, last))

    @property
    def reasoning_tokens(self) -> int:
        return self._parsing.reasoning_tokens


@dataclass(frozen=True, slots=True)
class Server:
    """A server as it runs. Its parsers read text, so what it shows is decided by the text, not by what the ids meant.

    `modifiers` are what a provider's gateway does to the server's answer, in order.
    """

    name: str
    detokeniser: Detokeniser
    parsers: Parsers
    modifiers: tuple[Modifier, ...] = ()

    def render(self, ids: Sequence[int], situation: Situation, steps: Sequence[int] | None = None) -> Served:
        """What the server shows of `ids`; `steps` are the tokens of each decoding step of a stream (default: one)."""
        frames: tuple[Frame, ...] = ()
        if situation.streamed:
            stream = self.stream(situation)
            frames = tuple(frame for step, last in _cut(ids, steps) for frame in stream.feed(step, last))
            message, reasoning_tokens = message_of_frames(frames), stream.reasoning_tokens
            ends_with_calls = bool(message.tool_calls)
        else:
            text = self.detokeniser.start(situation).add(ids, last=True)
            message, ends_with_calls = self.parsers.message(text, situation)
            reasoning_tokens = self.parsers.reasoning_tokens(ids, situation)
        stopped = bool(ids) and ids[-1] == situation.target.markers.stop
        served = Served(
            message=message,
            frames=frames,
            finish_reason="length" if not stopped else "tool_calls" if ends_with_calls else "stop",
            completion_tokens=len(ids),
            reasoning_tokens=reasoning_tokens,
            prompt_offset=0,
        )
        for modifier in self.modifiers:
            served = modifier(served, situation)
        return served

    def stream(self, situation: Situation) -> ServerStream:
        """A stream to feed step by step."""
        return ServerStream(self, situation)

    def behind(self, *modifiers: Modifier) -> Server:
        """The same server behind a gateway that does this to its answers."""
        name = " ".join((self.name, *(modifier.__name__.replace("_", " ") for modifier in modifiers)))
        return replace(self, name=name, modifiers=(*self.modifiers, *modifiers))


def message_of_frames(frames: Iterable[Frame]) -> Message:
    """The message that a client puts together from a stream."""
    texts = {"reasoning": "", "content": ""}
    calls: dict[int, ToolCall] = {}
    for frame in frames:
        if frame.call is None:
            texts[frame.field] += frame.text
            continue
        call = calls.get(frame.call, ToolCall("", "", ""))
        arguments = call.arguments + frame.text
        calls[frame.call] = ToolCall(call.id or frame.id or "", call.name or frame.name or "", arguments)
    return Message(texts["reasoning"] or None, texts["content"] or None, tuple(calls.values()))


def _cut(ids: Sequence[int], steps: Sequence[int] | None) -> Iterator[tuple[Sequence[int], bool]]:
    """The ids of each step, and whether it is the last; one id a step where `steps` run out."""
    start = 0
    for size in chain(steps or (), repeat(1)):
        if start >= len(ids):
            return
        yield ids[start : start + size], start + size >= len(ids)
        start += size


VLLM_0_33 = Server("vLLM 0.33", VllmDetokeniser(), VllmParsers())
VLLM_0_33_WITHOUT_BLANKS = Server("vLLM 0.33 without blanks", VllmDetokeniser(blanks=False), VllmParsers())
"""`spaces_between_special_tokens` off, or a tokenizer that is "fast"."""

SGLANG_0_5_23 = Server("SGLang 0.5.23", SglangDetokeniser(), Sglang0523Parsers())
SGLANG_0_5_12 = Server("SGLang 0.5.12", SglangDetokeniser(), SGLANG_0_5_12_PARSERS)
SGLANG_0_5_10 = Server("SGLang 0.5.10", SglangDetokeniser(), SGLANG_0_5_10_PARSERS)
SGLANG_0_5_9 = Server("SGLang 0.5.9", SglangDetokeniser(blanks=True), SGLANG_0_5_9_PARSERS)
SGLANG_0_5_8 = Server("SGLang 0.5.8", SglangDetokeniser(blanks=True), SGLANG_0_5_8_PARSERS)

KNOWN_SERVERS = (
    VLLM_0_33,
    VLLM_0_33_WITHOUT_BLANKS,
    SGLANG_0_5_23,
    SGLANG_0_5_12,
    SGLANG_0_5_10,
    SGLANG_0_5_9,
    SGLANG_0_5_8,
)
