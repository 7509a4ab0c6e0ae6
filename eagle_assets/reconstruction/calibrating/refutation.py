"""Observations in, a calibration out: which conventions survive all responses of a provider, and its rates.

Calibration is by refutation: one text without a leading blank cannot come from a server that puts one there, and a
count that closes only without the blank speaks against a server that does not. What is left is weighed by
likelihood, and a rival within `RIVAL_MARGIN` of the best still stands.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from types import MappingProxyType

from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.decisions import (
    NOTHING_DECIDED,
    Arbitrations,
    Decisions,
    GroupKey,
)
from eagle_assets.reconstruction.calibrating.drift import eras
from eagle_assets.reconstruction.calibrating.habits import (
    affixed,
    line_breaks_alike,
    numbering_of,
    reasoning_surplus_of,
    sorts_keys,
)
from eagle_assets.reconstruction.calibrating.hypotheses import always_blank
from eagle_assets.reconstruction.calibrating.kept import TEXT_PLACES, Kept, kept_white_space
from eagle_assets.reconstruction.calibrating.losses import (
    NOTHING_MEASURED,
    Measured,
    Rate,
    Rates,
    departed,
    losses,
    written,
)
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.standing import standing_conventions
from eagle_assets.reconstruction.calibrating.steps_seen import shows_steps
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis, Survivor
from eagle_assets.reconstruction.counting import EVERYTHING_COUNTED
from eagle_assets.reconstruction.places import BLANK_PLACES, IndexRisk, Place
from eagle_assets.reconstruction.prompts import PromptCalibration
from eagle_assets.serving.convention import Edge

_ENOUGH_TO_MEASURE = 512
"""Members of which half are enough to measure rates on: what they cannot exclude is below one in four hundred."""

_ENOUGH_FOR_A_HABIT = 5  # responses at whose edges blanks that always stand are no accident


def settled(members: Sequence[Observation]) -> Sequence[Observation]:
    """The first members, as many as four binary digits can say, or one where that is enough.

    Rates are measured on them, and stand still while little comes: what was weighed by them is not written again.
    """
    digits = 1 if len(members) >= _ENOUGH_TO_MEASURE else 4
    step = 1 << max(0, len(members).bit_length() - digits)
    return members[: len(members) - len(members) % step]


def calibrate_observations(
    observations: Iterable[Observation],
    prompts: PromptCalibration | None = None,
    arbitrations: Arbitrations = MappingProxyType({}),
    own: Iterable[Observation] = (),
) -> Calibration:
    """The calibration that all observations together lead to, a provider split where it changed its convention.

    Arbitrations hold for the last convention of a provider that changed its own. `own` are observations of the team's
    own outputs as they were generated (`own/as_generated.py`): of no provider, but of the model's habits.
    """
    in_order = sorted(observations, key=lambda o: o.order)
    groups, earlier = _calibrated_groups(in_order, arbitrations)
    served_last, own = _as_served_last(in_order, earlier), list(own)
    measured = _measured_by_model(groups, _grouped(settled(served_last)), own)
    return Calibration(
        groups,
        earlier,
        prompts or PromptCalibration(),
        _index_shifts(chain.from_iterable(measured.values())),
        _written_by_model(groups, served_last, own, measured),
        {model: departed(of_model) for model, of_model in measured.items()},
    )


def _calibrated_groups(
    in_order: Sequence[Observation], arbitrations: Arbitrations
) -> tuple[dict[GroupKey, GroupCalibration], dict[GroupKey, tuple[tuple[float, GroupCalibration], ...]]]:
    """How each provider serves, and how those that changed did before: `groups` and `earlier` of a Calibration."""
    grouped = _grouped(in_order)
    groups: dict[GroupKey, GroupCalibration] = {}
    last_of: dict[GroupKey, Sequence[Observation]] = {}
    earlier: dict[GroupKey, tuple[tuple[float, GroupCalibration], ...]] = {}
    for key, members in grouped.items():
        decided = arbitrations.get(key, NOTHING_DECIDED)
        alike = _with_the_same_members(key, grouped)
        if alike is not None and arbitrations.get(alike, NOTHING_DECIDED) == decided:
            groups[key] = replace(groups[alike], model=key[0])
            if alike in earlier:
                earlier[key] = tuple((start, replace(era, model=key[0])) for start, era in earlier[alike])
            last_of[key] = last_of[alike]
            continue
        *before, last_of[key] = eras(members)
        of_all_models = grouped["", *key[1:]]
        groups[key] = calibrate_group(*key, last_of[key], of_all_models, decided)
        if before:
            starts = [era[0].order for era in (*before[1:], last_of[key])]
            earlier[key] = tuple(
                (start, calibrate_group(*key, era, of_all_models)) for start, era in zip(starts, before, strict=True)
            )
    return {key: _with_rule_of_others(group, groups, last_of[key]) for key, group in groups.items()}, earlier


def _written_by_model(
    groups: Mapping[GroupKey, GroupCalibration],
    served_last: Sequence[Observation],
    own: Sequence[Observation],
    measured: Mapping[str, Iterable[Measured]],
) -> dict[str, dict[Place, Rates]]:
    """How often each model writes white space, by place: `written` of a Calibration."""
    written_by_model = {model: written(of_model) for model, of_model in measured.items()}
    for place in BLANK_PLACES:  # there are so few that what stands still is nearly all of them
        there, own_there = ([o for o in some if place in o.edges] for some in (served_last, own))
        for model, of_model in _measured_by_model(groups, _grouped(settled(there)), own_there).items():
            written_by_model.setdefault(model, {})[place] = written(of_model).get(place, NOTHING_MEASURED)
    return written_by_model


def _grouped(observations: Iterable[Observation]) -> dict[GroupKey, list[Observation]]:
    grouped: dict[GroupKey, list[Observation]] = defaultdict(list)
    for observation in observations:
        grouped[observation.model, observation.provider, observation.streamed].append(observation)
        grouped["", observation.provider, observation.streamed].append(observation)
    return grouped


def _with_the_same_members(key: GroupKey, grouped: Mapping[GroupKey, Sequence[Observation]]) -> GroupKey | None:
    """The group of the one model that has all responses of a provider; None for any other than the group of all."""
    model, *place = key
    alike = (k for k in grouped if k[0] != model == "" and [*k[1:]] == place and len(grouped[k]) == len(grouped[key]))
    return next(alike, None)


def _as_served_last(
    in_order: Sequence[Observation], earlier: Mapping[GroupKey, Sequence[tuple[float, GroupCalibration]]]
) -> list[Observation]:
    """What came since its provider last changed: what that keeps says nothing of what came before."""
    since = {key: eras[-1][0] for key, eras in earlier.items() if key[0] == ""}
    return [o for o in in_order if o.order >= since.get(("", o.provider, o.streamed), -inf)]


def _with_rule_of_others(
    group: GroupCalibration, groups: Mapping[GroupKey, GroupCalibration], members: Sequence[Observation]
) -> GroupCalibration:
    """The group, counting reasonings by the rule of its provider's answers that are served the other way, streamed or
    not, where its own few follow it."""
    others = groups.get((group.model, group.provider, not group.streamed))
    if group.reasoning_surplus is not None or others is None or others.reasoning_surplus is None:
        return group
    best = group.best.hypothesis
    closing = [o for o in members if best.difference(o) == 0]
    return replace(group, reasoning_surplus=reasoning_surplus_of(closing, best, others.reasoning_surplus))


def _measured_by_model(
    groups: Mapping[GroupKey, GroupCalibration],
    grouped: Mapping[GroupKey, Sequence[Observation]],
    own: Iterable[Observation],
) -> dict[str, list[Measured]]:
    measured: dict[str, list[Measured]] = defaultdict(list)
    for (model, provider, streamed), members in grouped.items():
        if model:
            group = groups["", provider, streamed]
            measured[model].append(
                Measured(members, group.best.hypothesis, group.kept, group.reasoning_surplus, group.tool_ids_kept)
            )
    of_model: dict[str, list[Observation]] = defaultdict(list)
    for observation in own:
        of_model[observation.model].append(observation)
    for model, members in of_model.items():
        measured[model].append(Measured(members, _AS_GENERATED, Kept(frozenset(TEXT_PLACES)), 1, numbers_kept=True))
    return measured


_AS_GENERATED = Hypothesis(frozenset(), EVERYTHING_COUNTED)


def _index_shifts(measured: Iterable[Measured]) -> dict[IndexRisk, Rate]:
    shifted: dict[IndexRisk, list[bool]] = defaultdict(list)
    for group in measured:
        if group.numbers_kept:
            for observation in group.members:
                if observation.index_shifted is not None:
                    shifted[observation.index_risk].append(observation.index_shifted)
    return {risk: Rate(sum(found), len(found)) for risk, found in shifted.items()}


def calibrate_group(
    model: str,
    provider: str,
    streamed: bool,
    members: Sequence[Observation],
    of_all_models: Sequence[Observation],
    decided: Decisions = NOTHING_DECIDED,
) -> GroupCalibration:
    """Weigh every convention of the closed list on the responses of one group (at least one), in their order, of those
    that the provider sent `of_all_models`."""
    standing = standing_conventions(members)
    survivors = tuple(_not_refuted(standing, {rival.refuted for rival in decided.rivals})) or standing
    numbering = numbering_of(members)
    best = survivors[0].hypothesis
    closing = [o for o in members if best.difference(o) == 0]
    kept = kept_white_space(members, best, of_all_models)
    return GroupCalibration(
        model=model,
        provider=provider,
        streamed=streamed,
        survivors=survivors,
        counted=_by_calls(members),
        closed=_by_calls(closing),
        measured=_by_calls([o for o in settled(members) if best.difference(o) == 0]),
        kept=kept,
        losses=losses(settled(members), best, kept),
        tool_ids_kept=numbering == "kept",
        tool_ids_renumbered=numbering == "renumbered",
        tells_reasoning=(_tells_reasoning(members, False), _tells_reasoning(members, True)),
        reasoning_surplus=reasoning_surplus_of(closing, best),
        arbitrations=decided.rivals,
        trimmings=decided.trimmings,
        affixed=affixed(members),
        sorts_keys=sorts_keys(of_all_models),
        line_breaks_alike=line_breaks_alike(members) or line_breaks_alike(of_all_models),
        shows_steps=shows_steps(members, best, kept),
        blanks_unexplained=_blanks_unexplained(members, best),
        ids_given=Counter(o.ids_given for o in members if o.ids_given is not None),
    )


def _not_refuted(standing: Iterable[Survivor], refuted: Container[str]) -> Iterator[Survivor]:
    """The survivors that are not refuted; what one leaves open is settled where all but one way to settle it is."""
    for survivor in standing:
        ways = [way for way in survivor.hypothesis.ways_to_settle() if way.name not in refuted]
        if len(ways) == 1:
            yield replace(survivor, hypothesis=ways[0])
        elif ways:
            yield survivor


def _blanks_unexplained(members: Sequence[Observation], best: Hypothesis) -> frozenset[Edge]:
    return always_blank(members) - best.inserted if len(members) >= _ENOUGH_FOR_A_HABIT else frozenset()


def _tells_reasoning(members: Sequence[Observation], tools_declared: bool) -> bool:
    return sum(o.tells_reasoning is True for o in members if o.tools_declared is tools_declared) >= 2


def _by_calls(members: Sequence[Observation]) -> tuple[int, int]:
    with_calls = sum(o.has_calls for o in members)
    return len(members) - with_calls, with_calls
