"""The demo's providers before the small target, as the demo asks them and as JSON: all that calibration leaves open of
them is decided, and rightly, with at most 200 responses that say something of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from eagle_assets.judge.arbitration import arbitrate
from eagle_assets.judge.samples import MOST_RESPONSES
from eagle_assets.judge.verdicts import trial_of
from eagle_assets.judge.white_space import EDGE_ERROR, Witness, weigh_edges, witnesses_in
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Trimming, decisions
from eagle_assets.reconstruction.contests import Contest, contests
from eagle_assets.reconstruction.places import BLANK_PLACES, LOSABLE, Place
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.sandbox.providers import Provider, all_providers
from eagle_assets_tests.judge.corpus import TARGET, bench, small_target
from eagle_assets_tests.judge.provider_answers import exchanges_of

PROVIDERS = [provider for provider in all_providers() if provider.slug not in ("fireworks", "baseten")]
SOME = (8, 25, MOST_RESPONSES)
MANY = 450
"""Responses among which there are 200 that end in a token which may have had a line break behind it: two in five do."""

BOTH_WAYS = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "JSON"])
EACH = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.slug)


@cache
def answers(slug: str, streamed: bool) -> list[tuple[Exchange, list[int]]]:
    provider = next(provider for provider in PROVIDERS if provider.slug == slug)
    return exchanges_of(provider, MANY, streamed=streamed)


def standing(calibration: Calibration, provider: Provider, streamed: bool) -> list[str]:
    survivors = calibration.groups["", provider.name, streamed].survivors
    return [way.name for survivor in survivors for way in survivor.hypothesis.ways_to_settle()]


@BOTH_WAYS
@EACH
def test_rival_conventions_are_decided_and_rightly(provider: Provider, streamed: bool, tmp_path: Path) -> None:
    left = []
    for number in SOME:
        answered = answers(provider.slug, streamed)[:number]
        exchanges, truth = [e for e, _ in answered], {e.exchange_id: tuple(ids) for e, ids in answered}
        calibration = calibrate(exchanges)
        if len(standing(calibration, provider, streamed)) == 1:
            left.append(1)
            continue
        found = list(contests(exchanges, calibration))
        with bench(small_target(), tmp_path) as bench_:
            rivals = arbitrate(lambda found=found: found, bench_)

        def right(name: str, found: list[Contest] = found, truth: dict[str, tuple[int, ...]] = truth) -> int:
            readings = [(one.exchange_id, one.readings[name]) for one in found]
            return sum(reading is not None and reading.output_ids == truth[of] for of, reading in readings)

        for arbitration in (one for of_group in rivals.values() for one in of_group):
            assert arbitration.responses <= MOST_RESPONSES
            assert right(arbitration.chosen) > right(arbitration.refuted), arbitration
        left.append(len(standing(calibrate(exchanges, decisions(rivals, {})), provider, streamed)))
    # A rival that few responses tell apart waits for some; with 200 nothing is open.
    assert left[-1] == 1, left


@pytest.mark.parametrize(("slug", "streamed"), [("harbour", True), ("harbour", False), ("quillhost", False)])
def test_edges_are_decided_and_rightly_where_the_target_writes_anything_there(
    slug: str, streamed: bool, tmp_path: Path
) -> None:
    """A reasoning ends with a line break in one case of forty: each response that has none says 0.025 nats, so that it
    takes 184 of them, and of 200 responses only 85 end in a token that a line break would have left no trace behind."""
    provider = next(provider for provider in PROVIDERS if provider.slug == slug)
    word = word_on_edges(slug, streamed, tmp_path)
    assert set(word) >= {"reasoning_end"}
    for edge, found in word.items():
        assert found.responses <= MOST_RESPONSES
        if may_be_lost(found) < 0.001:  # whatever the provider does there, next to nothing is lost
            continue
        text, _, side = edge.partition("_")
        strips = provider.convention.reasoning_strip if text == "reasoning" else provider.convention.content_strip
        takes_away = strips == "both" or (strips == "right" and side == "end")
        assert (found.takes_away if takes_away else 1 - found.takes_away) >= 1 - EDGE_ERROR, (edge, found)


@BOTH_WAYS
@pytest.mark.parametrize("slug", ["lakeside", "meridian", "tundra", "copperline"])
def test_of_the_others_no_edge_is_open(slug: str, streamed: bool) -> None:
    """Calibration has seen the white space of each, but for that before calls, where the sandbox's model has none."""
    calibration = calibrate(e for e, _ in answers(slug, streamed)[:MOST_RESPONSES])
    (group, *_) = calibration.groups.values()
    assert set(group.losses) - set(BLANK_PLACES) == {"content_end"}


def word_on_edges(slug: str, streamed: bool, folder: Path) -> dict[Place, Trimming]:
    exchanges = [exchange for exchange, _ in answers(slug, streamed)]
    calibration = calibrate(exchanges)
    witnesses: list[Witness] = []
    for exchange, verdict in zip(exchanges, reconstruct(exchanges, calibration), strict=True):
        witnesses += witnesses_in(verdict, trial_of(verdict, exchange.request, TARGET), calibration, TARGET)
    with bench(small_target(), folder) as bench_:
        (found,) = weigh_edges(lambda: witnesses, bench_, TARGET).values()
    return found


def may_be_lost(found: Trimming) -> float:
    """The share of texts that lose something, if the provider takes white space away; what was never asked about (1)
    would have changed the count."""
    return sum(found.written[position] for position in range(len(LOSABLE)) if found.written[position] < 1)
