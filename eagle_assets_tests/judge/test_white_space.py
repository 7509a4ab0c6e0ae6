"""White space at the ends of texts before the target: who keeps it, who takes it away, and how often some is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from eagle_assets.judge.samples import MOST_RESPONSES
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.verdicts import trial_of
from eagle_assets.judge.white_space import CAP, TextEdge, Witness, cost_of_edges, text_edges, weigh_edges, witnesses_in
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Trimming, decisions
from eagle_assets.reconstruction.calibrating.decisions_in_words import trimming_in_words
from eagle_assets.reconstruction.places import Place
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Reconstruction, Restored
from eagle_assets.sandbox.providers import Provider, all_providers
from eagle_assets.serving.convention import Edge
from eagle_assets_tests.judge.corpus import TARGET, bench, small_target
from eagle_assets_tests.judge.provider_answers import exchanges_of

PROVIDERS = {p.slug: p for p in all_providers() if p.slug not in ("fireworks", "baseten")}
DECIDED = 4.6  # nats: an error of 1 %
LOST = (0.05, 0.02, 0.0)


def witnesses_of(exchanges: list[Exchange], calibration: Calibration) -> list[Witness]:
    verdicts = zip(exchanges, reconstruct(exchanges, calibration), strict=True)
    return [
        one
        for exchange, verdict in verdicts
        for one in witnesses_in(verdict, trial_of(verdict, exchange.request, TARGET), calibration, TARGET)
    ]


@cache
def answered(slug: str) -> tuple[list[Exchange], Calibration, list[Witness]]:
    """Answers of a provider, what they say together, and those of them that say something of its edges."""
    exchanges = [exchange for exchange, _ in exchanges_of(PROVIDERS[slug], MOST_RESPONSES)]
    calibration = calibrate(exchanges)
    return exchanges, calibration, witnesses_of(exchanges, calibration)


def word_on(slug: str, folder: Path) -> dict[Place, Trimming]:
    _, _, witnesses = answered(slug)
    with bench(small_target(), folder) as bench_:
        return next(iter(weigh_edges(lambda: witnesses, bench_, TARGET).values()), {})


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=lambda provider: provider.slug)
def test_what_the_demos_providers_do_with_white_space_is_never_decided_wrongly(
    provider: Provider, tmp_path: Path
) -> None:
    takes_away = {"reasoning": provider.convention.reasoning_strip, "content": provider.convention.content_strip}
    _, calibration, _ = answered(provider.slug)
    edges = next(iter(calibration.groups.values())).losses.keys()
    for edge, found in word_on(provider.slug, tmp_path).items():
        assert edge in edges  # an edge at which white space was seen often enough needs no judge
        assert found.responses <= MOST_RESPONSES
        text, _, side = edge.partition("_")
        text = "content" if text == "message" else text
        takes = takes_away[text] == "both" or (takes_away[text] == "right" and side == "end")
        assert found.nats > -DECIDED or takes, (edge, found)
        assert found.nats < DECIDED or not takes, (edge, found)


def test_a_provider_that_trims_is_found_out_by_what_the_model_would_have_written(tmp_path: Path) -> None:
    found = word_on("quillhost", tmp_path)
    assert found["reasoning_start"].nats <= -DECIDED
    assert found["content_start"].nats <= -DECIDED
    assert found["reasoning_end"].nats < -1
    # One text in nineteen begins with a blank in the sandbox, and one reasoning in forty ends with a line break.
    assert 1 / 40 < found["reasoning_start"].lost(0) < 1 / 10
    assert 1 / 100 < found["reasoning_end"].lost(1) < 1 / 10


def test_the_targets_word_is_part_of_the_stated_error(tmp_path: Path) -> None:
    exchanges = answered("lakeside")[0][:30]
    calibration = calibrate(exchanges)
    witnesses = witnesses_of(exchanges, calibration)
    with bench(small_target(), tmp_path) as bench_:
        cost = cost_of_edges(lambda: witnesses, bench_)
        word = weigh_edges(lambda: witnesses, bench_, TARGET)
        assert cost.questions > 0
        assert cost_of_edges(lambda: witnesses, bench_).questions < cost.questions
    after = calibrate(exchanges, decisions({}, word))
    for one, other in zip(reconstruct(exchanges, calibration), reconstruct(exchanges, after), strict=True):
        assert other.output_ids == one.output_ids
        assert other.evidence.get("residual_error", 0.0) <= one.evidence.get("residual_error", 0.0)
    (key,) = word
    group = after.groups[key]
    for edge, trimming in word[key].items():
        assert after.loss_error(group, TARGET.name, edge, (0,), False) <= 1.2 * trimming.lost(0)  # held against nothing
        other_model = ("moonshotai/kimi-k2-0905", edge, (0,), False)
        assert after.loss_error(group, *other_model) == calibration.loss_error(calibration.groups[key], *other_model)


def test_white_space_that_stands_there_speaks_for_a_provider_that_keeps_it(tmp_path: Path) -> None:
    plain, white = (Trial([TARGET.markers.think_begin], said(text)) for text in ("So", " So"))
    key = ("", "P", False)
    with bench(small_target(), tmp_path) as bench_:

        def word(*trials: Trial) -> Trimming:
            found = [Witness(f"e{number}", key, trial, first_edge(trial)) for number, trial in enumerate(trials)]
            return weigh_edges(lambda: found, bench_, TARGET)[key]["reasoning_start"]

        assert word(plain).nats < 0
        assert word(white).nats == CAP
        assert word(white, white).takes_away < 0.01
        assert word(*[plain] * 9).takes_away > word(plain).takes_away > 0.5


def first_edge(trial: Trial) -> TextEdge:
    return next(text_edges(trial, TARGET))


def said(reasoning: str) -> list[int]:
    encode, markers = TARGET.vocabulary.encode, TARGET.markers
    return [*encode(reasoning), markers.think_end, *encode("It is 7."), markers.stop]


def test_only_white_space_that_leaves_no_trace_in_the_count_is_asked_about() -> None:
    def traces(reasoning: str) -> dict[Edge, tuple[bool, list[int]]]:
        trial = Trial([TARGET.markers.think_begin], said(reasoning))
        return {found.edge: (found.is_white, list(found.without_trace)) for found in text_edges(trial, TARGET)}

    found = traces("So it is.")
    assert found["reasoning_start"] == (False, [0])  # " So" is one token, as "So" is
    assert found["reasoning_end"] == (False, [1, 2])  # ".\n" and ".\n\n" are one token, ". " is two
    assert traces(" Oi.\n")["reasoning_start"] == (True, [])
    assert traces(" Oi.\n")["reasoning_end"] == (True, [])
    assert traces("Oi")["reasoning_start"] == (False, [])  # " Oi" is a token more
    without_thinking = Trial([1, 2], said("So it is.")[-4:])
    assert [found.edge for found in text_edges(without_thinking, TARGET)] == ["content_start", "message_end"]


def sentence(nats: float) -> str:
    return trimming_in_words(Trimming("reasoning_end", nats, 40, LOST, TARGET.name, "in process"))


def test_it_is_told_in_words() -> None:
    assert "takes white space away at the end of the reasoning: 3.0 nats over 40 responses" in sentence(-3.0)
    assert "keeps white space at the end of the reasoning: 6.0 nats over 40 responses, an error of 0.2%" in sentence(
        6.0
    )


def test_a_response_whose_ids_are_open_says_nothing() -> None:
    exchanges, calibration, _ = answered("quillhost")
    verdict = next(v for v in reconstruct(exchanges, calibration) if v.exposure is not None)
    trial = trial_of(verdict, exchanges[0].request, TARGET)
    restored = replace(verdict.exposure, restored=Restored("reasoning_start", 0, {}, None, True))

    def says(found: Reconstruction, tried: Trial | None) -> bool:
        return bool(list(witnesses_in(found, tried, calibration, TARGET)))

    assert says(verdict, trial)
    assert not says(verdict, None)
    assert not says(replace(verdict, exposure=None), trial)
    assert not says(replace(verdict, exposure=restored), trial)
    assert not says(replace(verdict, provider="Nobody"), trial)
