"""What a surprise does to a verdict: demoted with its place, or repaired where one other reading explains it all."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest

from eagle_assets.judge.nucleus import Sampling
from eagle_assets.judge.surprise import LEAST_NATS, Surprise, Trial, Weighed
from eagle_assets.judge.threshold import FALSE_ALARMS, FEWEST_PROVEN, Threshold, threshold_of
from eagle_assets.judge.variants import KINDS, Kind, Variant
from eagle_assets.judge.verdicts import is_proven, judged, open_to_doubt, trial_of, trusted_trial_of
from eagle_assets.reconstruction.console.reasons_in_words import reason_in_words
from eagle_assets.reconstruction.verdict import Reconstruction, Verdict
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
FIVE = Threshold(dict.fromkeys(KINDS, 5.0), tokens=9, proven=600, expected=0.008, nucleus_holds=True)
CANONICAL = [*TARGET.vocabulary.encode("It is 7."), TARGET.markers.stop]


def surprise(
    *nats: float, impossible: tuple[int, ...] = (), cuts: bool = False, kind: Kind = "leading blank", tokens: int = 9
) -> Surprise:
    variants = tuple(Weighed(Variant(kind, 0, 1, (100 + n,)), value) for n, value in enumerate(nats))
    return Surprise(variants, impossible, -9.0, tokens, cuts)


def found(verdict: Verdict = "consistent") -> Reconstruction:
    return Reconstruction(
        "e", verdict, [1, 2, 3], [9], reasons=("count_closes",), evidence={"convention": "verbatim"}, model=TARGET.name
    )


def after(surprise_: Surprise | None, explains: bool, threshold: Threshold = FIVE) -> Reconstruction:
    return judged(found(), found(), surprise_, threshold, lambda ids: explains).verdict


def test_no_surprise_changes_nothing() -> None:
    assert after(None, True) == found()
    assert after(surprise(), True) == found()
    assert after(surprise(4.9), True) == found()


def test_the_only_plausible_variant_that_explains_everything_repairs() -> None:
    verdict = after(surprise(19.0, 2.0), True)
    assert (verdict.verdict, verdict.output_ids) == ("consistent", [100, 2, 3])
    assert verdict.reasons == ("repaired_by_the_target: leading blank at token 0, 19.0 nats", "count_closes")
    assert [candidate.output_ids for candidate in verdict.candidates] == [[1, 2, 3]]
    assert all(reason_in_words(reason) != reason for reason in verdict.reasons)


def test_else_the_ids_are_contradicted_at_their_place() -> None:
    unexplained, with_a_rival = after(surprise(19.0), False), after(surprise(19.0, 19.0 - LEAST_NATS + 0.1), True)
    for verdict, nats in ((unexplained, 19.0), (with_a_rival, 19.0), (after(surprise(9.0), True), 9.0)):
        assert (verdict.verdict, verdict.output_ids) == ("contradicted", [1, 2, 3])
        assert verdict.reasons[0] == f"surprises_the_target: leading blank at token 0, {nats} nats"
        assert verdict.evidence["judge"] == f"leading blank at token 0, {nats} nats"
        assert reason_in_words(verdict.reasons[0]) != verdict.reasons[0]


def test_a_token_that_cannot_have_been_drawn_contradicts_where_that_was_seen_to_hold() -> None:
    impossible = surprise(impossible=(2,), cuts=True)
    assert after(impossible, True).reasons[0].startswith("surprises_the_target: token 2")
    assert threshold_of([surprise(cuts=True)] * 9).impossible(impossible) == (2,)
    assert threshold_of([surprise()] * 9).impossible(impossible) == ()
    assert threshold_of([surprise(cuts=True), impossible]).impossible(impossible) == ()


def test_nothing_is_repaired_where_too_little_is_proven() -> None:
    few = Threshold(dict.fromkeys(KINDS, 5.0), tokens=9, proven=FEWEST_PROVEN - 1, expected=0.01)
    assert after(surprise(19.0), True, few).verdict == "contradicted"


def test_nothing_is_alarmed_where_nothing_is_proven() -> None:
    assert after(surprise(50.0), True, threshold_of([])) == found()


def test_the_rate_of_false_alarms_is_what_the_proven_sequences_promise() -> None:
    usual = [surprise(*draws) for draws in np.random.default_rng(1).exponential(1.0, (400, 3)) - 2.0]
    for proven in (usual[:60], usual):
        threshold = threshold_of(proven)
        assert threshold.proven == len(proven)
        assert threshold.expected <= 1.001 * FALSE_ALARMS
        assert LEAST_NATS < threshold.nats["leading blank"] < 16
        assert sum(map(threshold.is_alarming, usual)) <= FALSE_ALARMS * len(usual)
    assert threshold_of(usual).nats["leading blank"] < threshold_of(usual[:20]).nats["leading blank"]
    assert threshold_of(usual).nats["segmentation"] == LEAST_NATS


def test_one_proven_sequence_that_goes_far_raises_what_is_an_alarm() -> None:
    tame = threshold_of([surprise(1.0)] * 200)
    wild = threshold_of([*[surprise(1.0)] * 199, surprise(16.0)])
    assert wild.nats["leading blank"] > tame.nats["leading blank"] + 2
    assert wild.nats["tool index"] == tame.nats["tool index"]


def test_a_longer_sequence_than_the_proven_ones_has_more_room_for_chance() -> None:
    assert FIVE.beyond("tool index", 9) == FIVE.beyond("tool index", 3) == 5.0
    assert FIVE.beyond("tool index", 90) == pytest.approx(5.0 + 2 * log(10))
    assert FIVE.is_alarming(surprise(6.0))
    assert not FIVE.is_alarming(surprise(6.0, tokens=90))


def test_only_trusted_outputs_of_the_target_with_a_prompt_go_before_it() -> None:
    assert trusted_trial_of(found(), {"temperature": 0.5}, TARGET) == Trial([9], [1, 2, 3], Sampling(0.5))
    assert trusted_trial_of(found("unverified"), {}, TARGET) is None
    assert trial_of(found("unverified"), {}, TARGET) == Trial([9], [1, 2, 3], Sampling(1.0))
    assert trial_of(Reconstruction("e", "exact", [1], None, model=TARGET.name), {}, TARGET) is None
    assert trial_of(Reconstruction("e", "exact", [1], [2], model="moonshotai/kimi-k2-0905"), {}, TARGET) is None


def test_better_evidence_is_not_overruled() -> None:
    vocabulary = TARGET.vocabulary
    off = [*TARGET.vocabulary.encode("It"), *TARGET.vocabulary.encode(" i"), *TARGET.vocabulary.encode("s 7.")]
    assert is_proven(Reconstruction("e", "exact", CANONICAL), vocabulary)
    assert not is_proven(Reconstruction("e", "exact", off), vocabulary)
    by_frames = replace(found(), evidence={"frames": "one token a step"})
    given = replace(found(), evidence={"ids_from": "token_ids"})
    doubted = [found(), by_frames, given, found("exact"), found("unverified")]
    assert [sorted(open_to_doubt(one)) for one in doubted] == [
        sorted(KINDS),
        ["leading blank", "tool index", "white space behind the content", "white space behind the reasoning"],
        [],
        [],
        [],
    ]
    cases: list[tuple[Reconstruction, Kind, Verdict]] = [
        (by_frames, "segmentation", "consistent"),
        (by_frames, "leading blank", "contradicted"),
        (found(), "segmentation", "contradicted"),
        (given, "leading blank", "consistent"),
    ]
    for one, kind, verdict in cases:
        surprising = surprise(20.0, kind=kind)
        assert judged(one, one, surprising, FIVE, lambda ids: False).verdict.verdict == verdict
    impossible = surprise(impossible=(2,), cuts=True)
    assert judged(by_frames, by_frames, impossible, FIVE, lambda ids: True).verdict == by_frames
