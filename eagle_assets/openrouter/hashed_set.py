"""What was seen, where it is too much to keep: eight bytes for each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

_TOGETHER = 1 << 14


class HashedSet:
    """A set to which things are added and asked for. One that was never added is taken for one that was with a
    probability of 1 in 2^64 for each that was, and another in each process."""

    def __init__(self) -> None:
        self._sorted = np.zeros(0, dtype=np.int64)
        self._new: set[int] = set()

    def add(self, thing: Hashable) -> None:
        self._new.add(hash(thing))
        if len(self._new) >= _TOGETHER:
            self._put_in(np.fromiter(self._new, np.int64, len(self._new)))
            self._new = set()

    def update(self, things: Iterable[Hashable]) -> None:
        """Add many, in a fraction of the time."""
        self._put_in(np.fromiter(map(hash, things), np.int64))

    def __contains__(self, thing: Hashable) -> bool:
        key = hash(thing)
        if key in self._new:
            return True
        place = int(np.searchsorted(self._sorted, key))
        return place < self._sorted.size and int(self._sorted[place]) == key

    def _put_in(self, keys: npt.NDArray[np.int64]) -> None:
        self._sorted = np.union1d(self._sorted, keys)
