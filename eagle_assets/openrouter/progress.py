"""How far a collection is, as it is shown while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eagle_assets.openrouter.totals import in_dollars


@dataclass(frozen=True, slots=True)
class ProviderProgress:
    """Attempts that a provider is known to have had in this run, and how many of them failed."""

    attempts: int
    failures: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts are of prompts, but `attempts`, `in_flight` and `strays` of attempts. `window` is how many may be in
    flight now; `seconds` is since the start, `seconds_left` a guess from the rate so far, None before there is one.
    `verdicts` are those of the latest answers, where somebody judges them meanwhile."""

    dataset: str
    total: int
    answered: int
    refused: int
    failed: int
    beyond_budget: int
    attempts: int
    strays: int
    in_flight: int
    window: int
    spent_usd: float
    reserved_usd: float
    left_usd: float
    seconds: float
    providers: Mapping[str, ProviderProgress] = field(default_factory=dict)
    verdicts: Mapping[str, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return self.answered + self.refused + self.failed + self.beyond_budget

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answered / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        return (self.total - self.done) * self.seconds / self.done if self.done else None


def in_a_line(progress: Progress) -> str:
    """The state of a collection as a line of plain text."""
    parts = [
        f"{progress.answered:,} of {progress.total:,} answered{_others(progress)}",
        f"${progress.spent_usd:.4f} spent, ${progress.reserved_usd:.4f} reserved, {in_dollars(progress.left_usd)} left",
        f"{progress.rate:.1f} a second" + (f", {_duration(left)} to go" if (left := progress.seconds_left) else ""),
        f"{progress.in_flight} in flight, window {progress.window}",
    ]
    if progress.verdicts:
        counted = ", ".join(f"{number} {verdict}" for verdict, number in progress.verdicts.items())
        parts.append(f"the latest {sum(progress.verdicts.values())}: {counted}")
    if progress.providers:
        parts.append(", ".join(f"{name} {_share(p)}" for name, p in sorted(progress.providers.items())))
    return " · ".join(parts)


def _others(progress: Progress) -> str:
    others = {"refused": progress.refused, "failed": progress.failed, "over budget": progress.beyond_budget}
    said = "".join(f", {number} {name}" for name, number in others.items() if number)
    return said + (f", {progress.strays} FROM WHOM NOBODY ASKED" if progress.strays else "")


def _share(provider: ProviderProgress) -> str:
    if not provider.failures:
        return f"{provider.attempts}"
    return f"{provider.attempts} ({provider.failures / provider.attempts:.0%} failed)"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
