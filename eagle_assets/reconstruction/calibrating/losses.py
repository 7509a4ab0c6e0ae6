"""White space that a parser takes from the ends of texts: where it keeps it, and how often it loses some.

A loss shows only where it changes the count, and the same difference may come from another edge, from other white
space, or from a model that left the canonical path. A response that ends or begins a text with unusual white space
where that is seen does so where it is not, so rates are measured apart for such ones.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from eagle_assets.reconstruction.calibrating.kept import (
    TEXT_EDGES,
    TEXT_PLACES,
    Kept,
    model_white,
    serves_in_two_ways,
    stripped_as,
    written_at,
)
from eagle_assets.reconstruction.calibrating.observation import Observation, white_at
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.inverse import at_start, edges
from eagle_assets.reconstruction.places import LOSABLE, Place
from eagle_assets.serving.output import Output
from eagle_assets.serving.served import Situation

WHITES = len(LOSABLE) + 2
"""Kinds of white space at a place: each LOSABLE, nothing, and all other."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`lost` of `measured` responses in which losing would have shown."""

    lost: float = 0
    measured: float = 0

    @property
    def estimate(self) -> float:
        """Posterior mean under Jeffreys' prior: half of all where nothing was measured."""
        return (self.lost + 0.5) / (self.measured + 1)

    def as_one_of(self, kinds: int) -> float:
        """Posterior mean where this is one of as many kinds that exclude each other: together they add up to 1, as they
        do not under Jeffreys' prior for each (Berger, Bernardo, Sun 2015: the overall objective prior is 1/kinds)."""
        return (self.lost + 1 / kinds) / (self.measured + 1)

    @property
    def at_most(self) -> float:
        """What it hardly exceeds: a standard deviation above the estimate."""
        return self.estimate + sqrt(self.estimate * (1 - self.estimate) / (self.measured + 2))


@dataclass(frozen=True, slots=True)
class EdgeRates:
    """How often each LOSABLE is lost, or written, at a place, and how often nothing is written there, or other white
    space: these are seen only where it is kept."""

    losable: tuple[Rate, ...] = tuple(Rate() for _ in LOSABLE)
    nothing: Rate = Rate()
    other: Rate = Rate()


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates in responses with usual white space at the other edges, and in those with unusual."""

    usual: EdgeRates = EdgeRates()
    unusual: EdgeRates = EdgeRates()

    def of(self, unusual: bool) -> EdgeRates:
        return self.unusual if unusual else self.usual


NOTHING_MEASURED = Rates()


@dataclass(frozen=True, slots=True)
class Departed:
    """How often an output is a token longer than the canonical encoding of all that it shows, and that token lies in
    the reasoning, or elsewhere: seen where no white space is lost there."""

    reasoning: Rate = Rate()
    elsewhere: Rate = Rate()

    def of(self, in_reasoning: bool | None) -> float:
        """The estimate for a place; None: wherever it may be."""
        rates = {True: (self.reasoning,), False: (self.elsewhere,), None: (self.reasoning, self.elsewhere)}
        return sum(rate.estimate for rate in rates[in_reasoning])


_UNUSUAL = re.compile(r"[^ \n]| \n|\n |\n{3}")


def is_unusual(output: Output[str], situation: Situation, best: Hypothesis) -> bool:
    """Whether a text of an output as shown begins or ends with more than blanks or a line break or two of the
    model's."""
    return any(
        _is_unusual(edge, white, possible, best)
        for edge, text, possible in edges(output, situation)
        if (white := white_at(edge, text))
    )


def _is_observed_unusual(observation: Observation, best: Hypothesis) -> bool:
    views = observation.edges.items()
    return any(_is_unusual(edge, view.white, view.can_hold_blank, best) for edge, view in views if view.white)


def _is_unusual(place: Place, white: str, can_hold_blank: bool, best: Hypothesis) -> bool:
    return _UNUSUAL.search(model_white(place, white, can_hold_blank, best)) is not None


