"""Large files looked through once: the pieces in which they are judged, and the lines that are enough to calibrate on.

Those are some hundreds of each provider, evenly over the files.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_assets.reconstruction.files.lines import Span, spans_of

MOST_OF_A_GROUP = 600
"""Exchanges of one provider and way of serving from which more change nothing that a verdict depends on."""

_LINES_OF_A_PIECE, _BYTES_OF_A_PIECE = 256, 2**21  # what is judged in one go: some tenths of a second

_PROVIDER = re.compile(rb'"provider"\s*:\s*"([^"\\]*)"')
_STREAM, _SAYS = b'"stream"', re.compile(rb"\s*:\s*(true|false)")


@dataclass(frozen=True, slots=True)
class Survey:
    """`pieces` are all lines, in order; `sample` the lines to calibrate on: every one of a small group, every n-th of
    a large one."""

    pieces: list[Span]
    sample: list[Span]


def survey(paths: Iterable[Path]) -> Survey:
    """Look through files once. Groups are told apart by their bytes, which need be right only as a rule."""
    paths = list(paths)
    number_of = {path: number for number, path in enumerate(paths)}
    groups: dict[tuple[bytes, bool], int] = {}
    group_of, places = array("L"), array("Q")  # of each line; a place is the file, the start and the number in the file
    pieces: list[Span] = []
    size = _BYTES_OF_A_PIECE
    for span, line in spans_of(paths):
        provider = _PROVIDER.search(line)
        key = (provider[1] if provider else b"", _is_streamed(line))
        group_of.append(groups.setdefault(key, len(groups)))
        places.extend((number_of[span.path], span.start, span.number))
        if size >= _BYTES_OF_A_PIECE or pieces[-1].lines == _LINES_OF_A_PIECE or _begins_anew(span, pieces[-1]):
            pieces.append(span)
            size = 0
        else:
            pieces[-1] = pieces[-1]._replace(lines=pieces[-1].lines + 1)
        size += len(line)
    sample = [
        Span(paths[places[3 * order]], places[3 * order + 1], 1, places[3 * order + 2], order)
        for order in _every_nth(group_of)
    ]
    return Survey(pieces, sample)


def _begins_anew(span: Span, piece: Span) -> bool:
    """Whether a span is of another file than the piece before it, or of the same one, which is named twice."""
    return span.path != piece.path or span.start <= piece.start


def _is_streamed(line: bytes) -> bool:
    # A pattern for all of it takes longer to look for than the file to be read.
    end = 0
    while (place := line.find(_STREAM, end)) >= 0:
        end = place + len(_STREAM)
        if said := _SAYS.match(line, end):
            return said[1] == b"true"
    return False


def _every_nth(group_of: Sequence[int]) -> Iterator[int]:
    """Positions of the members of small groups, and of every n-th of a large one."""
    step = {group: -(-size // MOST_OF_A_GROUP) for group, size in Counter(group_of).items()}
    seen: Counter[int] = Counter()
    for position, group in enumerate(group_of):
        if seen[group] % step[group] == 0:
            yield position
        seen[group] += 1
