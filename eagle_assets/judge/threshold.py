"""From how many nats on a surprise is an alarm: learnt from sequences whose ids are proven, so that the rate of false
alarms is known, and from errors planted in them, so that it is known how many are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from eagle_assets.judge.surprise import Surprise, Weighed
from eagle_assets.judge.variants import KINDS, Kind
from eagle_assets.reconstruction.losses import Rate

LEAST = 4.6
"""Nats: less than that other ids are a hundred times likelier is no alarm. Of what the target itself generates no more
than one in a hundred goes so far for any one variant (Markov's inequality), however few sequences are proven."""

FALSE_ALARMS = 0.01
"""Share of right sequences that may be alarmed, over all kinds of variants together."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Of each kind of variant, the nats beyond which it is an alarm, from `proven` sequences.

    Sequences that are to be judged are right ones of the same model, drawn as the proven ones were: the chance that
    such a one goes beyond the k-th largest of n is k in n + 1 (conformal prediction). `expected` is that chance over
    all kinds, at most FALSE_ALARMS where there are enough proven sequences. `nucleus_holds`: tokens that the sampler
    cannot have drawn are met in none of the proven sequences whose requests cut anything off, of which there are some.
    """

    nats: Mapping[Kind, float]
    proven: int
    expected: float
    nucleus_holds: bool = False

    def alarms(self, surprise: Surprise) -> tuple[Weighed, ...]:
        """The variants that are alarms, the likeliest first."""
        return tuple(w for w in surprise.variants if w.nats > self.nats[w.variant.kind])

    def impossible(self, surprise: Surprise) -> tuple[int, ...]:
        """Places of tokens that cannot have been drawn, where that is a reason for alarm."""
        return surprise.impossible if self.nucleus_holds else ()

    def is_alarming(self, surprise: Surprise) -> bool:
        return bool(self.alarms(surprise) or self.impossible(surprise))

    @property
    def keeps_promise(self) -> bool:
        """Whether enough is proven for false alarms to be as rare as they should be."""
        return self.proven > 0 and self.expected <= FALSE_ALARMS

    @property
    def can_judge(self) -> bool:
        """Whether anything is proven to learn from."""
        return self.proven > 0


def threshold_of(proven: Iterable[Surprise]) -> Threshold:
    """The threshold that proven sequences lead to; memory is a number for each of them and each kind."""
    largest: dict[Kind, list[float]] = defaultdict(list)
    total = cut = impossible = 0
    for surprise in proven:
        total += 1
        cut += surprise.cuts
        impossible += bool(surprise.impossible)
        best: dict[Kind, float] = {}
        for weighed in reversed(surprise.variants):
            best[weighed.variant.kind] = weighed.nats
        for kind, nats in best.items():
            largest[kind].append(nats)
    allowed = max(1, int(FALSE_ALARMS / len(KINDS) * (total + 1)))
    beyond = {kind: max(LEAST, _kth_largest(largest[kind], allowed)) for kind in KINDS}
    return Threshold(beyond, total, min(1.0, allowed * len(KINDS) / (total + 1)), bool(cut) and not impossible)


def _kth_largest(values: Sequence[float], k: int) -> float:
    return sorted(values, reverse=True)[k - 1] if len(values) >= k else float("-inf")


@dataclass(slots=True)
class Sensitivity:
    """Of errors that were planted in proven sequences, how many were found, by kind."""

    found: dict[Kind, list[bool]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def add(self, kind: Kind, is_found: bool) -> None:
        self.found[kind].append(is_found)

    @property
    def planted(self) -> int:
        return sum(map(len, self.found.values()))

    @property
    def rates(self) -> dict[Kind, Rate]:
        return {kind: Rate(sum(found), len(found)) for kind, found in self.found.items() if found}

    @property
    def overall(self) -> float:
        """Each kind weighs alike: how often each occurs is not known."""
        rates = [rate.lost / rate.measured for rate in self.rates.values()]
        return sum(rates) / len(rates) if rates else 0.0
