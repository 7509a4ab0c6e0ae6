"""The lines of files of exchanges, and spans of them, by which another process finds those that it is to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

_BYTES_AT_ONCE = 2**16  # read from a file: several lines as a rule


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
    return (Line(f"{span.path.name}:{span.number}", span.order, text) for span, text in spans_of(paths))


def lines_in(spans: Iterable[Span]) -> Iterator[Line]:
    """The lines of the spans, read one at a time."""
    for path, of_path in groupby(spans, key=attrgetter("path")):
        with path.open("rb", _BYTES_AT_ONCE) as file:
            for span in of_path:
                lines = islice(_from(file, span.start, span.number), span.lines)
                for order, (_, number, text) in enumerate(lines, span.order):
                    yield Line(f"{path.name}:{number}", order, text)


def spans_of(paths: Iterable[Path]) -> Iterator[tuple[Span, bytes]]:
    """Each line of the files that is not blank, as a span of its own, with its text."""
    orders = count()
    for path in paths:
        with path.open("rb", _BYTES_AT_ONCE) as file:
            for start, number, text in _from(file, 0, 1):
                yield Span(path, start, 1, number, next(orders)), text


def _from(file: BinaryIO, start: int, number: int) -> Iterator[tuple[int, int, bytes]]:
    """Each line that is not blank, from the one at byte `start` on, with the byte and the number at which it stands."""
    file.seek(start)
    for text in file:
        if not text.isspace():
            yield start, number, text
        start += len(text)
        number += 1
