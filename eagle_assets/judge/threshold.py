"""From how many nats on a surprise is an alarm: learnt from sequences whose ids are proven, so that the rate of false
alarms is known, and from errors planted in them, so that it is known how many are found.

Other ids than the target's own are seldom much likelier to it. If the judge is the model that answered, the odds of a
variant are 1 on average (probabilities of sequences sum up to 1), so that their square root is less. If it is nearly
that model, how much that is shows in proven sequences: the square roots of the odds of all variants of a kind in a
sequence sum up to a mean M, and by Markov's inequality a share of at most M e^(-t/2) of right sequences has one that is
more than t nats likelier (Chernoff's bound). Every place that was looked at counts in M, not only each sequence's worst
one, and square roots have a variance (the mean of the odds themselves), so that a hundred sequences are enough to know
M, where a quantile of 1 % over five kinds would take five hundred. What M may be at most is found by drawing sequences
anew, as a whole, because places of one sequence resemble each other.

It is supposed that the sequences that are judged are of the same model as the proven ones, and are asked for in the
same way; a longer one than these are on average has so many times as many places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, exp, log

import numpy as np

from eagle_assets.judge.surprise import LEAST_NATS, Surprise, Weighed
from eagle_assets.judge.variants import KINDS, Kind
from eagle_assets.reconstruction.own.share import Share

FALSE_ALARMS = 0.01
"""Share of right sequences that may be alarmed, over all kinds of variants together."""

FALSE_REPAIRS = 0.0001
"""Share of right sequences that may be repaired into wrong ones."""

FEWEST_PROVEN = 30
"""Proven sequences from which what is drawn from them anew says how they may vary; with fewer nothing is repaired."""

_DRAWN_ANEW, _UPPER = 1_000, 0.975
_STEP = 0.5  # to which nats are rounded up, so that they stand still while little is proven anew


@dataclass(frozen=True, slots=True)
class Threshold:
    """Of each kind of variant the `nats` beyond which it is an alarm in a sequence of up to `tokens` tokens, what the
    `proven` ones have on average, about; `expected` is the share of right sequences that are alarmed, at most.
    `nucleus_holds`: tokens that the sampler cannot have drawn are met in none of the proven sequences whose requests
    cut anything off, of which there are some.
    """

    nats: Mapping[Kind, float]
    tokens: int
    proven: int
    expected: float
    nucleus_holds: bool = False

    def beyond(self, kind: Kind, tokens: int) -> float:
        """Nats beyond which a variant is an alarm in a sequence of so many tokens."""
        return self.nats[kind] + 2 * log(max(1.0, tokens / max(1.0, self.tokens)))

    def alarms(self, surprise: Surprise) -> tuple[Weighed, ...]:
        """The variants that are alarms, the likeliest first."""
        return tuple(w for w in surprise.variants if w.nats > self.beyond(w.variant.kind, surprise.tokens))

    def repairs(self, weighed: Weighed, tokens: int) -> bool:
        """Whether a variant of a sequence of so many tokens is so much likelier that it may take its place."""
        enough = self.beyond(weighed.variant.kind, tokens) + 2 * log(FALSE_ALARMS / FALSE_REPAIRS)
        return self.proven >= FEWEST_PROVEN and weighed.nats > enough

    def impossible(self, surprise: Surprise) -> tuple[int, ...]:
        """Places of tokens that cannot have been drawn, where that is a reason for alarm."""
        return surprise.impossible if self.nucleus_holds else ()

    def is_alarming(self, surprise: Surprise) -> bool:
        return bool(self.alarms(surprise) or self.impossible(surprise))

    @property
    def rule(self) -> tuple[object, ...]:
        """All that decides what becomes of a sequence. It stands still while little is proven anew."""
        return sorted(self.nats.items()), self.tokens, self.can_judge, self.proven >= FEWEST_PROVEN, self.nucleus_holds

    @property
    def can_judge(self) -> bool:
        """Whether anything is proven to learn from."""
        return self.proven > 0


def threshold_of(proven: Iterable[Surprise]) -> Threshold:
    """The threshold that proven sequences lead to; memory is a number for each of them and each kind."""
    roots: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
    most_variants = dict.fromkeys(KINDS, 1)
    total = tokens = cut = impossible = 0
    for surprise in proven:
        total += 1
        tokens += surprise.tokens
        cut += surprise.cuts
        impossible += bool(surprise.impossible)
        for kind in KINDS:
            found = [exp(min(w.nats, 1_000.0) / 2) for w in surprise.variants if w.variant.kind == kind]
            roots[kind].append(sum(found))
            most_variants[kind] = max(most_variants[kind], len(found))
    if not total:
        return Threshold(dict.fromkeys(KINDS, LEAST_NATS), 0, 0, 1.0)
    nats, expected = {}, 0.0
    for kind in KINDS:
        # One sequence more is supposed, all of whose variants are as likely as it is itself.
        mean = (total * _most_on_average(np.array(roots[kind])) + most_variants[kind]) / (total + 1)
        nats[kind] = LEAST_NATS + _STEP * ceil(max(0.0, 2 * log(mean * len(KINDS) / FALSE_ALARMS) - LEAST_NATS) / _STEP)
        expected += mean * exp(-nats[kind] / 2)
    return Threshold(nats, _rounded_down(tokens // total), total, min(1.0, expected), bool(cut) and not impossible)


def _rounded_down(number: int) -> int:
    """To four binary digits, for the same reason."""
    step = 1 << max(0, number.bit_length() - 4)
    return number - number % step


def _most_on_average(values: np.ndarray) -> float:
    """What the mean of such values is at most, at _UPPER: drawn anew as often as _DRAWN_ANEW says."""
    drawn = np.random.default_rng(0).multinomial(len(values), np.full(len(values), 1 / len(values)), _DRAWN_ANEW)
    return float(np.quantile(drawn @ values / len(values), _UPPER))


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
    def shares(self) -> dict[Kind, Share]:
        return {kind: Share(sum(found), len(found)) for kind, found in self.found.items() if found}

    @property
    def overall(self) -> float:
        """Each kind weighs alike: how often each occurs is not known."""
        shares = [share.found / share.of for share in self.shares.values()]
        return sum(shares) / len(shares) if shares else 0.0
