"""What the target model itself decided about a provider, as a calibration keeps it beside counts and refutations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp

from eagle_assets.reconstruction.places import Place

GroupKey = tuple[str, str, bool]
"""Model ("" for all), provider, streamed."""


@dataclass(frozen=True, slots=True)
class Arbitration:
    """The target model's own word on two conventions that texts and counts left standing.

    Over `responses` responses the ids of `chosen` and of `refuted`, where they differ, have the `log_likelihoods` (in
    this order, in nats). `nats` is by how much the first was likelier when it was decided, counts included and no
    response counting for more than a few nats; that this is a mistake has a probability of at most `error`. `judge`
    names who was asked.
    """

    chosen: str
    refuted: str
    responses: int
    nats: float
    error: float
    judge: str
    log_likelihoods: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Trimming:
    """The target model's own word on white space at an edge: whether the provider keeps it or takes it away.

    `nats` is by how much likelier `responses` responses are where it keeps it; negative where it takes it away.
    `written` are the odds, on average, that the target began or ended the text with each LOSABLE, rather than as it
    stands, where that would leave no trace; 1 where it never would have. `model` is the target's name, `judge` who was
    asked.
    """

    edge: Place
    nats: float
    responses: int
    written: tuple[float, ...]
    model: str
    judge: str

    @property
    def takes_away(self) -> float:
        """Probability that the provider takes white space away there, if neither was likelier beforehand."""
        return 1 / (1 + exp(min(self.nats, 100.0)))

    def lost(self, position: int) -> float:
        """Probability that this LOSABLE was lost."""
        return self.takes_away * self.written[position]

    @property
    def lost_any(self) -> float:
        """Probability that one of those was lost that may be without a trace."""
        return self.takes_away * sum(odds for odds in self.written if odds < 1)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the target model decided about a group: `rivals` that it refuted, and its word on the group's edges."""

    rivals: tuple[Arbitration, ...] = ()
    trimmings: Mapping[Place, Trimming] = field(default_factory=dict)


NOTHING_DECIDED = Decisions()

Arbitrations = Mapping[GroupKey, Decisions]
"""What the target model decided, by the group about which it was asked."""


def decisions(
    rivals: Mapping[GroupKey, tuple[Arbitration, ...]], trimmings: Mapping[GroupKey, Mapping[Place, Trimming]]
) -> dict[GroupKey, Decisions]:
    """What was decided about each group."""
    return {key: Decisions(rivals.get(key, ()), trimmings.get(key, {})) for key in {**rivals, **trimmings}}
