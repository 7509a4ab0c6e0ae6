"""How long sequences are, in few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of `total` sequences `bins[n]` have from 2^n to 2^(n + 1) - 1 tokens (those without any count as of one), half up
    to `half`, 95 % up to `nearly_all`, and the longest has `longest`."""

    total: int
    bins: Mapping[int, int]
    half: int
    nearly_all: int
    longest: int

    @classmethod
    def of(cls, values: Sequence[int]) -> Lengths:
        """Of the tokens of each sequence, in any order."""
        ordered = np.sort(np.array(values, np.int64))
        if not ordered.size:
            return cls(0, {}, 0, 0, 0)
        powers, times = np.unique(np.frexp(np.maximum(ordered, 1))[1] - 1, return_counts=True)
        half, nearly_all = ordered[ordered.size // 2], ordered[int(0.95 * ordered.size)]
        bins = dict(zip(powers.tolist(), times.tolist(), strict=True))
        return cls(ordered.size, bins, int(half), int(nearly_all), int(ordered[-1]))
