"""How far a collection is, as it is shown while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProviderProgress:
    """Attempts that a provider is known to have had in this run, and how many of them failed."""

    attempts: int
    failures: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts are of prompts, but `attempts`, `in_flight` and `strays` of attempts. `window` is how many may be in
    flight now; `seconds` is since the start, `seconds_left` a guess from the rate so far, None before there is one."""

    dataset: str
    total: int
    answered: int
    refused: int
    failed: int
    unaffordable: int
    attempts: int
    strays: int
    in_flight: int
    window: int
    spent_usd: float
    reserved_usd: float
    left_usd: float
    seconds: float
    providers: Mapping[str, ProviderProgress] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return self.answered + self.refused + self.failed + self.unaffordable

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answered / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        return (self.total - self.done) * self.seconds / self.done if self.done else None
