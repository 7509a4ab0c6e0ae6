"""SGLang 0.5.23 with its Kimi K2 parsers, as an executable forward model.

Both parsers read text alone: markers that the model only wrote about count like generated ones.
Source: sglang 0.5.23, srt/parser/reasoning_parser.py (BaseReasoningFormatDetector, KimiK2Detector),
srt/function_call/kimik2_detector.py (KimiK2Detector), srt/entrypoints/openai/serving_chat.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eagle_assets.serving.served import Frame, Message, Situation, ToolCall

THINK_BEGIN, THINK_END = "<think>", "</think>"
SECTION_BEGIN, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL_BEGIN, CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
ARGUMENTS_BEGIN = "<|tool_call_argument_begin|>"

TOOL_MARKERS = (SECTION_BEGIN, SECTION_END, CALL_BEGIN, CALL_END, ARGUMENTS_BEGIN)
_WHOLE_CALL = re.compile(
    rf"{re.escape(CALL_BEGIN)}\s*([^\s<|]+)\s*{re.escape(ARGUMENTS_BEGIN)}\s*(\{{.*?\}})\s*{re.escape(CALL_END)}",
    re.DOTALL,
)
_HEADER = re.compile(r"(?:functions\.)?([\w.\-]+):\d+")


def without_tool_markers(text: str) -> str:
    for marker in TOOL_MARKERS:
        text = text.replace(marker, "")
    return text


def length_of_beginning(text: str, markers: Iterable[str], least: int = 1) -> int:
    """Length of the longest end of `text` that is a marker's beginning, not all of it; 0 below `least`."""
    longest = 0
    for marker in markers if "<" in text else ():
        for length in range(min(len(text), len(marker) - 1), max(least, longest + 1) - 1, -1):
            if marker.startswith(text[-length:]):
                longest = length
                break
    return longest


