"""The lines of files of exchanges, and spans of them, by which another process finds those that it is to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """A line with the place where it stands, for messages, and its number among all lines."""

    place: str
    order: int
    text: bytes


class Span(NamedTuple):
    """`lines` lines of a file that are not blank, from byte `start` on. The first is line `number` of its file,
    counted from 1, and number `order` among all lines that are not blank."""

    path: Path
    start: int
    lines: int
    number: int
    order: int


def lines_of(paths: Iterable[Path]) -> Iterator[Line]:
    """Each line of the files that is not blank."""
    return (Line(_place(span), span.order, text) for span, text in spans_of(paths))


def lines_in(spans: Iterable[Span]) -> Iterator[Line]:
    """The lines of the spans, read one at a time."""
    for span in spans:
        for single, text in islice(_from(span), span.lines):
            yield Line(_place(single), single.order, text)


def spans_of(paths: Iterable[Path]) -> Iterator[tuple[Span, bytes]]:
    """Each line of the files that is not blank, as a span of its own, with its text."""
    order = 0
    for path in paths:
        for span, text in _from(Span(path, 0, 1, 1, order)):
            yield span, text
            order = span.order + 1


def _from(first: Span) -> Iterator[tuple[Span, bytes]]:
    """Each line that is not blank from the beginning of a span to the end of its file."""
    path, start, _, number, order = first
    with path.open("rb") as file:
        file.seek(start)
        for text in file:
            if not text.isspace():
                yield Span(path, start, 1, number, order), text
                order += 1
            start += len(text)
            number += 1


def _place(span: Span) -> str:
    return f"{span.path.name}:{span.number}"
