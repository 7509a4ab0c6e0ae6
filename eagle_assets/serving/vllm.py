"""vLLM 0.33 with its Kimi K2 parsers, as an executable forward model.

Two passes of one engine: the first splits off the reasoning, the second reads the tool section in what is left. An
unstreamed answer is read as text alone, so that markers that the model only wrote about count as well.
Source: vllm 0.33, parser/abstract_parser.py (DelegatingParser), parser/engine/parser_engine.py (ParserEngine),
parser/engine/adapters.py, parser/kimi_k2.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from eagle_assets.serving.coercion import coerced_to_schema
from eagle_assets.serving.served import Frame, Message, Situation, ToolCall
from eagle_assets.serving.vllm_engine import Engine, Event

_CALL_ID = re.compile(r".+:\d+")
_NAME_IN_ARGUMENTS = re.compile(r'"name"\s*:\s*"([^"]*)"')


@dataclass
class _Call:
    """A call as far as it is known; `name` is its header's text until that is read as an id."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    named: bool = False

    def read_header(self, header: str) -> bool:
        """Take id and name from a header `functions.NAME:INDEX`; the name ends at the first colon."""
        match = _CALL_ID.match(header.strip())
        name = match[0].strip().split(":")[0].removeprefix("functions.") if match else ""
        if match and name:
            self.id, self.name = match[0].strip(), name
        return bool(name)


@dataclass
class _Delta:
    """What one step sends: for each call its id and name where they come now, and its arguments."""

    reasoning: str = ""
    content: str = ""
    calls: dict[int, tuple[str | None, str | None, str]] = field(default_factory=dict)

    def add_call(self, position: int, id: str | None, name: str | None, arguments: str) -> None:
        known = self.calls.get(position, (None, None, ""))
        self.calls[position] = (known[0] or id, known[1] or name, known[2] + arguments)


class _Reader:
    """Events to deltas: calls get their ids, contents of white space alone wait and go where calls follow."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.reasoning_ended = False
        self._waiting = ""
        self._has_content = False
        self._given_ids = 0

    def read(self, events: Iterable[Event], finished: bool = False) -> _Delta:
        delta, content = _Delta(), ""
        carried, self._waiting, late, met_call = self._waiting, "", "", False
        for event in events:
            if event.kind == "reasoning":
                delta.reasoning += event.text
            elif event.kind == "reasoning ends":
                self.reasoning_ended = True
            elif event.kind == "content":
                late, content = (late + event.text, content) if met_call else (late, content + event.text)
            else:
                met_call = True
                self._read_call(event, delta)
        if met_call and delta.calls:
            self._waiting = carried + late
        else:
            content = carried + content + late
        if not self._has_content and content:
            if content.strip():
                self._has_content = True
            elif self.calls:
                content = ""
            elif not finished:
                self._waiting, content = content, ""
        delta.content = content
        return delta

    def _read_call(self, event: Event, delta: _Delta) -> None:
        while len(self.calls) <= event.call:
            self.calls.append(_Call())
        call = self.calls[event.call]
        if event.kind == "header":
            call.name += event.text
        elif event.kind == "arguments":
            call.arguments += event.text
            if not call.named:
                header = call.name or _name_in_arguments(call.arguments)
                call.named = call.read_header(header)
                if not call.named:
                    call.name = ""
                    return
                delta.add_call(event.call, call.id, call.name, "")
            delta.add_call(event.call, None, None, event.text)
        elif event.kind == "call ends" and not call.named:
            call.read_header(call.name)
            name = call.name or _name_in_arguments(call.arguments)
            if name:
                call.name, call.named = name, True
                self.give_id(call)
                delta.add_call(event.call, call.id, name, "")

    def give_id(self, call: _Call) -> None:
        """An id of the server's own for a call without one."""
        if not call.id:
            call.id = f"functions.{call.name}:{self._given_ids}"
            self._given_ids += 1

    def finished_calls(self) -> list[_Call]:
        """The calls of an unstreamed answer: without outer white space, `{}` for nothing, nameless ones left out."""
        finished = []
        for call in self.calls:
            name, arguments = call.name.strip(), call.arguments.strip()
            if not name:
                name, arguments = _call_in_arguments(arguments)
            if name:
                done = _Call(call.id, name, arguments or "{}")
                self.give_id(done)
                finished.append(done)
        return finished


