"""What is open of one response alone: which of several ways to cut its texts, or whether its calls have the numbers
that the model gave them. The target decides it by this response, at a stated error, where nothing else is open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from eagle_assets.judge.arbitration import ERROR, log_likelihoods, questions_of
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.variants import spans
from eagle_assets.judge.verdicts import SETTLED
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.contests import Contest, ReadAs
from eagle_assets.reconstruction.verdict import Candidate, Exposure, Reconstruction
from eagle_assets.reconstruction.weighing import Weight, weigh
from eagle_assets.targets.target import Target

SEGMENTATIONS, NUMBERS = "several_segmentations", "tool_index_unproven"
OPEN_ALONE = (SEGMENTATIONS, NUMBERS)
"""Reasons, where they are the first, of which one response can be settled: all that is open is known."""


@dataclass(frozen=True, slots=True)
class RivalIds:
    """The ids of a response and its candidates, each of which explains every frame."""

    found: Reconstruction
    contest: Contest
    weight: Weight

    def questions(self) -> Iterator[Question]:
        """About what differs between them."""
        return iter(questions_of(self.contest).values())

    def settled(self, bench: Bench, limit: float) -> Reconstruction:
        """`consistent` with the likeliest ids, where these are wrong with a probability of `limit` at most, all else
        that may be wrong included; else as it was."""
        found, likelihoods = self.found, log_likelihoods(self.contest, questions_of(self.contest), bench)
        if likelihoods is None:
            return found
        (best, first), (_, second), *_ = sorted(likelihoods.items(), key=lambda of: -of[1].total)
        nats, others = first.total - second.total, len(likelihoods) - 1
        error = self.weight.error + others * exp(-nats)
        if nats < log(others / ERROR) or error > limit:
            return found
        every = [Candidate(found.output_ids or (), str(found.evidence.get("convention", "")), 0), *found.candidates]
        chosen = every.pop(int(best))
        said = f"the likeliest of {others + 1} ways to cut the texts by {nats:.1f} nats"
        return replace(_lifted(found, said, error), output_ids=chosen.output_ids, candidates=tuple(every))


@dataclass(frozen=True, slots=True)
class CallNumbers:
    """The numbers in the headers of a response's calls, at these places of its output."""

    found: Reconstruction
    trial: Trial
    places: tuple[int, ...]
    weight: Weight

    def questions(self) -> Iterator[Question]:
        return iter((self.trial.question,))

    def settled(self, bench: Bench, limit: float) -> Reconstruction:
        """`consistent`, where the target would have given the calls any others with a probability of `limit` at most,
        all else that may be wrong included; else as it was. Nothing need be known of which others."""
        scores = bench.scores(self.trial.question)
        if scores is None:
            return self.found
        theirs = exp(float(np.sum(scores.tokens[list(self.places)], dtype=np.float64)))
        error = self.weight.error + 1 - theirs
        if not error <= limit:
            return self.found
        return _lifted(self.found, f"the calls have these numbers with a probability of {theirs:.2%}", error)


def weight_of_else(
    reason: str, exposure: Exposure | None, calibration: Calibration, key: GroupKey, order: float
) -> Weight | None:
    """What else may be wrong with a response that is open for one of OPEN_ALONE; None where that is not known."""
    group = calibration.of(*key, order)
    if exposure is None or group is None:
        return None
    exposure = replace(exposure, index_risk=None) if reason == NUMBERS else exposure
    return weigh(exposure, calibration, group, key[0])


def open_question(
    found: Reconstruction, trial: Trial | None, weight: Weight | None, target: Target
) -> RivalIds | CallNumbers | None:
    """What the judge may settle of a response; None where that is nothing, or where more is open: `weight` is what else
    may be wrong with it."""
    if found.verdict != "unverified" or trial is None or weight is None or weight.cause is not None:
        return None
    if found.reasons[:1] == (SEGMENTATIONS,) and found.candidates:
        every = [trial.output_ids, *(candidate.output_ids for candidate in found.candidates)]
        readings: dict[str, ReadAs | None] = {str(n): ReadAs(tuple(ids), True) for n, ids in enumerate(every)}
        return RivalIds(found, Contest(found.exchange_id, ("", "", False), tuple(trial.prompt_ids), readings), weight)
    # A sampler that is hotter than the target's own probabilities gives other numbers more often.
    if found.reasons[:1] == (NUMBERS,) and not found.candidates and trial.sampling.temperature <= 1:
        places = tuple(_places_of_numbers(trial, target))
        return CallNumbers(found, trial, places, weight) if places else None
    return None


def _places_of_numbers(trial: Trial, target: Target) -> Iterator[int]:
    ids, vocabulary = trial.output_ids, target.vocabulary
    for span in spans(ids, vocabulary):
        if span.after == target.markers.call_begin:
            begin = span.end
            while begin > span.start and vocabulary.bytes_of(ids[begin - 1]).isdigit():
                begin -= 1
            yield from range(begin, span.end)


def _lifted(found: Reconstruction, said: str, error: float) -> Reconstruction:
    return replace(
        found,
        verdict="consistent",
        reasons=(f"{SETTLED}: {said}", *found.reasons[1:]),
        evidence={**found.evidence, "residual_error": round(error, 4), "judge": said},
    )
