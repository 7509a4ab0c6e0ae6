"""Whether a cron schedule ever comes."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_RANGES = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _WEEKDAYS))
"""Minute, hour, day, month, weekday: the least and the most, and the names of the least and those behind it."""

_LEAP_YEAR = 2024
_SOME_TIMES = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")
_SHORTHANDS = {"@hourly", "@daily", "@weekly", "@monthly", "@yearly"}


def _times(field: str, least: int, most: int, names: Sequence[str]) -> set[int]:
    """The times that a field of a cron schedule names; raises ValueError where it is none."""
    number_of = {str(n): n for n in range(least, most + 1)} | {name: n for n, name in enumerate(names, least)}
    found: set[int] = set()
    for some in field.lower().split(","):
        match = _SOME_TIMES.fullmatch(some)
        if match is None or match[3] == "0":
            raise ValueError(some)
        ends = [number_of[end.lstrip("0") or "0"] for end in match.groups()[:2] if end is not None]
        first, last = (ends[0], ends[-1]) if ends else (least, most)
        if first > last:
            raise ValueError(some)
        found.update(range(first, last + 1, int(match[3] or 1)))
    return found


def comes(cron: str) -> bool:
    """Whether a cron schedule, of five fields or in short, ever comes: there is no 31st of February."""
    if cron in _SHORTHANDS:
        return True
    fields = cron.split()
    try:
        _, _, days, months, _ = (_times(field, *within) for field, within in zip(fields, _RANGES, strict=True))
    except (ValueError, KeyError):
        return False
    return fields[-1] != "*" or any(min(days) <= monthrange(_LEAP_YEAR, month)[1] for month in months)