def losses(members: Sequence[Observation], best: Hypothesis, kept: Kept) -> dict[Place, Rates]:
    """How often each LOSABLE was lost at each place where the provider may take it away."""
    tally = _Tally()
    tally.add(members, best, kept)
    rates = tally.rates()
    losing = frozenset(TEXT_PLACES) - kept.everything | kept.taken_from.keys()
    found = {place: rates.get(place, NOTHING_MEASURED) for place in TEXT_PLACES if place in losing}
    if serves_in_two_ways(members, best, lambda o: losing - kept.of(o.kinds)):
        found = _as_at_the_worst(found)
    times = Counter(stripped_as(edge) for o in members for edge, v in o.edges.items() if written_at(edge, v, best))
    return found | {place: _no_blank_lost(found[place], times[place]) for place in kept.blanks_alone}


def _no_blank_lost(rates: Rates, seen: int) -> Rates:
    """The rates where a server takes line breaks alone: none of the blanks was lost of as many as were seen."""

    def of(edge: EdgeRates) -> EdgeRates:
        return replace(edge, losable=(Rate(0, seen), *edge.losable[1:]))

    return Rates(of(rates.usual), of(rates.unusual))


def _as_at_the_worst(rates: Mapping[Place, Rates]) -> dict[Place, Rates]:
    """The rates when a deployment that takes white space away does so in every text."""

    def worst(place: Place, unusual: bool) -> EdgeRates:
        alike = [of.of(unusual).losable for other, of in rates.items() if at_start(other) == at_start(place)]
        losable = (max(of, key=lambda rate: rate.estimate) for of in zip(*alike, strict=True))
        return replace(rates[place].of(unusual), losable=tuple(losable))

    return {place: Rates(worst(place, False), worst(place, True)) for place in rates}


@dataclass(frozen=True, slots=True)
class Measured:
    """Responses of one model on which its own habits are measured: how their server serves, at which edges it keeps
    white space, what its `reasoning_tokens` count besides the reasoning's own tokens (None: by no rule), and whether
    calls keep the model's numbers."""

    members: Sequence[Observation]
    convention: Hypothesis
    kept: Kept
    reasoning_surplus: int | None
    numbers_kept: bool


def written(groups: Iterable[Measured]) -> dict[Place, Rates]:
    """How often a model writes each LOSABLE at each place: it is seen where a server keeps it, and shows in the count
    where one takes it away."""
    tally = _Tally()
    for group in groups:
        tally.add(group.members, group.convention, group.kept)
        tally.add_seen(group.members, group.convention, group.kept)
    return tally.rates()


def departed(groups: Iterable[Measured]) -> Departed:
    """What groups show of texts at whose ends they keep white space."""
    found: dict[bool, list[bool]] = {True: [], False: []}
    for group in groups:
        best, expected = group.convention, group.reasoning_surplus
        for observation in group.members:
            kept = group.kept.of(observation.kinds)
            difference, surplus = best.difference(observation), best.reasoning_surplus(observation)
            if difference is None or _is_observed_unusual(observation, best):
                continue
            in_reasoning = surplus - expected if surplus is not None and expected is not None else None
            if in_reasoning is not None and "reasoning_end" in kept:
                found[True].append(in_reasoning == 1)
            ends: tuple[Place, ...] = ("blank_content", "content_end", "message_end")
            content = next((place for place in ends if place in observation.edges), None)
            if content in kept and (in_reasoning is not None or not observation.thinking):
                found[False].append(difference - (in_reasoning or 0) == 1)
    return Departed(*(Rate(sum(found[place]), len(found[place])) for place in (True, False)))


Cause = tuple[Place, int, bool]
"""A LOSABLE, by its position, lost at a place of a response whose other white space is usual, or unusual. The
positions after the last stand for nothing and for other white space, which are seen only."""

_LEFT_CANONICAL = 0.05  # share of responses that differ for another reason than a loss: the canonical path was left
_ROUNDS = 12

Changes = tuple[tuple[Place, tuple[int, ...]], ...]
"""The edges of a response at which white space may be lost, each with the change of the count for each LOSABLE."""


