"""One response that reads as several sequences of ids, all of which explain everything: which of them the target finds
far likelier than all others, if any, at a stated error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import exp, log

from eagle_assets.judge.arbitration import log_likelihoods, questions_of
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question
from eagle_assets.judge.verdicts import SETTLED
from eagle_assets.reconstruction.contests import Contest, Reading
from eagle_assets.reconstruction.verdict import Candidate, Reconstruction
from eagle_assets.reconstruction.weighing import Weight
from eagle_assets.targets.target import Target

ERROR = 0.001
"""The chance that other ids than the likeliest are the true ones, over all rivals of a response."""

TELLS_APART = "several_segmentations"
"""The one reason for which all candidates are known: frames that each of them explains, and none but them."""


def rivals_in(found: Reconstruction, weight: Weight | None, target: Target) -> Contest | None:
    """The rival ids of a response; None where it has none that settle it, or where more than these is open: `weight`
    is what else may be wrong with it."""
    open_to_it = found.verdict == "unverified" and found.reasons[:1] == (TELLS_APART,) and found.candidates
    if not open_to_it or weight is None or weight.cause is not None or not found.output_ids:
        return None
    if found.prompt_ids is None or not target.is_named(found.model or ""):
        return None
    every = [found.output_ids, *(candidate.output_ids for candidate in found.candidates)]
    readings: dict[str, Reading | None] = {str(n): Reading(tuple(ids), True) for n, ids in enumerate(every)}
    return Contest(found.exchange_id, ("", "", False), tuple(found.prompt_ids), readings)


def questions_about(rivals: Iterable[Contest]) -> Iterator[Question]:
    """What is asked of the target about rival ids, where they differ."""
    return (question for contest in rivals for question in questions_of(contest).values())


def settled_among(found: Reconstruction, rivals: Contest, weight: Weight, bench: Bench, limit: float) -> Reconstruction:
    """The verdict once the target was asked about the rivals: `consistent` with the likeliest ids, where these are
    wrong with a probability of `limit` at most, all else that may be wrong included; else as it was."""
    likelihoods = log_likelihoods(rivals, questions_of(rivals), bench)
    if likelihoods is None:
        return found
    (best, first), (_, second), *_ = sorted(likelihoods.items(), key=lambda of: -of[1].total)
    nats, others = first.total - second.total, len(likelihoods) - 1
    error = weight.error + others * exp(-nats)
    if nats < log(others / ERROR) or error > limit:
        return found
    every = [Candidate(found.output_ids or (), str(found.evidence.get("convention", "")), 0), *found.candidates]
    chosen = every.pop(int(best))
    said = f"{SETTLED}: the likeliest of {others + 1} ways to cut the texts by {nats:.1f} nats"
    return replace(
        found,
        verdict="consistent",
        output_ids=chosen.output_ids,
        reasons=(said, *found.reasons[1:]),
        evidence={**found.evidence, "residual_error": round(error, 4), "judge": said},
        candidates=tuple(every),
    )
