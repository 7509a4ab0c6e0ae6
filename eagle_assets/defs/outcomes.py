"""What is to be materialised, and what became of it: plain values, so that processes can hand them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Group:
    """Assets that one Dagster run materialises, of one dataset or without partition.

    `needs` are other assets, of the same dataset or without partition, that must not have been refused. `config` is
    run config.
    """

    assets: tuple[str, ...]
    dataset: str | None = None
    needs: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What became of one asset of one dataset. `reason` is why it was refused or not reached, else what came of it;
    `ended_early` why not all was made that could be."""

    asset: str
    dataset: str | None
    status: Literal["materialised", "refused", "not reached"]
    reason: str
    seconds: float = 0.0
    ended_early: str | None = None


@dataclass(frozen=True)
class RunSummary:
    """Outcomes in the order in which they came."""

    outcomes: tuple[Outcome, ...]

    @property
    def refused(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "refused")

    @property
    def ended_early(self) -> tuple[Outcome, ...]:
        """The budget or a limit ended these, and what was made until then is published."""
        return tuple(outcome for outcome in self.outcomes if outcome.ended_early is not None)

    @property
    def succeeded(self) -> bool:
        return all(outcome.status == "materialised" for outcome in self.outcomes)
