"""SGLang 0.5.8 to 0.5.12 with its Kimi K2 parsers, as an executable forward model.

Source: sglang 0.5.8, 0.5.9, 0.5.10 and 0.5.12, srt/parser/reasoning_parser.py (BaseReasoningFormatDetector; for
kimi_k2 the detector of DeepSeek-R1, then that of Qwen3, then its own), srt/function_call/kimik2_detector.py,
srt/entrypoints/openai/serving_chat.py. Only 0.5.8 is held against known answers; the others are read from the source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from eagle_assets.serving.served import Frame, Message, Situation, ToolCall
from eagle_assets.serving.sglang import (
    ARGUMENTS_BEGIN,
    CALL_BEGIN,
    CALL_END,
    SECTION_BEGIN,
    SECTION_END,
    THINK_BEGIN,
    THINK_END,
    TOOL_MARKERS,
    ReasoningCount,
    tool_id,
    tool_name,
)

_ANY_CALL = re.compile(rf"{re.escape(CALL_BEGIN)}.*?{re.escape(CALL_END)}", re.DOTALL)
_INDEX = re.compile(r"\d+\Z")


@dataclass(frozen=True)
class EarlySglangParsers:
    """`--reasoning-parser kimi_k2 --tool-call-parser kimi_k2`; what differs between releases:

    - `header`: the pattern of headers that are read; `lines`: whether arguments may have line breaks;
    - `always_thinks`: every answer is taken to begin in the reasoning, whatever was asked for;
    - `section_ends_reasoning`: a tool section ends a reasoning that is still open;
    - `leaks`: after a call whose arguments are no JSON, further text of a stream's section goes into them;
    - `removed`: the markers that are taken out of a stream's text outside of calls;
    - `counts_reasoning`: whether `reasoning_tokens` is counted, or 0.
    """

    header: str = r"[\w.]+:\d+"
    lines: bool = True
    always_thinks: bool = False
    section_ends_reasoning: bool = True
    leaks: bool = False
    removed: tuple[str, ...] = TOOL_MARKERS
    counts_reasoning: bool = True

    def message(self, text: str, situation: Situation) -> tuple[Message, bool]:
        """The message of an unstreamed answer, and whether its finish reason is `tool_calls`.

        The whole is stripped before it is split, the content again after it. A section in which no call parses
        stays in the content with its markers, and still finishes with `tool_calls`. Calls keep the model's index.
        """
        reasoning, content = self._split(text, situation)
        calls: list[ToolCall] = []
        has_section = bool(situation.tools) and SECTION_BEGIN in content
        if has_section:
            for header, arguments in self.whole_call.findall(content):
                name, index = tool_name(header, arguments, situation.tools), _INDEX.search(header)
                if name is not None and index is not None:
                    calls.append(ToolCall(tool_id(name, int(index[0]), situation), name, arguments))
            if calls:
                content = content[: content.find(SECTION_BEGIN)]
        return Message(reasoning or None, content or None, tuple(calls)), has_section

    def _split(self, text: str, situation: Situation) -> tuple[str, str]:
        if situation.target.thinking == "never" or not self.thinks(situation, text):
            return "", text
        text = text.replace(THINK_BEGIN, "").strip()
        if self.section_ends_reasoning and THINK_END not in text and SECTION_BEGIN in text:
            at = text.find(SECTION_BEGIN)
            return text[:at].strip(), text[at:]
        reasoning, _, content = text.partition(THINK_END)
        return reasoning, content.strip()

    def thinks(self, situation: Situation, text: str = "") -> bool:
        return self.always_thinks or situation.thinking or THINK_BEGIN in text

    @cached_property
    def whole_call(self) -> re.Pattern[str]:
        return self._pattern(rf"(\{{.*?\}})\s*{re.escape(CALL_END)}")

    @cached_property
    def open_call(self) -> re.Pattern[str]:
        return self._pattern(r"(\{.*)")

    def _pattern(self, arguments: str) -> re.Pattern[str]:
        begin = rf"{re.escape(CALL_BEGIN)}\s*({self.header})\s*{re.escape(ARGUMENTS_BEGIN)}\s*"
        return re.compile(begin + arguments, re.DOTALL if self.lines else 0)

    def stream(self, situation: Situation) -> EarlySglangStream:
        return EarlySglangStream(self, situation)

    def reasoning_tokens(self, ids: Sequence[int], situation: Situation) -> int:
        """Tokens up to and with `</think>`, or all where it does not come."""
        return ReasoningCount(situation).add(ids) if self.counts_reasoning else 0


SGLANG_0_5_8_PARSERS = EarlySglangParsers(
    lines=False,
    always_thinks=True,
    section_ends_reasoning=False,
    leaks=True,
    removed=(SECTION_END, CALL_END),
    counts_reasoning=False,
)
SGLANG_0_5_9_PARSERS = EarlySglangParsers(
    section_ends_reasoning=False, leaks=True, removed=(SECTION_END, CALL_END), counts_reasoning=False
)
SGLANG_0_5_10_PARSERS = EarlySglangParsers(header=r"[\w.\-]+:\d+")
SGLANG_0_5_12_PARSERS = EarlySglangParsers(header=r"[^\s<|]+")


class EarlySglangStream:
    """One stream: what the reasoning parser leaves goes to the tool parser, if the request has tools."""

    def __init__(self, parsers: EarlySglangParsers, situation: Situation) -> None:
        self._has_tools = bool(situation.tools)
        self._thoughts = _ReasoningStream(parsers, situation)
        self._calls = _ToolStream(parsers, situation)
        self._count = ReasoningCount(situation) if parsers.counts_reasoning else None
        self.reasoning_tokens = 0

    def feed(self, text: str, ids: Sequence[int], last: bool) -> Iterator[Frame]:
        """The frames of one step."""
        if self._count:
            self.reasoning_tokens = self._count.add(ids)
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
    """Reasoning up to `</think>`; a text that is nothing but a marker's beginning waits, and is lost at the end."""

    def __init__(self, parsers: EarlySglangParsers, situation: Situation) -> None:
        self._reads = situation.target.thinking != "never"
        self._inside = parsers.thinks(situation)
        self._sections = (SECTION_BEGIN,) if parsers.section_ends_reasoning else ()
        self._begin_seen = False
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        if not self._reads:
            return "", text
        text, self._held = self._held + text, ""
        if any(marker.startswith(text) and marker != text for marker in (THINK_BEGIN, THINK_END, *self._sections)):
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
        for marker in self._sections:
            if marker in text:
                self._inside = False
                at = text.find(marker)
                return text[:at], text[at:]
        return text, ""


