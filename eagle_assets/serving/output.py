"""The output grammar: a sequence of generated ids as reasoning, content and tool calls, and back without loss."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from eagle_assets.serving.served import Situation
from eagle_assets.targets.target import Markers


class NotInGrammar(ValueError):
    """The ids are no output of this grammar (a marker stands where none can)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One generated call. `arguments` is None where the output ended inside the header."""

    header: tuple[int, ...]
    arguments: tuple[int, ...] | None
    closed: bool


@dataclass(frozen=True, slots=True)
class Output:
    """Segments of ordinary ids between markers.

    `think_begun`: `<think>` was generated, not part of the prompt. `reasoning` is None for an output that
    began outside the thinking. `section_begun` without calls is an empty or cut section.
    """

    think_begun: bool
    reasoning: tuple[int, ...] | None
    reasoning_closed: bool
    content: tuple[int, ...]
    section_begun: bool
    calls: tuple[Call, ...]
    section_closed: bool
    stopped: bool

    def ids(self, markers: Markers) -> list[int]:
        """The generated ids, in order; the inverse of `parse_output`."""
        ids: list[int] = [markers.think_begin] if self.think_begun else []
        ids += self.reasoning or ()
        if self.reasoning_closed:
            ids.append(markers.think_end)
        ids += self.content
        if self.section_begun:
            ids.append(markers.section_begin)
        for call in self.calls:
            ids += [markers.call_begin, *call.header]
            if call.arguments is not None:
                ids += [markers.argument_begin, *call.arguments]
            if call.closed:
                ids.append(markers.call_end)
        if self.section_closed:
            ids.append(markers.section_end)
        if self.stopped:
            ids.append(markers.stop)
        return ids


def parse_output(ids: Sequence[int], situation: Situation) -> Output:
    """Read generated ids by the grammar; raises NotInGrammar."""
    markers = situation.target.markers
    first_special = situation.target.vocabulary.ordinary_size
    rest = list(ids)
    stopped = bool(rest) and rest[-1] == markers.stop
    if stopped:
        rest.pop()
    think_begun = bool(rest) and rest[0] == markers.think_begin
    if think_begun:
        rest = rest[1:]
    reasoning, reasoning_closed = None, False
    if situation.thinking or think_begun:
        end = next((i for i, token in enumerate(rest) if token >= first_special), len(rest))
        reasoning_closed = end < len(rest) and rest[end] == markers.think_end
        reasoning, rest = tuple(rest[:end]), rest[end + reasoning_closed :]
    begin = rest.index(markers.section_begin) if markers.section_begin in rest else len(rest)
    content, section = tuple(rest[:begin]), rest[begin:]
    if reasoning is not None and not reasoning_closed and content:
        raise NotInGrammar("text follows an unclosed reasoning")
    section_closed = bool(section) and section[-1] == markers.section_end
    body = section[1 : len(section) - section_closed]
    output = Output(
        think_begun, reasoning, reasoning_closed, content, bool(section), _calls(body, markers), section_closed, stopped
    )
    segments = [reasoning or (), content, *(c.header for c in output.calls), *(c.arguments or () for c in output.calls)]
    if any(token >= first_special for segment in segments for token in segment):
        raise NotInGrammar("a marker stands inside a text")
    return output


def _calls(section: list[int], markers: Markers) -> tuple[Call, ...]:
    """Calls of a tool section, given without its own markers."""
    if section and section[0] != markers.call_begin:
        raise NotInGrammar("text stands between the section's begin and its first call")
    calls = []
    starts = [i for i, token in enumerate(section) if token == markers.call_begin] + [len(section)]
    for start, end in itertools.pairwise(starts):
        call = section[start + 1 : end]
        closed = bool(call) and call[-1] == markers.call_end
        if closed:
            call.pop()
        cut = call.index(markers.argument_begin) if markers.argument_begin in call else None
        header, arguments = (call, None) if cut is None else (call[:cut], tuple(call[cut + 1 :]))
        calls.append(Call(tuple(header), arguments, closed))
    return tuple(calls)
