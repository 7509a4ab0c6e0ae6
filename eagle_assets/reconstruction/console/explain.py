"""Why a calibration says what it says: which exchanges refuted which rival, what is open, what nothing explains.

A calibration keeps numbers only; explanations are made again from the observations that it was learnt from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import exp
from typing import Literal

from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.decisions import NOTHING_DECIDED, Decisions, GroupKey
from eagle_assets.reconstruction.calibrating.drift import Drift, find_drift, log_likelihood
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.rules import Rule, question, rules_between, what_would_settle
from eagle_assets.reconstruction.calibrating.survivor import EDGES, RIVAL_MARGIN, Hypothesis
from eagle_assets.reconstruction.counting import COUNTINGS
from eagle_assets.reconstruction.doubts import MAX_UNMEASURED_ERROR, MIN_CLOSING_SHARE
from eagle_assets.reconstruction.inverse import SOMETIMES_STRIPPED
from eagle_assets.serving.convention import Edge

Fate = Literal["stands", "refuted", "not weighed"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was seen in one exchange that speaks against a rival of the best convention.

    `edge` is where a blank is missing that the rival puts there (`difference` is None), or whose blank decides the
    count (`change` tokens less without it). `difference` is what the rival leaves of the count.
    """

    exchange_id: str
    difference: int | None
    edge: Edge | None = None
    change: int | None = None


@dataclass(frozen=True, slots=True)
class Rival:
    """The best convention with one rule changed, and what became of it.

    `not weighed`: the responses do not refute it, but no server is known that puts blanks at these edges alone.
    `nats` is how much better the best explains the responses; `closes_instead` are exchanges whose count closes under
    the rival and not under the best.
    """

    rule: Rule
    hypothesis: Hypothesis
    fate: Fate
    nats: float
    sightings: tuple[Sighting, ...]
    closes_instead: int


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """`residual`: differences that the best convention leaves, over the responses (None: a text it cannot show);
    `residual_with_calls` those of them with calls. `unexplained` are the exchanges of all but 0. `decided` is what
    the target model decided about the group, or about all models of its provider together."""

    group: GroupCalibration
    responses: int
    rivals: tuple[Rival, ...]
    residual: Mapping[int | None, int]
    residual_with_calls: Mapping[int | None, int]
    unexplained: tuple[str, ...]
    drift: Drift | None
    decided: Decisions = NOTHING_DECIDED


@dataclass(frozen=True, slots=True)
class Standing:
    """A convention that survived, with its share of the likelihood of all that did."""

    name: str
    share: float
    closed: int


@dataclass(frozen=True, slots=True)
class OpenPoint:
    """Something that a group's responses leave open, and what would settle it."""

    what: str
    settled_by: str


def group_members(observations: Iterable[Observation]) -> dict[GroupKey, list[Observation]]:
    """The observations of each model, provider and kind of answer, in order."""
    grouped: dict[GroupKey, list[Observation]] = defaultdict(list)
    for observation in observations:
        grouped[observation.model, observation.provider, observation.streamed].append(observation)
    return dict(grouped)


def explain(calibration: Calibration, observations: Iterable[Observation]) -> list[GroupExplanation]:
    """An explanation of every group that the calibration learnt from these observations, by model and provider."""
    members = group_members(observations)
    decided = calibration.decided
    return [
        replace(
            explain_group(members[key], calibration.groups[key]),
            decided=decided.get(key) or decided.get(("", *key[1:]), NOTHING_DECIDED),
        )
        for key in sorted(members)
    ]


def explain_group(members: Sequence[Observation], group: GroupCalibration) -> GroupExplanation:
    """Hold every rival of the group's best convention against its responses (at least one), in their order."""
    best = group.best.hypothesis
    left = [(member, best.difference(member)) for member in members]
    return GroupExplanation(
        group=group,
        responses=len(members),
        rivals=tuple(_rival(rule, rival, members, group) for rule, rival in rivals_of(best, members)),
        residual=Counter(difference for _, difference in left),
        residual_with_calls=Counter(difference for member, difference in left if member.has_calls),
        unexplained=tuple(member.exchange_id for member, difference in left if difference != 0),
        drift=find_drift(members),
    )


