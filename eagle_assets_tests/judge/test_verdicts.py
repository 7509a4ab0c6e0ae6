"""What a surprise does to a verdict: demoted with its place, or repaired where one other reading explains it all."""

from __future__ import annotations

from eagle_assets.judge.nucleus import Sampling
from eagle_assets.judge.surprise import Surprise, Trial, Weighed
from eagle_assets.judge.threshold import LEAST, Threshold, threshold_of
from eagle_assets.judge.variants import KINDS, Variant
from eagle_assets.judge.verdicts import is_open_to_doubt, is_proven, judged, trial_of
from eagle_assets.reconstruction.reasons_in_words import reason_in_words
from eagle_assets.reconstruction.verdict import Reconstruction, Verdict
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
FIVE = Threshold(dict.fromkeys(KINDS, 5.0), proven=600, expected=0.008, nucleus_holds=True)
CANONICAL = [*TARGET.vocabulary.encode("It is 7."), TARGET.markers.stop]


def surprise(*nats: float, impossible: tuple[int, ...] = (), cuts: bool = False) -> Surprise:
    variants = tuple(Weighed(Variant("leading blank", 0, 1, (100 + n,)), value) for n, value in enumerate(nats))
    return Surprise(variants, 3.0, 0, impossible, -9.0, cuts)


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
    verdict = after(surprise(9.0, 2.0), True)
    assert (verdict.verdict, verdict.output_ids) == ("consistent", [100, 2, 3])
    assert verdict.reasons == ("repaired_by_the_target: leading blank at token 0, 9.0 nats", "count_closes")
    assert [candidate.output_ids for candidate in verdict.candidates] == [[1, 2, 3]]
    assert all(reason_in_words(reason) != reason for reason in verdict.reasons)


def test_else_the_ids_are_contradicted_at_their_place() -> None:
    for verdict in (after(surprise(9.0), False), after(surprise(9.0, 9.0 - LEAST + 0.1), True)):
        assert (verdict.verdict, verdict.output_ids) == ("contradicted", [1, 2, 3])
        assert verdict.reasons[0] == "surprises_the_target: leading blank at token 0, 9.0 nats"
        assert verdict.evidence["judge"] == "leading blank at token 0, 9.0 nats"
        assert reason_in_words(verdict.reasons[0]) != verdict.reasons[0]


def test_a_token_that_cannot_have_been_drawn_contradicts_where_that_was_seen_to_hold() -> None:
    impossible = surprise(impossible=(2,), cuts=True)
    assert after(impossible, True).reasons[0].startswith("surprises_the_target: token 2")
    assert threshold_of([surprise(cuts=True)] * 9).impossible(impossible) == (2,)
    assert threshold_of([surprise()] * 9).impossible(impossible) == ()
    assert threshold_of([surprise(cuts=True), impossible]).impossible(impossible) == ()


def test_nothing_is_repaired_where_too_little_is_proven() -> None:
    few = Threshold(dict.fromkeys(KINDS, 5.0), proven=60, expected=0.08)
    assert after(surprise(9.0), True, few).verdict == "contradicted"


def test_nothing_is_alarmed_where_nothing_is_proven() -> None:
    assert after(surprise(50.0), True, threshold_of([])) == found()


def test_the_rate_of_false_alarms_is_what_the_proven_sequences_promise() -> None:
    few, many = threshold_of([surprise(6.0)] * 60), threshold_of([surprise(6.0)] * 2_000)
    assert few.nats["leading blank"] == 6.0
    assert few.nats["segmentation"] == LEAST
    assert round(few.expected, 4) == round(5 / 61, 4)
    assert many.expected <= 0.01
    spread = threshold_of(surprise(float(n)) for n in range(2_000))
    assert sum(bool(spread.alarms(surprise(float(n)))) for n in range(2_000)) <= 0.01 * 2_000


def test_only_trusted_outputs_of_the_target_with_a_prompt_go_before_it() -> None:
    assert trial_of(found(), {"temperature": 0.5}, TARGET) == Trial([9], [1, 2, 3], Sampling(0.5))
    assert trial_of(found("unverified"), {}, TARGET) is None
    assert trial_of(Reconstruction("e", "exact", [1], None, model=TARGET.name), {}, TARGET) is None
    assert trial_of(Reconstruction("e", "exact", [1], [2], model="moonshotai/kimi-k2-0905"), {}, TARGET) is None


def test_better_evidence_is_not_overruled() -> None:
    vocabulary = TARGET.vocabulary
    off = [*TARGET.vocabulary.encode("It"), *TARGET.vocabulary.encode(" i"), *TARGET.vocabulary.encode("s 7.")]
    assert is_open_to_doubt(Reconstruction("e", "consistent", CANONICAL), vocabulary)
    assert not is_open_to_doubt(Reconstruction("e", "exact", CANONICAL), vocabulary)
    assert not is_open_to_doubt(Reconstruction("e", "consistent", off), vocabulary)
    assert is_proven(Reconstruction("e", "exact", CANONICAL), vocabulary)
    assert not is_proven(Reconstruction("e", "exact", off), vocabulary)