def _call_in_arguments(arguments: str) -> tuple[str, str]:
    """Name and arguments of a call without a readable header whose text holds both, as other formats do."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return "", arguments
    name = parsed.pop("name", None) if isinstance(parsed, dict) else None
    if not isinstance(name, str):
        return "", arguments
    inner = next((parsed[key] for key in ("arguments", "parameters") if key in parsed), parsed)
    return name, inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)


def _name_in_arguments(arguments: str) -> str:
    match = _NAME_IN_ARGUMENTS.search(arguments)
    return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class VllmParsers:
    """`--reasoning-parser kimi_k2 --tool-call-parser kimi_k2`; a model that never thinks has no reasoning parser."""

    def message(self, text: str, situation: Situation) -> tuple[Message, bool]:
        """The message of an unstreamed answer, in whose `text` every marker counts, typed or generated, and whether
        its finish reason is `tool_calls`."""
        reasoning, content = None, text
        if situation.thinking:
            engine = Engine(situation.target, "reasoning", thinking=True, sees_calls=False)
            events = engine.feed(text) + engine.finish()
            reasoning = "".join(e.text for e in events if e.kind == "reasoning").rstrip() or None
            content = "".join(e.text for e in events if e.kind == "content")
        reader = _Reader()
        engine = _tool_engine(situation)
        delta = reader.read(engine.feed(content) + engine.finish(), finished=True)
        calls = reader.finished_calls() if situation.tools else []
        blank = bool(calls) and not delta.content.strip()
        message = Message(
            reasoning,
            None if blank else delta.content or None,
            tuple(
                ToolCall(call.id, call.name, coerced_to_schema(call.arguments, call.name, situation.tools))
                for call in calls
            ),
        )
        return message, bool(calls)

    def stream(self, situation: Situation) -> VllmStream:
        return VllmStream(situation)

    def reasoning_tokens(self, ids: Sequence[int], situation: Situation) -> int:
        """Those of an unstreamed answer: the tokens before the reasoning's end."""
        if not situation.thinking:
            return 0
        markers, first_special = situation.target.markers, situation.target.vocabulary.ordinary_size
        ends = (markers.think_end, markers.section_begin)
        end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        return sum(token < first_special for token in ids[:end])


def _tool_engine(situation: Situation) -> Engine:
    thinks = situation.target.thinking != "never"
    return Engine(
        situation.target, "content", thinking=situation.thinking or not thinks, sees_thinking=situation.thinking
    )


class VllmStream:
    """One stream: the reasoning engine until the reasoning ends, the tool engine from there on."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._thinking = Engine(situation.target, "reasoning", thinking=True, sees_calls=False)
        self._thoughts = _Reader()
        self._tools = _tool_engine(situation)
        self._answer = _Reader()
        self._in_reasoning = situation.thinking
        self._white_space = ""

    def feed(self, text: str, ids: Sequence[int], last: bool) -> Iterator[Frame]:
        """The frames of one step."""
        delta = self._step(text, ids)
        if last:
            self._finish(delta)
        yield from _frames_of(delta, bool(self._situation.tools))

    @property
    def reasoning_tokens(self) -> int:
        """What `reasoning_tokens` says: steps that add no text, a part of a character, are not counted."""
        return self._thinking.reasoning_tokens

    def _step(self, text: str, ids: Sequence[int]) -> _Delta:
        if not self._in_reasoning:
            return self._answer.read(self._tools.feed(text, ids))
        delta = self._thoughts.read(self._thinking.feed(text, ids))
        delta.reasoning = self._without_white_space_at_end(delta.reasoning)
        if not self._thoughts.reasoning_ended:
            return delta
        self._in_reasoning = False
        rest = delta.content + self._thoughts.read(self._thinking.finish(), finished=True).content
        answer = self._answer.read(self._tools.feed(rest, self._content_ids(ids)))
        answer.reasoning = delta.reasoning
        return answer

    def _without_white_space_at_end(self, reasoning: str) -> str:
        """White space at the end of a reasoning waits for more of it, and never comes if none does."""
        if not reasoning:
            return ""
        whole = self._white_space + reasoning
        shown = whole.rstrip()
        self._white_space = whole[len(shown) :]
        return shown

    def _content_ids(self, ids: Sequence[int]) -> Sequence[int]:
        markers, whole = self._situation.target.markers, list(ids)
        if markers.think_end in whole:
            return whole[len(whole) - whole[::-1].index(markers.think_end) :]
        if markers.section_begin in whole:
            return whole[len(whole) - 1 - whole[::-1].index(markers.section_begin) :]
        return ()

    def _finish(self, delta: _Delta) -> None:
        readers = ((self._thoughts, self._thinking),) if self._in_reasoning else ()
        for reader, engine in (*readers, (self._answer, self._tools)):
            last = reader.read(engine.finish(), finished=True)
            delta.reasoning += last.reasoning
            delta.content += last.content
            for call, (id, name, arguments) in last.calls.items():
                delta.add_call(call, id, name, arguments)


def _frames_of(delta: _Delta, sends_calls: bool) -> Iterator[Frame]:
    if delta.reasoning:
        yield Frame("reasoning", delta.reasoning)
    if delta.content:
        yield Frame("content", delta.content)
    if sends_calls:
        for call, (id, name, arguments) in delta.calls.items():
            yield Frame("tool_calls", arguments, call, id, name)
