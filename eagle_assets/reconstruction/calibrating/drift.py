"""A provider that changes its convention in mid-file: the change is found, so that it is split and not averaged."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from eagle_assets.reconstruction.calibrating.hypotheses import coherent_hypotheses
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.survivor import CANNOT_BE, CLOSES, DIFFERS, RIVAL_MARGIN, Hypothesis

DRIFT_MARGIN = RIVAL_MARGIN
"""Nats by which two conventions must explain the halves better than one explains the whole, beside the logarithm of
the number of places where the file could be split: as many chances to be better there are. On known servers in
random order the best split gains 6.5 at most."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Members from `position` on (0 < position < number of members) are served otherwise than those before.

    `gain` is what two conventions explain better than one, in nats, the margin taken off.
    """

    position: int
    last_before: str
    first_after: str
    before: Hypothesis
    after: Hypothesis
    gain: float


def find_drift(members: Sequence[Observation]) -> Drift | None:
    """The place in the order of a group's exchanges at which its convention changes; None where one explains all.

    The best split for every pair of conventions at once: O(members · conventions), by sums over the first members.
    """
    if len(members) < 2:
        return None
    distinct = list({_weighed_by(member): member for member in members}.values())
    place = {_weighed_by(member): position for position, member in enumerate(distinct)}
    which = np.array([place[_weighed_by(member)] for member in members])
    hypotheses = list(coherent_hypotheses(members))
    splits = len(members) - 1
    first, last = np.full(splits, -np.inf), np.full(splits, -np.inf)
    best_first, best_last = np.zeros(splits, dtype=int), np.zeros(splits, dtype=int)
    whole = -np.inf
    for number, hypothesis in enumerate(hypotheses):
        weights = np.array([log_likelihood(hypothesis, member) for member in distinct])
        sums = np.cumsum(weights[which])
        total = float(sums[-1])
        whole = max(whole, total)
        for best, chosen, half in ((first, best_first, sums[:-1]), (last, best_last, total - sums[:-1])):
            better = half > best + 1e-9  # the plainest first, so that it stays where two explain alike
            best[better], chosen[better] = half[better], number
    position = int(np.argmax(first + last))
    gain = float(first[position] + last[position]) - whole - DRIFT_MARGIN - log(splits)
    before, after = hypotheses[best_first[position]], hypotheses[best_last[position]]
    if gain <= 0 or before == after:
        return None
    last_before, first_after = members[position].exchange_id, members[position + 1].exchange_id
    return Drift(position + 1, last_before, first_after, before, after, gain)


def eras(members: Sequence[Observation]) -> list[Sequence[Observation]]:
    """The members cut, in their order, at every change of convention; all together where there is none."""
    drift = find_drift(members)
    if drift is None:
        return [members]
    return [*eras(members[: drift.position]), *eras(members[drift.position :])]


def log_likelihood(hypothesis: Hypothesis, observation: Observation) -> float:
    """How well a convention explains one response, in nats."""
    difference = hypothesis.difference(observation)
    weight = CANNOT_BE if difference is None else CLOSES if difference == 0 else DIFFERS
    # A `<think>` that is generated is missing in the prompt's count, and only then is that one short.
    if observation.thinking and observation.prompt_offset in (0, -1):
        expected = -1 if hypothesis.counting.think_generated else 0
        weight += CLOSES if observation.prompt_offset == expected else DIFFERS
    return weight


def _weighed_by(observation: Observation) -> Hashable:
    """All of an observation that its likelihoods depend on."""
    edges = tuple((edge, view.can_hold_blank, view.without_blank) for edge, view in observation.edges.items())
    shape = (observation.thinking, observation.has_calls, observation.respaced, observation.prompt_offset)
    return observation.difference, shape, edges