def rivals_of(best: Hypothesis, members: Sequence[Observation]) -> Iterator[tuple[Rule, Hypothesis]]:
    """The convention with one rule changed, for every rule that these responses can say something of."""
    views = list(chain.from_iterable(member.edges.items() for member in members))
    here = {edge for edge, view in views if view.can_hold_blank}
    for edge in EDGES:
        if edge in here:
            yield edge, replace(best, inserted=best.inserted ^ {edge})
    with_calls = any(member.has_calls for member in members)
    thinking = any(member.thinking for member in members)
    for counting in COUNTINGS:
        rival = replace(best, counting=counting)
        rules = rules_between(best, rival)
        possible = (with_calls or "section_end" not in rules) and (
            thinking or not {"think_generated", "think_end"}.intersection(rules)
        )
        if len(rules) == 1 and possible:
            yield rules[0], rival
    if any(member.respaced is not None for member in members):
        yield "arguments_rewritten", replace(best, rewrites_arguments=not best.rewrites_arguments)


def _rival(rule: Rule, rival: Hypothesis, members: Sequence[Observation], group: GroupCalibration) -> Rival:
    best = group.best.hypothesis
    sightings, instead, nats = [], 0, 0.0
    for member in members:
        ours, theirs = best.difference(member), rival.difference(member)
        nats += log_likelihood(best, member) - log_likelihood(rival, member)
        if ours != 0:
            instead += theirs == 0
        elif theirs is None:
            sightings.append(Sighting(member.exchange_id, None, _edge_without_blank(rival, member)))
        elif theirs != 0:
            edge = next((edge for edge in EDGES if edge == rule and edge in member.edges), None)
            change = member.edges[edge].without_blank if edge is not None else None
            sightings.append(Sighting(member.exchange_id, theirs, edge, change))
    if any(survivor.hypothesis == rival for survivor in group.survivors):
        fate: Fate = "stands"
    else:
        fate = "refuted" if nats > RIVAL_MARGIN else "not weighed"
    return Rival(rule, rival, fate, nats, tuple(sightings), instead)


def _edge_without_blank(rival: Hypothesis, member: Observation) -> Edge | None:
    for edge, view in member.edges.items():
        missing = view.can_hold_blank and view.without_blank is None
        if missing and edge in rival.inserted and edge not in SOMETIMES_STRIPPED:
            return edge
    return None


def standings(group: GroupCalibration) -> list[Standing]:
    """The surviving conventions, the likeliest first."""
    weights = [exp(survivor.log_likelihood - group.best.log_likelihood) for survivor in group.survivors]
    return [
        Standing(survivor.hypothesis.name, weight / sum(weights), survivor.closed)
        for survivor, weight in zip(group.survivors, weights, strict=True)
    ]


def open_rules(group: GroupCalibration) -> tuple[Rule, ...]:
    """The rules in which conventions that still stand differ from the likeliest one."""
    best = group.best.hypothesis
    rules = chain.from_iterable(rules_between(best, survivor.hypothesis) for survivor in group.survivors[1:])
    return tuple(dict.fromkeys(rules))


def open_points(group: GroupCalibration) -> list[OpenPoint]:
    """What the responses leave open, and what would settle it; empty where the group's convention is settled."""
    points = []
    for has_calls, kind in enumerate(("without calls", "with calls")):
        counted, closed = group.counted[has_calls], group.closed[has_calls]
        if counted and group.closing_share(bool(has_calls)) < MIN_CLOSING_SHARE:
            found = f"{closed} of {counted} counts {kind} close, so that no known convention explains them"
            points.append(OpenPoint(found, "a convention that does, as a new rule"))
        elif counted and group.unmeasured_error(bool(has_calls)) > MAX_UNMEASURED_ERROR:
            found = f"only {closed} closed counts {kind}"
            points.append(OpenPoint(found, f"{_more_responses(group)} more of them"))
    return points + [OpenPoint(question(rule), what_would_settle(rule)) for rule in open_rules(group)]


def _more_responses(group: GroupCalibration) -> int:
    """Closed counts that are wanted until they can exclude MAX_UNMEASURED_ERROR (Jeffreys' prior, nothing against)."""
    return max(1, round(0.5 / MAX_UNMEASURED_ERROR) - 1 - sum(group.closed))
