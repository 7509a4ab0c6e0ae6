"""What the judge's word does to a verdict: it settles, demotes or repairs, and never makes anything `exact`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from eagle_assets.judge.habits import Habit
from eagle_assets.judge.nucleus import Sampling
from eagle_assets.judge.surprise import LEAST_NATS, Surprise, Trial, Weighed
from eagle_assets.judge.threshold import Threshold
from eagle_assets.judge.variants import CUTS, KINDS, LEADING_BLANK, Kind
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.canonical import is_canonical
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.roundtrip import serve_again
from eagle_assets.reconstruction.verdict import Candidate, Reconstruction
from eagle_assets.targets.target import Target
from eagle_assets.targets.vocabulary import Vocabulary

Change = Literal["settled", "repaired", "contradicted"]
SETTLED = "settled_by_the_target"
CHANGES: dict[str, Change] = {
    SETTLED: "settled",
    "repaired_by_the_target": "repaired",
    "surprises_the_target": "contradicted",
}

Explains = Callable[[Sequence[int]], bool]
"""Whether some ids explain all that was seen of a response: its texts and its count."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict after the judge, with what it was before. `surprise` is None where the judge was not asked or did not
    answer; `alarms` are those of its variants that are likelier than they may be."""

    verdict: Reconstruction
    before: Reconstruction
    surprise: Surprise | None = None
    alarms: tuple[Weighed, ...] = ()

    @property
    def change(self) -> Change | None:
        """What the judge did; None where it left the verdict as it was."""
        return change_in(self.verdict.reasons)


def change_in(reasons: Sequence[str]) -> Change | None:
    """What the judge did to a verdict with these reasons; None where it left it as it was."""
    return CHANGES.get(reasons[0].partition(":")[0]) if reasons else None


def settled(before: Reconstruction, after: Reconstruction, limit: float) -> Reconstruction:
    """The verdict once the judge has said what it can of the provider: `after`, which was found in the light of that,
    where it lifts what was not trusted and is wrong with a probability of `limit` at most, and never as `exact`; else
    as it was."""
    if before.verdict != "unverified" or not after.trusted:
        return before
    if after.evidence.get("residual_error", 0.0 if after.verdict == "exact" else 1.0) > limit:
        return before
    return replace(after, verdict="consistent", reasons=(SETTLED, *after.reasons))


def trial_of(found: Reconstruction, request: Mapping[str, Any], target: Target) -> Trial | None:
    """The output of a verdict before the judge; None where there is none to judge, no prompt is known, or another model
    answered than the judge is."""
    if not found.output_ids or found.prompt_ids is None or not target.is_named(found.model or ""):
        return None
    return Trial(found.prompt_ids, found.output_ids, Sampling.of(request))


def trusted_trial_of(found: Reconstruction, request: Mapping[str, Any], target: Target) -> Trial | None:
    """As `trial_of`, of a trusted verdict; None for any other."""
    return trial_of(found, request, target) if found.trusted else None


def is_proven(found: Reconstruction, vocabulary: Vocabulary) -> bool:
    """Whether the judge can be measured by this output: its ids are proven, and the encoder's, as those of the outputs
    that are judged are. An output that is proven to have left the canonical path says nothing of the others."""
    ids = found.output_ids
    return found.verdict == "exact" and ids is not None and is_canonical(ids, vocabulary) is True


def open_to_doubt(found: Reconstruction) -> frozenset[Kind]:
    """The kinds of surprise that may change a verdict: none where there is better evidence of the very tokens, and none
    about how a text was cut into tokens where frames show that."""
    if found.verdict != "consistent" or "ids_from" in found.evidence:
        return frozenset()
    if found.evidence.get("frames") == "one token a step":
        return frozenset(KINDS) - CUTS
    return frozenset(KINDS)


def judged(
    before: Reconstruction, found: Reconstruction, surprise: Surprise | None, threshold: Threshold, explains: Explains
) -> Judged:
    """The verdict on `found`, which is `before` or what the judge settled it to be, in the light of its surprise.

    Alarmed ids are `contradicted`, with the place; unless exactly one of the likelier variants is plausible and
    explains all that was seen too, and it is likelier by far more than an alarm takes: then they are repaired.
    """
    doubted = open_to_doubt(found)
    if surprise is None or found.output_ids is None or not threshold.can_judge or not doubted:
        return Judged(found, before, surprise)
    variants = tuple(w for w in surprise.variants if w.variant.kind in doubted)
    surprise = replace(surprise, variants=variants, impossible=surprise.impossible if doubted >= CUTS else ())
    if not threshold.is_alarming(surprise):
        return Judged(found, before, surprise)
    alarms = threshold.alarms(surprise)
    if not alarms:
        place = threshold.impossible(surprise)[0]
        where = f"token {place} is not among those that the request's top_p leaves"
        reasons = (f"surprises_the_target: {where}", *found.reasons)
        evidence = {**found.evidence, "judge": where}
        return Judged(replace(found, verdict="contradicted", reasons=reasons, evidence=evidence), before, surprise)
    best = alarms[0]
    where = f"{best.variant.kind} at token {best.variant.start}, {best.nats:.1f} nats"
    evidence = {**found.evidence, "judge": where}
    repaired = best.variant.applied_to(found.output_ids)
    rivals = [w for w in surprise.variants if w is not best and w.nats > best.nats - LEAST_NATS]
    if not rivals and threshold.repairs(best, surprise.tokens) and explains(repaired):
        given = Candidate(found.output_ids, str(found.evidence.get("convention", "")), 0)
        reasons = (f"repaired_by_the_target: {where}", *found.reasons)
        after = replace(found, output_ids=repaired, reasons=reasons, evidence=evidence, candidates=(given,))
    else:
        reasons = (f"surprises_the_target: {where}", *found.reasons)
        after = replace(found, verdict="contradicted", reasons=reasons, evidence=evidence)
    return Judged(after, before, surprise, alarms)


def with_habit(found: Judged, place: int, habit: Habit) -> Judged:
    """The verdict on a response with a blank ahead of a text, at this place, where its provider was found to put them
    in."""
    if LEADING_BLANK not in open_to_doubt(found.verdict):
        return found
    where = (
        f"leading blank at token {place}, as {habit.blanks} of {habit.responses} texts of its provider have, "
        f"{habit.nats} nats"
    )
    reasons = (f"surprises_the_target: {where}", *found.verdict.reasons)
    evidence = {**found.verdict.evidence, "judge": where}
    return replace(found, verdict=replace(found.verdict, verdict="contradicted", reasons=reasons, evidence=evidence))


def explaining(reading: Reading, found: Reconstruction, hypotheses: Mapping[str, Hypothesis]) -> Explains:
    """Whether ids, served as the evidence says, give the response."""

    def explains(ids: Sequence[int]) -> bool:
        convention, servers = str(found.evidence.get("convention", "")), found.evidence.get("servers", ())
        again = serve_again(reading, ids, convention, hypotheses, servers)
        return again.text_agrees and again.count_gap == 0

    return explains