class _Tally:
    """Losses at all edges together, since one difference may have several causes, and several edges a share in it.

    Which of them it was is found as expectation maximisation does: each is blamed for a share of the difference
    in proportion to its rate, and the rates follow from the blame, in turn.
    """

    def __init__(self) -> None:
        self._seen: Counter[Cause] = Counter()
        self._measured: Counter[Cause] = Counter()
        self._responses: Counter[tuple[int, Changes, bool]] = Counter()  # by difference, and whether unusual

    def add(self, members: Sequence[Observation], best: Hypothesis, kept: Kept) -> None:
        for observation in members:
            difference, unusual = best.difference(observation), _is_observed_unusual(observation, best)
            keeping = kept.of(observation.kinds)
            if difference is None:
                continue
            changes = {
                stripped_as(edge): view.with_lost
                for edge, view in observation.edges.items()
                if stripped_as(edge) in TEXT_EDGES
                and stripped_as(edge) not in keeping
                and not written_at(edge, view, best)
            }
            self._responses[difference, tuple(changes.items()), unusual] += 1
            self._measured.update(
                (edge, i, unusual) for edge, of in changes.items() for i, change in enumerate(of) if change
            )

    def add_seen(self, members: Sequence[Observation], best: Hypothesis, kept: Kept) -> None:
        for observation in members:
            unusual, keeping = _is_observed_unusual(observation, best), kept.of(observation.kinds)
            for edge, view in observation.edges.items():
                if stripped_as(edge) in keeping:
                    white = model_white(edge, view.white, view.can_hold_blank, best)
                    found = [white == losable for losable in (*LOSABLE, "")]
                    for position, is_it in enumerate((*found, not any(found))):
                        self._seen[stripped_as(edge), position, unusual] += is_it
                        self._measured[stripped_as(edge), position, unusual] += 1

    def rates(self) -> dict[Place, Rates]:
        lost: Mapping[Cause, float] = self._seen
        for _ in range(_ROUNDS):
            blame: dict[Cause, float] = defaultdict(float, self._seen)
            rate = {cause: Rate(lost.get(cause, 0), times).estimate for cause, times in self._measured.items()}
            for (difference, changes, unusual), times in self._responses.items():
                for cause, share in _blamed(difference, changes, unusual, rate).items():
                    blame[cause] += times * share
            lost = blame

        def rates_of(edge: Place, unusual: bool) -> EdgeRates:
            causes = [(edge, position, unusual) for position in range(len(LOSABLE) + 2)]
            *losable, nothing, other = (Rate(lost.get(cause, 0), self._measured[cause]) for cause in causes)
            return EdgeRates(tuple(losable), nothing, other)

        return {edge: Rates(rates_of(edge, False), rates_of(edge, True)) for edge, _, _ in self._measured}


def _blamed(difference: int, changes: Changes, unusual: bool, rate: Mapping[Cause, float]) -> dict[Cause, float]:
    """How probable it is that each LOSABLE which would show was lost, given the difference that is left of a count."""
    at_edges = []
    for edge, of in changes:
        showing = [(change, rate[edge, i, unusual]) for i, change in enumerate(of) if change]
        at_edges.append([(0, max(1.0 - sum(share for _, share in showing), 0.1)), *showing])
    blamed = {}
    for place, (edge, of) in enumerate(changes):
        if not any(of):
            continue
        others = {0: 1.0}
        for ways in (*at_edges[:place], *at_edges[place + 1 :]):
            sums: dict[int, float] = defaultdict(float)
            for so_far, share in others.items():
                for change, probability in ways:
                    sums[so_far + change] += share * probability
            others = sums
        left = {change: _probability(difference - change, others) for change in {0, *of}}
        total = sum(share * left[change] for change, share in at_edges[place])
        for position, change in enumerate(of):
            if change:
                cause = edge, position, unusual
                blamed[cause] = rate[cause] * left[change] / total
    return blamed


def _probability(difference: int, sums: Mapping[int, float]) -> float:
    """That a difference comes of these losses, or of another reason."""
    exact = sums.get(difference, 0.0)
    return exact * (1 - _LEFT_CANONICAL) + (1 - exact) * _LEFT_CANONICAL / 2
