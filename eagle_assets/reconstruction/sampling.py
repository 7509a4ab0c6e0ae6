"""Which lines of large files are enough to calibrate on: some hundreds of each provider, evenly over the files."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

MOST_OF_A_GROUP = 600
"""Exchanges of one provider and way of serving from which more change nothing that a verdict depends on."""

_PROVIDER = re.compile(rb'"provider"\s*:\s*"([^"\\]*)"')
_STREAMED = re.compile(rb'"stream"\s*:\s*true')


def sampled_lines(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """The (place, line) of the exchanges to calibrate on: every one of a small group, every n-th of a large one.

    Groups are told apart by a look at the bytes, which need be right only as a rule.
    """
    paths = list(paths)
    groups: dict[tuple[bytes, bool], int] = {}
    group_of_line = array("I")
    for _, line in lines_of(paths):
        provider = _PROVIDER.search(line)
        key = (provider[1] if provider else b"", _STREAMED.search(line) is not None)
        group_of_line.append(groups.setdefault(key, len(groups)))
    step = {group: -(-size // MOST_OF_A_GROUP) for group, size in Counter(group_of_line).items()}
    seen: Counter[int] = Counter()
    for group, place_and_line in zip(group_of_line, lines_of(paths), strict=True):
        if seen[group] % step[group] == 0:
            yield place_and_line
        seen[group] += 1


def lines_of(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """The (place, line) of each line of the files that is not blank."""
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path.name}:{number}", line
