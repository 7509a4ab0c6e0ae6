"""SGLang 0.5.8 with its Kimi K2 parsers, as an executable forward model.

Source: sglang 0.5.8, srt/parser/reasoning_parser.py (BaseReasoningFormatDetector, DeepSeekR1Detector for kimi_k2),
srt/function_call/kimik2_detector.py, srt/entrypoints/openai/serving_chat.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eagle_assets.serving.served import Frame, Message, Situation, ToolCall
from eagle_assets.serving.sglang import (
    ARGUMENTS_BEGIN,
    CALL_BEGIN,
    CALL_END,
    SECTION_BEGIN,
    SECTION_END,
    THINK_BEGIN,
    THINK_END,
    tool_id,
)

# Names hold no hyphen here, and arguments no line break: the dot of the pattern does not match one.
_OPEN_CALL = re.compile(
    rf"{re.escape(CALL_BEGIN)}\s*([\w.]+:\d+)\s*{re.escape(ARGUMENTS_BEGIN)}\s*(\{{.*)",
)
_WHOLE_CALL = re.compile(
    rf"{re.escape(CALL_BEGIN)}\s*([\w.]+:\d+)\s*{re.escape(ARGUMENTS_BEGIN)}\s*(\{{.*?\}})\s*{re.escape(CALL_END)}",
)
_ANY_CALL = re.compile(rf"{re.escape(CALL_BEGIN)}.*?{re.escape(CALL_END)}", re.DOTALL)


def _name_and_index(header: str) -> tuple[str, int]:
    name, _, index = header.removeprefix("functions.").rpartition(":")
    return name or header, int(index)


@dataclass(frozen=True, slots=True)
class Sglang058Parsers:
    """`--reasoning-parser kimi_k2 --tool-call-parser kimi_k2`: every answer is taken to begin in the reasoning."""

    def message(self, text: str, situation: Situation) -> tuple[Message, bool]:
        """The message of an unstreamed answer, and whether its finish reason is `tool_calls`.

        The whole is stripped before it is split, the content again after it. A section in which no call parses
        stays in the content with its markers, and still finishes with `tool_calls`.
        """
        reasoning, content = "", text
        if situation.target.thinking != "never":
            text = text.replace(THINK_BEGIN, "").strip()
            reasoning, _, content = text.partition(THINK_END)
            content = content.strip()
        calls: tuple[ToolCall, ...] = ()
        has_section = bool(situation.tools) and SECTION_BEGIN in content
        if has_section:
            calls = tuple(
                ToolCall(tool_id(name, index, situation), name, arguments)
                for header, arguments in _WHOLE_CALL.findall(content)
                for name, index in [_name_and_index(header)]
            )
            if calls:
                content = content[: content.find(SECTION_BEGIN)]
        return Message(reasoning or None, content or None, calls), has_section

    def stream(self, situation: Situation) -> Sglang058Stream:
        return Sglang058Stream(situation)

    def reasoning_tokens(self, ids: Sequence[int], situation: Situation) -> int:
        """This version does not count them."""
        return 0


class Sglang058Stream:
    """One stream: what the reasoning parser leaves goes to the tool parser, if the request has tools."""

    reasoning_tokens = 0

    def __init__(self, situation: Situation) -> None:
        self._has_tools = bool(situation.tools)
        self._thoughts = _ReasoningStream(situation.target.thinking != "never")
        self._calls = _ToolStream(situation)

    def feed(self, text: str, ids: Sequence[int], last: bool) -> Iterator[Frame]:
        """The frames of one step."""
        reasoning, content = self._thoughts.feed(text)
        if reasoning:
            yield Frame("reasoning", reasoning)
        if self._has_tools:
            yield from self._calls.feed(content)
        elif content:
            yield Frame("content", content)
        if last:
            yield from self._calls.finish()


class _ReasoningStream:
    """Everything is reasoning up to `</think>`; only a text that is nothing but a marker's beginning waits."""

    def __init__(self, inside: bool) -> None:
        self._inside = inside
        self._reads = inside
        self._begin_seen = False
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        if not self._reads:
            return "", text
        text, self._held = self._held + text, ""
        if any(marker.startswith(text) and marker != text for marker in (THINK_BEGIN, THINK_END)):
            self._held = text
            return "", ""
        if not self._begin_seen and THINK_BEGIN in text:
            text, self._begin_seen, self._inside = text.replace(THINK_BEGIN, ""), True, True
        if not self._inside:
            return "", text
        if THINK_END in text:
            self._inside = False
            reasoning, _, content = text.partition(THINK_END)
            return reasoning.rstrip(), content
        return text, ""


class _ToolStream:
    """Reads calls out of a stream of content. From the first marker on, text that is no call waits until all calls
    are read, and comes out after them; at the end what still waits is lost."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._held = ""
        self._position = 0
        self._named = False
        self._last = ""
        self._sent: list[str] = []
        self._parsed: list[object] = []

    def feed(self, text: str) -> Iterator[Frame]:
        self._held += text
        held = self._held
        if SECTION_BEGIN not in held and CALL_BEGIN not in held:
            self._held = ""
            content = text.replace(SECTION_END, "").replace(CALL_END, "")
            if content:
                yield Frame("content", content)
            return
        match = _OPEN_CALL.search(held)
        if not match:
            return
        name, _ = _name_and_index(match[1])
        arguments = match[2]
        while len(self._sent) <= self._position:
            self._sent.append("")
            self._parsed.append({})
        if not self._named:
            self._named = True
            id = tool_id(name, self._position, self._situation)
            yield Frame("tool_calls", "", self._position, id, name)
            return
        new = arguments[len(self._last) :] if arguments.startswith(self._last) else arguments
        shown = new.split(CALL_END, 1)[0]
        if shown:
            self._last += new
            self._sent[self._position] += shown
            yield Frame("tool_calls", shown, self._position)
        try:
            self._parsed[self._position] = json.loads(arguments.split(CALL_END, 1)[0])
        except ValueError:
            return
        whole = _ANY_CALL.search(held)
        self._held = held[whole.end() :] if whole else ""
        self._position += 1
        self._last, self._named = "", False

    def finish(self) -> Iterator[Frame]:
        """The part of the last call's arguments that was parsed, but not sent."""
        if not self._sent:
            return
        whole, sent = json.dumps(self._parsed[-1], ensure_ascii=False), self._sent[-1]
        rest = whole.replace(sent, "", 1) if sent in whole else ""
        if rest:
            yield Frame("tool_calls", rest, len(self._sent) - 1)
