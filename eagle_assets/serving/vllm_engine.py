"""The reader of markup inside vLLM's parsers: text and ids to events, by a table of states.

Source: vllm 0.33, parser/kimi_k2.py (kimi_k2_config) and parser/engine/ (token_id_scanner, incremental_lexer,
streaming_parser_engine).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from eagle_assets.serving.detokenise import special_texts
from eagle_assets.targets.target import Target

State = Literal["reasoning", "content", "section", "header", "arguments", "between calls"]
Kind = Literal["reasoning", "content", "header", "arguments", "reasoning ends", "call begins", "call ends"]

_IN_SECTION: frozenset[State] = frozenset(("section", "header", "arguments", "between calls"))
_KIND_OF_TEXT: dict[State, Kind] = {
    "reasoning": "reasoning",
    "content": "content",
    "header": "header",
    "arguments": "arguments",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the engine met: text of a kind, or an edge. `call` counts from 0, -1 before the first."""

    kind: Kind
    text: str = ""
    call: int = -1


@dataclass(frozen=True, slots=True)
class Markup:
    """The literals that an engine looks for: the grammar's (text to terminal) and special tokens, which are dropped."""

    terminals: dict[str, str]
    pattern: re.Pattern[str]
    beginnings: frozenset[str]
    firsts: frozenset[str]
    longest: int

    def held(self, text: str) -> int:
        """Length of the longest end of `text` that may yet become a literal."""
        tail = text[1 - self.longest :]
        if self.firsts.isdisjoint(tail):
            return 0
        return next((len(tail) - i for i in range(len(tail)) if tail[i:] in self.beginnings), 0)


@cache
def markup_of(target: Target, thinking: bool) -> Markup:
    text, markers = target.vocabulary.special_text, target.markers
    terminals = {
        text[markers.section_begin]: "section begins",
        text[markers.section_end]: "section ends",
        text[markers.call_begin]: "call begins",
        text[markers.argument_begin]: "arguments begin",
        text[markers.call_end]: "call ends",
    }
    if thinking:
        terminals |= {text[markers.think_begin]: "think begins", text[markers.think_end]: "think ends"}
    terminals |= dict.fromkeys(special_texts(target), "special")
    return Markup(
        terminals,
        re.compile("|".join(map(re.escape, sorted(terminals, key=len, reverse=True)))),
        frozenset(literal[:length] for literal in terminals for length in range(1, len(literal))),
        frozenset(literal[0] for literal in terminals),
        max(map(len, terminals)),
    )


