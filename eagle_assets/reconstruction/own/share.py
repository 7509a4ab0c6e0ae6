"""A share that was measured, and how far it can be believed."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

TWO_SIDED_95 = 1.959964
ONE_SIDED_95 = 1.644854


@dataclass(frozen=True, slots=True)
class Share:
    """`found` of `of`."""

    found: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Between which bounds it lies, at 95 %."""
        return self.wilson(TWO_SIDED_95)

    @property
    def at_most(self) -> float:
        """What it does not exceed, at 95 %."""
        return self.wilson(ONE_SIDED_95)[1]

    def wilson(self, z: float) -> tuple[float, float]:
        """Wilson's interval, `z` standard deviations wide on either side; 0 to 1 where nothing was measured."""
        if not self.of:
            return 0.0, 1.0
        middle = (self.found + z * z / 2) / (self.of + z * z)
        half = z / (self.of + z * z) * sqrt(self.found * (self.of - self.found) / self.of + z * z / 4)
        return (
            0.0 if self.found == 0 else max(0.0, middle - half),
            1.0 if self.found == self.of else min(1.0, middle + half),
        )