def tool_name(header: str, arguments: str | None, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """The function that a header names; a bare number stands for the tool whose properties fit the arguments best."""
    match = _HEADER.fullmatch(header)
    if match:
        return match[1]
    return _fitting_tool(arguments, tools) if re.fullmatch(r"\d+", header) else None


def _fitting_tool(arguments: str | None, tools: Sequence[Mapping[str, Any]]) -> str | None:
    functions = [tool["function"] for tool in tools]
    if len(functions) == 1:
        return functions[0]["name"]
    try:
        keys = set(json.loads(arguments or ""))
    except (ValueError, TypeError):
        return None
    best, best_score = None, -1
    for function in functions:
        properties = set((function.get("parameters") or {}).get("properties") or ())
        score = len(keys & properties) - len(keys - properties)
        if properties and score > best_score:
            best, best_score = function["name"], score
    return best


def tool_id(name: str, position: int, situation: Situation) -> str:
    """The id that serving_chat gives: the model's own index is lost."""
    return f"functions.{name}:{situation.calls_in_history + position}"


@dataclass(frozen=True, slots=True)
class Sglang0523Parsers:
    """`--reasoning-parser kimi_k2 --tool-call-parser kimi_k2`; a model that never thinks has no reasoning parser."""

    def message(self, text: str, situation: Situation) -> tuple[Message, bool]:
        """The message of an unstreamed answer, and whether its finish reason is `tool_calls`.

        Calls that are cut, whose arguments are no `{…}` or whose header is not one word are dropped, and of a
        section only what precedes it stays.
        """
        reasoning, content = _split_reasoning(text, situation)
        calls: list[ToolCall] = []
        if situation.tools and SECTION_BEGIN in content:
            for header, arguments in _WHOLE_CALL.findall(content):
                name = tool_name(header, arguments, situation.tools)
                if name is not None:
                    calls.append(ToolCall(tool_id(name, len(calls), situation), name, arguments))
            content = content[: content.find(SECTION_BEGIN)]
        return Message(reasoning or None, content or None, tuple(calls)), bool(calls)

    def stream(self, situation: Situation) -> SglangStream:
        return SglangStream(situation)

    def reasoning_tokens(self, ids: Sequence[int], situation: Situation) -> int:
        """Tokens up to and with `</think>`, or all where it does not come."""
        return ReasoningCount(situation).add(ids)


class ReasoningCount:
    """Counts tokens up to and with `</think>`, which only a request that makes the model think has counted.

    Source: sglang from 0.5.10 on, srt/managers/schedule_batch.py (Req.update_reasoning_tokens).
    """

    def __init__(self, situation: Situation) -> None:
        self._end = situation.target.markers.think_end
        self._counting = situation.thinking
        self._count = 0

    def add(self, ids: Sequence[int]) -> int:
        """The count after these ids too."""
        if self._counting:
            self._counting = self._end not in ids
            self._count += len(ids) if self._counting else ids.index(self._end) + 1
        return self._count


class SglangStream:
    """One stream: what the reasoning parser leaves goes to the tool parser, if the request has tools."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._thoughts = _ReasoningStream(situation)
        self._calls = _ToolStream(situation)
        self._count = ReasoningCount(situation)
        self.reasoning_tokens = 0

    def feed(self, text: str, ids: Sequence[int], last: bool) -> Iterator[Frame]:
        """The frames of one step."""
        self.reasoning_tokens = self._count.add(ids)
        reasoning, content = self._thoughts.feed(text)
        if last:
            last_reasoning, last_content = self._thoughts.finish()
            reasoning, content = reasoning + last_reasoning, content + last_content
        if reasoning:
            yield Frame("reasoning", reasoning)
        if self._situation.tools:
            yield from self._calls.feed(content)
        elif content:
            yield Frame("content", content)
        if last:
            yield from self._calls.finish()


def _split_reasoning(text: str, situation: Situation) -> tuple[str, str]:
    if situation.target.thinking == "never" or not (situation.thinking or THINK_BEGIN in text):
        return "", text
    while text.startswith(THINK_BEGIN):
        text = text.removeprefix(THINK_BEGIN)
    if THINK_END in text:
        reasoning, _, content = text.partition(THINK_END)
        return reasoning, content
    at = text.find(SECTION_BEGIN)
    return (text, "") if at < 0 else (text[:at], text[at:])


class _ReasoningStream:
    """Splits a stream into reasoning and the rest; the beginning of a marker waits until it is decided."""

    def __init__(self, situation: Situation) -> None:
        self._reads = situation.target.thinking != "never"
        self._inside = situation.thinking
        self._begin_seen = False
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        if not self._reads:
            return "", text
        text, self._held = self._held + text, ""
        markers = (THINK_BEGIN, THINK_END, SECTION_BEGIN)
        if any(marker.startswith(text) and marker != text for marker in markers):
            self._held = text
            return "", ""
        if not self._begin_seen and THINK_BEGIN in text:
            text, self._begin_seen, self._inside = text.replace(THINK_BEGIN, "", 1), True, True
        if not self._inside:
            return "", text
        for marker, kept in ((THINK_END, ""), (SECTION_BEGIN, SECTION_BEGIN)):
            if marker in text:
                self._inside = False
                reasoning, _, content = text.partition(marker)
                return reasoning, kept + content
        waiting = length_of_beginning(text, markers[self._begin_seen :])
        self._held = text[len(text) - waiting :]
        return text[: len(text) - waiting], ""

    def finish(self) -> tuple[str, str]:
        held, self._held = self._held, ""
        return (held.removeprefix(THINK_BEGIN), "") if self._inside else ("", held)


class _ToolStream:
    """Reads calls out of a stream of content; markers outside of calls are taken out of the text.

    At the end a last call without arguments gets `{}`, and what was held back is lost.
    """

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._held = ""
        self._position = 0
        self._name: str | None = None
        self._sent: list[str] = []

    def feed(self, text: str) -> Iterator[Frame]:
        self._held += text
        content = ""
        frames: list[Frame] = []
        while True:
            begin = self._held.find(CALL_BEGIN)
            if begin < 0:
                waiting = 0
                if self._name is None or self._held:
                    waiting = length_of_beginning(self._held, (SECTION_BEGIN, CALL_BEGIN), least=2)
                    content += without_tool_markers(self._held[: len(self._held) - waiting])
                    self._held = self._held[len(self._held) - waiting :]
                break
            content += without_tool_markers(self._held[:begin])
            self._held = self._held[begin:]
            if not self._read_call(frames):
                break
        if content:
            yield Frame("content", content)
        yield from frames

    def _read_call(self, frames: list[Frame]) -> bool:
        """Read on in the call at the start of what is held; whether it is over."""
        held = self._held
        begin = held.find(ARGUMENTS_BEGIN)
        other = held.find(CALL_BEGIN, len(CALL_BEGIN))
        if other >= 0 and (begin < 0 or other < begin):
            self._held, self._name = held[other:], None
            return True
        if begin < 0:
            return False
        header = held[len(CALL_BEGIN) : begin].strip()
        end = held.find(CALL_END)
        rest = held[end + len(CALL_END) :]
        arguments = held[begin + len(ARGUMENTS_BEGIN) :] if end < 0 else held[begin + len(ARGUMENTS_BEGIN) : end]
        begins = self._name is None
        if self._name is None:
            self._name = tool_name(header, arguments, self._situation.tools)
            if self._name is None:
                if end >= 0:
                    self._held = rest
                return end >= 0
            self._sent.append("")
        new = arguments[len(self._sent[-1]) :]
        if begins:
            id = tool_id(self._name, self._position, self._situation)
            frames.append(Frame("tool_calls", new, self._position, id, self._name))
        elif new:
            frames.append(Frame("tool_calls", new, self._position))
        self._sent[-1] += new
        if end < 0:
            return False
        self._held, self._name = rest, None
        self._position += 1
        return True

    def finish(self) -> Iterator[Frame]:
        if self._sent and "{}".startswith(self._sent[-1]) and self._sent[-1] != "{}":
            yield Frame("tool_calls", "{}"[len(self._sent[-1]) :], len(self._sent) - 1)
