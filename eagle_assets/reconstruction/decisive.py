"""What of a calibration a finding depends on: as long as it stays the same, what was found need not be found again.

Rates move with every response and are not part of it: they are weighed afterwards (`weighing.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import inf
from typing import Any, get_args

from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.calibrating.kept import Kept
from eagle_assets.reconstruction.doubts import what_is_unsettled
from eagle_assets.reconstruction.prompts import MIN_CLOSED, Kind, PromptGroup


def decisive_facts(calibration: Calibration, key: GroupKey) -> str:
    """A digest of all that decides what is found in responses of a model, provider and way of serving, whenever they
    came."""
    model, provider, streamed = key
    starts = (-inf, *changes_of(calibration, key))
    eras = [(start, facts_of_group(calibration.of(model, provider, streamed, start))) for start in starts]
    facts = (eras, _facts_of_prompts(calibration.prompts.groups.get((model, provider))))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def changes_of(calibration: Calibration, key: GroupKey) -> list[float]:
    """The places in the order of exchanges at which another group begins to speak for responses of this one."""
    model, provider, streamed = key
    return sorted(
        {until for name in (model, "") for until, _ in calibration.earlier.get((name, provider, streamed), ())}
    )


def facts_of_group(group: GroupCalibration | None) -> Sequence[Any] | None:
    """All that `judgement.find` makes use of."""
    if group is None:
        return None
    return (
        [survivor.hypothesis.name for survivor in group.survivors],
        _facts_of_kept(group.kept),
        sorted(group.affixed),
        (group.line_breaks_alike, group.sorts_keys, group.shows_steps),
        sorted(group.losses),
        (group.tool_ids_kept, group.tool_ids_renumbered, group.tells_reasoning),
        group.reasoning_surplus,
        group.servers,
        sorted(group.parts_seen),
        (group.gives_generated_ids, group.gives_other_ids),
        [(what_is_unsettled(group, calls), group.servers_that_speak(calls)) for calls in (False, True)],
    )


def _facts_of_kept(kept: Kept) -> Sequence[Any]:
    taken = sorted((place, sorted(kinds)) for place, kinds in kept.taken_from.items())
    return sorted(kept.everything), sorted(kept.blanks_alone), taken


def _facts_of_prompts(group: PromptGroup | None) -> Sequence[Any] | None:
    """All that `prompts.judge_prompt` makes use of."""
    if group is None:
        return None
    return [
        [(form.rendering, form.offset, min(group.times_met(form.offset), MIN_CLOSED)) for form in group.standing(kind)]
        for kind in get_args(Kind)
    ]
