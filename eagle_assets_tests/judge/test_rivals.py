"""What is open of one response alone: the target settles it by itself, rightly, or leaves it open."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from eagle_assets.judge.rivals import NUMBERS, SEGMENTATIONS, CallNumbers, open_question, weight_of_else
from eagle_assets.judge.variants import tool_indexes
from eagle_assets.judge.verdicts import trial_of
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Candidate, Reconstruction
from eagle_assets.reconstruction.weighing import Weight
from eagle_assets.sandbox.providers import all_providers
from eagle_assets_tests.judge.corpus import TARGET, bench, small_target
from eagle_assets_tests.judge.provider_answers import exchanges_of

PROVIDERS = [provider for provider in all_providers() if provider.slug in ("lakeside", "tundra")]
LIMIT = 0.05
SURE = Weight(0.01, None)


@cache
def open_ones() -> list[tuple[Reconstruction, Weight | None, list[int]]]:
    """Streamed answers of one token a frame of which several ways to cut the text explain every frame, with what else
    may be wrong with each, and the truth."""
    found = []
    for provider in PROVIDERS:
        answered = exchanges_of(provider, 400, streamed=True)
        exchanges: list[Exchange] = [exchange for exchange, _ in answered]
        calibration = calibrate(exchanges)
        for (exchange, truth), verdict in zip(answered, reconstruct(exchanges, calibration), strict=True):
            if verdict.reasons[:1] == (SEGMENTATIONS,) and verdict.candidates:
                found.append((verdict, weight_of(verdict, exchange, calibration), truth))
    return found


def weight_of(found: Reconstruction, exchange: Exchange, calibration: Calibration) -> Weight | None:
    key = (TARGET.name, found.provider or "", True)
    return weight_of_else(found.reasons[0], found.exposure, calibration, key, exchange.order)


def settled(found: Reconstruction, weight: Weight | None, folder: Path, limit: float = LIMIT) -> Reconstruction:
    one = open_question(found, trial_of(found, {}, TARGET), weight, TARGET)
    if one is None:
        return found
    with bench(small_target(), folder) as bench_:
        bench_.ask(one.questions())
        return one.settled(bench_, limit)


def test_the_target_decides_between_the_ways_to_cut_a_text_and_rightly(tmp_path: Path) -> None:
    lifted = 0
    for found, weight, truth in open_ones():
        after = settled(found, weight, tmp_path)
        if after.verdict == "consistent":
            lifted += 1
            assert list(after.output_ids or ()) == truth
            assert after.reasons[0].startswith("settled_by_the_target: the likeliest of 2 ways")
            assert 0 < after.evidence["residual_error"] <= LIMIT
            ids = [list(ids or ()) for ids in (found.output_ids, *(one.output_ids for one in found.candidates))]
            assert sorted(ids) == sorted([truth, *(list(one.output_ids) for one in after.candidates)])
        else:
            assert after == found
    assert lifted >= 4
    assert lifted >= 0.5 * len(open_ones())


def test_the_right_ones_are_chosen_where_they_were_the_rival(tmp_path: Path) -> None:
    for found, _, truth in open_ones()[:4]:
        (rival,) = found.candidates
        swapped = replace(
            found, output_ids=rival.output_ids, candidates=(Candidate(found.output_ids or (), rival.convention, 0),)
        )
        for one in (found, swapped):
            assert list(settled(one, SURE, tmp_path).output_ids or ()) == truth


def test_what_the_target_finds_alike_or_what_else_is_open_stays_open(tmp_path: Path) -> None:
    found, _, _ = open_ones()[0]
    alike = replace(found, output_ids=[150_001], candidates=(Candidate([150_002], "verbatim", 0),))
    assert settled(alike, SURE, tmp_path) == alike
    assert settled(found, SURE, tmp_path).verdict == "consistent"
    assert settled(found, Weight(LIMIT + 0.01, None), tmp_path) == found
    for weight in (None, Weight(0.01, "white_space_may_be_lost: content end")):
        assert open_question(found, trial_of(found, {}, TARGET), weight, TARGET) is None
    for other in (
        replace(found, candidates=()),
        replace(found, reasons=("white_space_undecided", SEGMENTATIONS)),
        replace(found, model="moonshotai/kimi-k2-0905"),
        replace(found, verdict="consistent"),
    ):
        assert open_question(other, trial_of(other, {}, TARGET), SURE, TARGET) is None


def numbered() -> list[tuple[Reconstruction, list[int]]]:
    """Answers with calls of a provider that numbers calls as the model does, as if that were not known, with the truth
    of each."""
    meridian = next(provider for provider in all_providers() if provider.slug == "meridian")
    answered = exchanges_of(meridian, 200)
    exchanges = [exchange for exchange, _ in answered]
    verdicts = zip(reconstruct(exchanges, calibrate(exchanges)), answered, strict=True)
    return [
        (replace(verdict, verdict="unverified", reasons=(NUMBERS,), candidates=()), truth)
        for verdict, (_, truth) in verdicts
        if verdict.trusted and TARGET.markers.call_end in truth
    ]


def test_calls_have_the_numbers_that_the_target_would_give_them(tmp_path: Path) -> None:
    cases, lifted = numbered(), 0
    for found, truth in cases:
        after = settled(found, SURE, tmp_path)
        lifted += after.verdict == "consistent"
        if after.verdict == "consistent":
            assert list(after.output_ids or ()) == truth
            assert after.reasons[0].startswith("settled_by_the_target: the calls have these numbers")
            assert SURE.error <= after.evidence["residual_error"] <= LIMIT
    assert len(cases) >= 15
    assert lifted >= 0.7 * len(cases)


def test_numbers_that_the_target_would_not_give_are_not_trusted(tmp_path: Path) -> None:
    wrong = 0
    for found, truth in numbered():
        for variant in tool_indexes(truth, TARGET):
            other = replace(found, output_ids=variant.applied_to(truth))
            wrong += 1
            assert settled(other, SURE, tmp_path) == other
    assert wrong >= 15


def test_numbers_are_settled_only_where_nothing_else_is_open() -> None:
    found, _ = numbered()[0]
    plain, hot = (trial_of(found, request, TARGET) for request in ({}, {"temperature": 1.5}))
    assert isinstance(open_question(found, plain, SURE, TARGET), CallNumbers)
    assert open_question(found, hot, SURE, TARGET) is None
    assert open_question(found, plain, Weight(0.01, "white_space_may_be_lost: content end"), TARGET) is None
    assert open_question(replace(found, reasons=("no_count", NUMBERS)), plain, SURE, TARGET) is None