class _ToolStream:
    """Reads calls out of a stream of content; a call is over as soon as its arguments are whole.

    From a marker on, text waits until the calls are read; what still waits at the end is lost.
    """

    def __init__(self, parsers: EarlySglangParsers, situation: Situation) -> None:
        self._situation = situation
        self._pattern = parsers.open_call
        self._removed, self._leaks = parsers.removed, parsers.leaks
        self._held = ""
        self._position = 0
        self._named = False
        self._seen = ""
        self._sent: list[str] = []
        self._whole = "{}"

    def feed(self, text: str) -> Iterator[Frame]:
        self._held += text
        held = self._held
        if SECTION_BEGIN not in held and CALL_BEGIN not in held:
            self._held = ""
            for marker in self._removed:
                text = text.replace(marker, "")
            if text:
                yield Frame("content", text)
            return
        match = self._pattern.search(held)
        if not match:
            return
        if self._named:
            yield from self._continue(match[2])
            return
        name = tool_name(match[1], match[2], self._situation.tools)
        if name is not None:
            self._named, self._whole = True, "{}"
            self._sent.append("")
            yield Frame("tool_calls", "", self._position, tool_id(name, self._position, self._situation), name)

    def _continue(self, rest: str) -> Iterator[Frame]:
        """Send what is new in `rest`, which is the text from the arguments' `{` on."""
        new = rest[len(self._seen) :] if rest.startswith(self._seen) else rest
        shown = new.split(CALL_END, 1)[0]
        if shown:
            self._seen += new if self._leaks else shown
            self._sent[-1] += shown
            yield Frame("tool_calls", shown, self._position)
        arguments = rest.split(CALL_END, 1)[0]
        if not _is_json(arguments):
            return
        self._whole = json.dumps(json.loads(arguments), ensure_ascii=False)
        over = _ANY_CALL.search(self._held)
        self._held = self._held[over.end() :] if over else ""
        self._position += 1
        self._seen, self._named = "", False

    def finish(self) -> Iterator[Frame]:
        """What was parsed of the last call's arguments, but not sent."""
        if self._sent and self._sent[-1] in self._whole:
            rest = self._whole.replace(self._sent[-1], "", 1)
            if rest:
                yield Frame("tool_calls", rest, len(self._sent) - 1)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True
