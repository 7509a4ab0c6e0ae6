"""The output grammar: a sequence of generated ids as reasoning, content and tool calls, and back without loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Generic, TypeVar

import numpy as np

from eagle_assets.serving.served import Situation
from eagle_assets.targets.packed import PackedIds
from eagle_assets.targets.target import Markers

Segment = TypeVar("Segment")
Other = TypeVar("Other")
Ids = tuple[int, ...]


class NotInGrammar(ValueError):
    """The ids are no output of this grammar (a marker stands where none can)."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Segment]):
    """One generated call. `arguments` is None where the output ended inside the header."""

    header: Segment
    arguments: Segment | None
    closed: bool


@dataclass(frozen=True, slots=True)
class Output(Generic[Segment]):
    """The segments of an output between its markers: as ids, as texts, or as whatever `over` makes of them.

    `think_begun`: `<think>` was generated, not part of the prompt. `reasoning` is None for an output that
    began outside the thinking. `section_begun` without calls is an empty or cut section.
    """

    think_begun: bool
    reasoning: Segment | None
    reasoning_closed: bool
    content: Segment
    section_begun: bool
    calls: tuple[Call[Segment], ...]
    section_closed: bool
    stopped: bool

    def over(self, change: Callable[[Segment], Other]) -> Output[Other]:
        """The same output with every segment changed."""
        return Output(
            self.think_begun,
            None if self.reasoning is None else change(self.reasoning),
            self.reasoning_closed,
            change(self.content),
            self.section_begun,
            tuple(
                Call(change(c.header), None if c.arguments is None else change(c.arguments), c.closed)
                for c in self.calls
            ),
            self.section_closed,
            self.stopped,
        )

    def segments(self) -> list[Segment]:
        """Every segment, in the order in which they were generated."""
        segments = [] if self.reasoning is None else [self.reasoning]
        segments.append(self.content)
        for call in self.calls:
            segments.append(call.header)
            if call.arguments is not None:
                segments.append(call.arguments)
        return segments

    def count_of_markers(self) -> int:
        """How many markers stand between and after the segments."""
        in_calls = sum(1 + (call.arguments is not None) + call.closed for call in self.calls)
        own = (self.think_begun, self.reasoning_closed, self.section_begun, self.section_closed, self.stopped)
        return in_calls + sum(own)


def join_output(output: Output[Ids], markers: Markers) -> list[int]:
    """The generated ids, in order; the inverse of `parse_output`."""
    parts: Iterator[Ids] = _in_order(output, markers, lambda marker: (marker,))
    return list(chain.from_iterable(parts))


def join_packed(output: Output[bytes], markers: Markers) -> PackedIds:
    """The generated ids, in order, of an output whose segments are packed."""
    parts: Iterator[bytes] = _in_order(output, markers, lambda marker: marker.to_bytes(4, "little"))
    return PackedIds(b"".join(parts))


def _in_order(output: Output[Segment], markers: Markers, marker: Callable[[int], Segment]) -> Iterator[Segment]:
    """The segments and the markers of an output, these made segments too."""
    if output.think_begun:
        yield marker(markers.think_begin)
    if output.reasoning is not None:
        yield output.reasoning
    if output.reasoning_closed:
        yield marker(markers.think_end)
    yield output.content
    if output.section_begun:
        yield marker(markers.section_begin)
    for call in output.calls:
        yield from (marker(markers.call_begin), call.header)
        if call.arguments is not None:
            yield from (marker(markers.argument_begin), call.arguments)
        if call.closed:
            yield marker(markers.call_end)
    if output.section_closed:
        yield marker(markers.section_end)
    if output.stopped:
        yield marker(markers.stop)


def parse_output(ids: Sequence[int], situation: Situation) -> Output[Ids]:
    """Read generated ids by the grammar; raises NotInGrammar."""
    markers = situation.target.markers
    first_special = situation.target.vocabulary.ordinary_size
    specials = np.flatnonzero(np.asarray(ids) >= first_special).tolist()
    ids = list(ids)
    stopped = bool(ids) and ids[-1] == markers.stop
    start, end = 0, len(ids) - stopped
    think_begun = start < end and ids[0] == markers.think_begin
    start += think_begun
    reasoning, reasoning_closed = None, False
    if situation.thinking or think_begun:
        cut = next((place for place in specials if start <= place < end), end)
        reasoning_closed = cut < end and ids[cut] == markers.think_end
        reasoning, start = tuple(ids[start:cut]), cut + reasoning_closed
    begin = next((place for place in specials if start <= place < end and ids[place] == markers.section_begin), end)
    content, section = tuple(ids[start:begin]), ids[begin:end]
    if reasoning is not None and not reasoning_closed and content:
        raise NotInGrammar("text follows an unclosed reasoning")
    section_closed = bool(section) and section[-1] == markers.section_end
    calls = _calls(section[1 : len(section) - section_closed], markers)
    output = Output(think_begun, reasoning, reasoning_closed, content, bool(section), calls, section_closed, stopped)
    if len(specials) != output.count_of_markers():
        raise NotInGrammar("a marker stands inside a text")
    return output


def _calls(section: list[int], markers: Markers) -> tuple[Call[Ids], ...]:
    """Calls of a tool section, given without its own markers."""
    if section and section[0] != markers.call_begin:
        raise NotInGrammar("text stands between the section's begin and its first call")
    calls: list[Call[Ids]] = []
    starts = [i for i, token in enumerate(section) if token == markers.call_begin] + [len(section)]
    for start, end in pairwise(starts):
        call = section[start + 1 : end]
        closed = bool(call) and call[-1] == markers.call_end
        if closed:
            call.pop()
        cut = call.index(markers.argument_begin) if markers.argument_begin in call else None
        header, arguments = (call, None) if cut is None else (call[:cut], tuple(call[cut + 1 :]))
        calls.append(Call(tuple(header), arguments, closed))
    return tuple(calls)
