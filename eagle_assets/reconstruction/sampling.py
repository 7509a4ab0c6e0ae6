"""Which lines of large files are enough to calibrate on: some hundreds of each provider, evenly over the files."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

MOST_OF_A_GROUP = 600
"""Exchanges of one provider and way of serving from which more change nothing that a verdict depends on."""

_PROVIDER = re.compile(rb'"provider"\s*:\s*"([^"\\]*)"')
_STREAMED = re.compile(rb'"stream"\s*:\s*true')


class Line(NamedTuple):
    """A line with the place where it stands, for messages, and its number among all lines."""

    place: str
    order: int
    text: bytes


def sampled_lines(paths: Iterable[Path]) -> Iterator[Line]:
    """The lines of the exchanges to calibrate on: every one of a small group, every n-th of a large one.

    Groups are told apart by a look at the bytes, which need be right only as a rule.
    """
    paths = list(paths)
    groups: dict[tuple[bytes, bool], int] = {}
    group_of_line = array("I")
    for _, _, line in lines_of(paths):
        provider = _PROVIDER.search(line)
        key = (provider[1] if provider else b"", _STREAMED.search(line) is not None)
        group_of_line.append(groups.setdefault(key, len(groups)))
    step = {group: -(-size // MOST_OF_A_GROUP) for group, size in Counter(group_of_line).items()}
    seen: Counter[int] = Counter()
    for group, found in zip(group_of_line, lines_of(paths), strict=True):
        if seen[group] % step[group] == 0:
            yield found
        seen[group] += 1


def lines_of(paths: Iterable[Path]) -> Iterator[Line]:
    """Each line of the files that is not blank."""
    order = count()
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield Line(f"{path.name}:{number}", next(order), line)
