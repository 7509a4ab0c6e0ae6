"""White space that a parser takes from the ends of texts: where it keeps it, and how often it loses some.

A loss shows only where it changes the count, and the same difference may come from another edge, from other white
space, or from a model that left the canonical path.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eagle_assets.reconstruction.inverse import at_start
from eagle_assets.reconstruction.observation import LOSABLE, EdgeView, Observation
from eagle_assets.reconstruction.survivor import Hypothesis
from eagle_assets.serving.convention import Edge

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


Rates = tuple[Rate, ...]
"""One for each LOSABLE."""

NOTHING_MEASURED: Rates = tuple(Rate() for _ in LOSABLE)


def stripped_as(edge: Edge) -> Edge:
    """The edge that a parser strips alike: a content is a content, whatever stands before it."""
    return "content_start" if edge == "answer_start" else edge


def kept_edges(members: Sequence[Observation], best: Hypothesis) -> frozenset[Edge]:
    """Edges at which white space was seen that the server did not put there (two texts at least)."""
    seen: dict[Edge, int] = defaultdict(int)
    for observation in members:
        for edge, view in observation.edges.items():
            seen[stripped_as(edge)] += len(_written(edge, view, best)) > 0
    return frozenset(edge for edge, times in seen.items() if times >= 2)


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


Cause = tuple[Edge, int]
"""A LOSABLE, by its position, lost at an edge."""

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
            difference = best.difference(observation)
            changes = {
                (stripped_as(edge), position): change
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
            for edge, view in observation.edges.items():
                if stripped_as(edge) in kept:
                    white = _written(edge, view, best)
                    for position, losable in enumerate(LOSABLE):
                        self._seen[stripped_as(edge), position] += white == losable
                        self._measured[stripped_as(edge), position] += 1

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
        edges = {edge for edge, _ in self._measured}
        return {
            edge: tuple(Rate(lost.get((edge, i), 0), self._measured[edge, i]) for i in range(len(LOSABLE)))
            for edge in edges
        }


def _written(edge: Edge, view: EdgeView, best: Hypothesis) -> str:
    """The white space at an edge that is the model's: what stands there without the server's blank."""
    if edge in best.inserted and view.can_hold_blank:
        return view.white[1:] if at_start(edge) else view.white[:-1]
    return view.white
