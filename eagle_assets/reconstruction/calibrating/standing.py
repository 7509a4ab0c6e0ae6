"""Which conventions of the closed list still stand after all responses of a group."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from eagle_assets.reconstruction.calibrating.hypotheses import always_blank, possible_hypotheses
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.survivor import RIVAL_MARGIN, Hypothesis, Scales, Survivor
from eagle_assets.serving.convention import Edge

_ENOUGH_FOR_A_DEPLOYMENT, _SHARE_OF_A_DEPLOYMENT = 5, 0.05  # responses that it alone explains

_INCOHERENT = RIVAL_MARGIN / 2
"""Nats by which a set of edges that no known detokeniser has must explain more than those of one: two counts."""


def standing_conventions(members: Sequence[Observation]) -> tuple[Survivor, ...]:
    """The conventions that still stand after the responses of a group, the likeliest first.

    A detokeniser that puts blanks in does so at every edge where the parser strips none. A set of edges that no such
    server has counts only where it explains the responses far better than the coherent ones do.
    """
    coherent: tuple[frozenset[Edge], ...] = (frozenset(), always_blank(members))
    scales = Scales(members)
    weighed = [scales.weigh(hypothesis) for hypothesis in possible_hypotheses(members)]
    known = max(s.log_likelihood for s in weighed if s.hypothesis.inserted in coherent)
    standing = [s for s in weighed if s.hypothesis.inserted in coherent or s.log_likelihood > known + _INCOHERENT]
    standing.sort(key=lambda survivor: -survivor.log_likelihood)
    found = [s for s in standing if s.log_likelihood >= standing[0].log_likelihood - RIVAL_MARGIN]
    return (*found, *_of_another_deployment(members, [s.hypothesis for s in found], weighed))


def _of_another_deployment(
    members: Sequence[Observation], standing: Sequence[Hypothesis], weighed: Sequence[Survivor]
) -> Iterator[Survivor]:
    """The convention, if any, that closes many of the counts which the best one leaves open, as two deployments behind
    one name would have it: what an output that left the canonical path, or white space that was lost, adds to a count
    is as a rule closed by none."""
    left = [o for o in members if standing[0].difference(o) != 0]
    enough = max(_ENOUGH_FOR_A_DEPLOYMENT, _SHARE_OF_A_DEPLOYMENT * len(members), len(left) / 3)
    if len(left) < enough:
        return
    best = standing[0].inserted

    def closed_by(other: Hypothesis) -> int:
        return sum(other.difference(o) == 0 and not _shows_blanks(o, best - other.inserted) for o in left)

    closing = {other: closed_by(other.hypothesis) for other in weighed}
    second = max(weighed, key=closing.__getitem__)
    if closing[second] >= enough and second.hypothesis not in standing:
        yield second


def _shows_blanks(observation: Observation, edges: Container[Edge]) -> bool:
    """Whether a blank stands at one of these edges where a convention may have put it: as a rule it did."""
    return any(
        view.can_hold_blank and view.without_blank is not None
        for edge, view in observation.edges.items()
        if edge in edges
    )
