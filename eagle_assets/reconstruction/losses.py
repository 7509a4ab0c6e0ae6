"""White space that a parser takes from the ends of texts: where it keeps it, and how often it loses some.

A loss shows only where it changes the count, and the same difference may come from another edge, from other white
space, or from a model that left the canonical path. A response that ends or begins a text with unusual white space
where that is seen does so where it is not, so rates are measured apart for such ones.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eagle_assets.reconstruction.inverse import at_start, edges
from eagle_assets.reconstruction.observation import LOSABLE, Observation, white_at
from eagle_assets.reconstruction.survivor import Hypothesis
from eagle_assets.serving.convention import Edge
from eagle_assets.serving.output import Output
from eagle_assets.serving.served import Situation

# White space round arguments is no part of the model's style; where it is lost, the count almost always shows it.
TEXT_EDGES: tuple[Edge, ...] = ("reasoning_start", "reasoning_end", "content_start", "content_end")


@dataclass(frozen=True, slots=True)
class Rate:
    """`lost` of `measured` responses in which losing would have shown."""

    lost: float = 0
    measured: float = 0

    @property
    def estimate(self) -> float:
        """Posterior mean under Jeffreys' prior: half of all where nothing was measured."""
        return (self.lost + 0.5) / (self.measured + 1)


@dataclass(frozen=True, slots=True)
class EdgeRates:
    """How often each LOSABLE is lost, or written, at an edge, and how often nothing is written there: that is seen only
    where white space is kept."""

    losable: tuple[Rate, ...] = tuple(Rate() for _ in LOSABLE)
    nothing: Rate = Rate()


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates in responses with usual white space at the other edges, and in those with unusual."""

    usual: EdgeRates = EdgeRates()
    unusual: EdgeRates = EdgeRates()

    def of(self, unusual: bool) -> EdgeRates:
        return self.unusual if unusual else self.usual


NOTHING_MEASURED = Rates()

_UNUSUAL = re.compile(r"[^ \n]| \n|\n |\n{3}")


def stripped_as(edge: Edge) -> Edge:
    """The edge that a parser strips alike: a content is a content, whatever stands before it."""
    return "content_start" if edge == "answer_start" else edge


def kept_edges(members: Sequence[Observation], best: Hypothesis) -> frozenset[Edge]:
    """Edges at which white space was seen that the server did not put there (two texts at least)."""
    seen: dict[Edge, int] = defaultdict(int)
    for observation in members:
        for edge, view in observation.edges.items():
            seen[stripped_as(edge)] += len(_written(edge, view.white, view.can_hold_blank, best)) > 0
    return frozenset(edge for edge, times in seen.items() if times >= 2)


def is_unusual(output: Output[str], situation: Situation, best: Hypothesis) -> bool:
    """Whether a text of an output as shown begins or ends with more than blanks or a line break or two of the
    model's."""
    return any(
        _UNUSUAL.search(_written(edge, white_at(edge, text), possible, best))
        for edge, text, possible in edges(output, situation)
    )


def _is_observed_unusual(observation: Observation, best: Hypothesis) -> bool:
    views = observation.edges.items()
    return any(_UNUSUAL.search(_written(edge, view.white, view.can_hold_blank, best)) for edge, view in views)


def losses(members: Sequence[Observation], best: Hypothesis, kept: Container[Edge]) -> dict[Edge, Rates]:
    """How often each LOSABLE was lost at each edge where the provider may take it away."""
    tally = _Tally()
    tally.add(members, best, kept)
    rates = tally.rates()
    return {edge: rates.get(edge, NOTHING_MEASURED) for edge in TEXT_EDGES if edge not in kept}


def written(groups: Iterable[tuple[Sequence[Observation], Hypothesis, Container[Edge]]]) -> dict[Edge, Rates]:
    """How often a model writes each LOSABLE at each edge, over its groups, each with its convention and kept edges.

    It is seen where a provider keeps it, and shows in the count where one takes it away.
    """
    tally = _Tally()
    for members, best, kept in groups:
        tally.add(members, best, kept)
        tally.add_seen(members, best, kept)
    return tally.rates()


Cause = tuple[Edge, int, bool]
"""A LOSABLE, by its position, lost at an edge of a response whose other white space is usual, or unusual. The position
after the last stands for nothing, which is seen only."""

_LEFT_CANONICAL = 0.05  # share of responses that differ for another reason than a loss: the canonical path was left
_ROUNDS = 12


class _Tally:
    """Losses at all edges together, since one difference may have several causes.

    Which of them it was is found as expectation maximisation does: each is blamed for a share of the difference
    in proportion to its rate, and the rates follow from the blame, in turn.
    """

    def __init__(self) -> None:
        self._seen: Counter[Cause] = Counter()
        self._measured: Counter[Cause] = Counter()
        self._differences: Counter[tuple[Cause, ...]] = Counter()

    def add(self, members: Sequence[Observation], best: Hypothesis, kept: Container[Edge]) -> None:
        for observation in members:
            difference, unusual = best.difference(observation), _is_observed_unusual(observation, best)
            changes = {
                (stripped_as(edge), position, unusual): change
                for edge, view in observation.edges.items()
                if stripped_as(edge) in TEXT_EDGES and stripped_as(edge) not in kept
                for position, change in enumerate(view.with_lost)
                if change
            }
            self._measured.update(cause for cause, change in changes.items() if difference in (0, change))
            if difference:
                self._differences[tuple(cause for cause, change in changes.items() if change == difference)] += 1

    def add_seen(self, members: Sequence[Observation], best: Hypothesis, kept: Container[Edge]) -> None:
        for observation in members:
            unusual = _is_observed_unusual(observation, best)
            for edge, view in observation.edges.items():
                if stripped_as(edge) in kept:
                    white = _written(edge, view.white, view.can_hold_blank, best)
                    for position, losable in enumerate((*LOSABLE, "")):
                        self._seen[stripped_as(edge), position, unusual] += white == losable
                        self._measured[stripped_as(edge), position, unusual] += 1

    def rates(self) -> dict[Edge, Rates]:
        lost: Mapping[Cause, float] = self._seen
        for _ in range(_ROUNDS):
            blame: dict[Cause, float] = defaultdict(float, self._seen)
            rate = {cause: Rate(lost.get(cause, 0), times).estimate for cause, times in self._measured.items()}
            for causes, times in self._differences.items():
                total = _LEFT_CANONICAL + sum(rate[cause] for cause in causes)
                for cause in causes:
                    blame[cause] += times * rate[cause] / total
            lost = blame

        def rates_of(edge: Edge, unusual: bool) -> EdgeRates:
            causes = [(edge, position, unusual) for position in range(len(LOSABLE) + 1)]
            *losable, nothing = (Rate(lost.get(cause, 0), self._measured[cause]) for cause in causes)
            return EdgeRates(tuple(losable), nothing)

        return {edge: Rates(rates_of(edge, False), rates_of(edge, True)) for edge, _, _ in self._measured}


def _written(edge: Edge, white: str, can_hold_blank: bool, best: Hypothesis) -> str:
    """The white space at an edge that is the model's: what stands there without the server's blank."""
    if edge in best.inserted and can_hold_blank:
        return white[1:] if at_start(edge) else white[:-1]
    return white