class Engine:
    """Reads one answer. Markers are known by their ids where ids come along, else by their text, typed or not.

    `thinking`: the grammar has a reasoning. `sees_calls`: off in the pass that only splits off the reasoning.
    `sees_thinking`: off where the server has no reasoning parser.
    """

    def __init__(
        self, target: Target, state: State, *, thinking: bool, sees_calls: bool = True, sees_thinking: bool = True
    ) -> None:
        self._vocabulary = target.vocabulary
        self._markup = markup_of(target, thinking)
        self._state: State = state
        self._sees_calls = sees_calls
        self._sees_thinking = sees_thinking
        self._by_id = False
        self._held = ""
        self._call = -1
        self._arguments = _HeldBraces()
        self.reasoning_tokens = 0

    def feed(self, text: str, ids: Sequence[int] = ()) -> list[Event]:
        """Events of one step. A marker that is held back as text is known again once its id is among `ids`."""
        self._by_id = self._by_id or bool(ids)
        events: list[Event] = []
        for piece, terminal, tokens in self._split(text, ids):
            if terminal is not None:
                events += self._text(self._release())
                events += self._meet(terminal, piece)
                continue
            if self._state == "reasoning":
                self.reasoning_tokens += tokens
            events += self._lex(piece)
        return events

    def finish(self) -> list[Event]:
        """Events at the end of the answer: what was held back comes out as text, open ends are closed."""
        events = self._text(self._release())
        events += self._flush_arguments()
        if self._state in _IN_SECTION and self._call >= 0:
            events.append(Event("call ends", call=self._call))
        elif self._state == "reasoning":
            events.append(Event("reasoning ends"))
        self._state = "content"
        return events

    def _split(self, text: str, ids: Sequence[int]) -> Iterator[tuple[str, str | None, int]]:
        """Texts and markers of a step, each with its terminal if it is a marker and its number of tokens.

        The texts are those of the single tokens where they make up the step's text or its end, which loses what
        comes after them; else the step's text is cut at its markers, the last one first.
        """
        if not text:
            return
        if max(ids, default=0) < self._vocabulary.ordinary_size:
            yield text, None, len(ids)
            return
        literals = [self._vocabulary.special_text.get(token) for token in ids]
        if not any(literal in self._markup.terminals for literal in literals if literal):
            yield text, None, len(ids)
            return
        parts: list[tuple[str, str | None, int]] = [("", None, 0)]
        for token, literal in zip(ids, literals, strict=True):
            terminal = self._markup.terminals.get(literal) if literal else None
            own = literal or self._vocabulary.bytes_of(token).decode("utf-8", "replace")
            if terminal is not None:
                parts += [(own, terminal, 0), ("", None, 0)]
            else:
                before, _, count = parts[-1]
                parts[-1] = (before + own, None, count + 1)
        joined = "".join(part for part, _, _ in parts)
        at = text.find(joined)
        if at >= 0:
            if at:
                yield text[:at], None, 0
            yield from (part for part in parts if part[0])
            return
        places, end = [-1] * len(parts), len(text)
        for i in range(len(parts) - 2, 0, -2):
            place = text.rfind(parts[i][0], 0, end)
            if place >= 0:
                places[i] = end = place
        start = 0
        for i in range(1, len(parts), 2):
            if places[i] < start:
                continue
            if places[i] > start:
                yield text[start : places[i]], None, parts[i - 1][2]
            yield parts[i]
            start = places[i] + len(parts[i][0])
        if start < len(text):
            yield text[start:], None, parts[-1][2]

    def _lex(self, text: str) -> list[Event]:
        text = self._release() + text
        held = self._markup.held(text)
        self._held = text[len(text) - held :]
        return self._text(text[: len(text) - held])

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held

    def _text(self, text: str) -> list[Event]:
        """Events of text without half markers; whole ones count only where no ids came along."""
        if self._by_id:
            return self._plain(text)
        events, start = [], 0
        for match in self._markup.pattern.finditer(text):
            events += self._plain(text[start : match.start()])
            events += self._meet(self._markup.terminals[match[0]], match[0])
            start = match.end()
        return events + self._plain(text[start:])

    def _plain(self, text: str) -> list[Event]:
        kind = _KIND_OF_TEXT.get(self._state)
        if kind == "arguments":
            text = self._arguments.feed(text)
        return [Event(kind, text, self._call)] if kind and text else []

    def _flush_arguments(self) -> list[Event]:
        held = self._arguments.flush()
        return [Event("arguments", held, self._call)] if held else []

    def _meet(self, terminal: str, literal: str) -> list[Event]:
        state = self._state
        if state == "reasoning":
            if terminal == "think begins":
                return []
            if terminal == "think ends" or (terminal == "section begins" and not self._sees_calls):
                self._state = "content"
                rest = [Event("content", literal)] if terminal == "section begins" else []
                return [Event("reasoning ends"), *rest]
            if terminal == "section begins":
                self._state = "section"
                return [Event("reasoning ends")]
        elif state == "content":
            if terminal == "think ends" and self._sees_thinking:
                return []
            if terminal == "section begins" and self._sees_calls:
                self._state = "section"
                return []
        elif terminal == "call begins" and state in ("section", "between calls"):
            self._state, self._call = "header", self._call + 1
            return [Event("call begins", call=self._call)]
        elif terminal == "arguments begin" and state == "header":
            self._state, self._arguments = "arguments", _HeldBraces()
            return []
        elif terminal in ("call ends", "section ends") and state == "arguments":
            events = self._flush_arguments()
            self._state = "between calls" if terminal == "call ends" else "section"
            return [*events, Event("call ends", call=self._call)]
        elif terminal == "section ends" and state in ("section", "between calls"):
            self._state = "section"
            return []
        return [] if terminal == "special" else self._plain(literal)


class _HeldBraces:
    """Arguments on their way out: brackets that close the outermost level wait for what comes next."""

    def __init__(self) -> None:
        self._depth, self._in_text, self._escaped, self._held = 0, False, False, ""

    def feed(self, text: str) -> str:
        self._held += text
        safe = 0
        for end, character in enumerate(text, len(self._held) - len(text) + 1):
            if self._escaped:
                self._escaped = False
            elif self._in_text:
                self._escaped = character == "\\"
                self._in_text = character != '"'
            elif character == '"':
                self._in_text = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth = max(0, self._depth - 1)
                if not self._depth:
                    continue
            safe = end
        out, self._held = self._held[:safe], self._held[safe:]
        return out

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held
