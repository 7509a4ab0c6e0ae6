"""Rival conventions before the target: decided for the true one, from few responses, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eagle_assets.judge.arbitration import CAP, ERROR, arbitrate, cost_of_arbitration
from eagle_assets.judge.samples import MOST_RESPONSES
from eagle_assets.judge.verdicts import settled
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.decisions import decisions
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.contests import Contest, ReadAs, contests
from eagle_assets.reconstruction.counting import COUNTINGS
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import read_calibration, write_calibration
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.roundtrip import hypotheses_by_name, serve_again
from eagle_assets.reconstruction.verdict import Reconstruction, Verdict
from eagle_assets.sandbox.outputs import true_output
from eagle_assets.sandbox.providers import Provider, all_providers
from eagle_assets.sandbox.small_target import SmallTarget
from eagle_assets.serving.convention import EDGES, Edge
from eagle_assets.serving.output import join_output
from eagle_assets.targets.prompt import prompt_ids
from eagle_assets_tests.judge.corpus import TARGET, InProcess, bench, small_target
from eagle_assets_tests.judge.corpus import answers as corpus_answers
from eagle_assets_tests.judge.provider_answers import exchanges_of

FEW = 8  # answers, too few to settle by their counts whether blanks are put in
PROVIDERS = [provider for provider in all_providers() if provider.slug not in ("fireworks", "baseten")]


def true_hypothesis(provider: Provider) -> Hypothesis:
    convention = provider.convention
    counting = next(
        c
        for c in COUNTINGS
        if (c.think_generated, c.stop_counted, c.section_end_open)
        == (convention.think_generated, convention.stop_counted, False)
    )
    stripped: set[Edge] = {"reasoning_end"} if convention.reasoning_strip in ("right", "both") else set()
    stripped |= {"arguments_start", "arguments_end"} if convention.arguments == "stripped" else set()
    return Hypothesis(convention.blanks - stripped, counting, convention.arguments == "compact")


def rivals_of(true: Hypothesis) -> list[Hypothesis]:
    """The convention with blanks at one edge more or less, at all or none, and with arguments rewritten."""
    found = [replace(true, inserted=true.inserted ^ {edge}) for edge in EDGES]
    found += [replace(true, inserted=frozenset(EDGES) if not true.inserted else frozenset())]
    return [*found, replace(true, rewrites_arguments=not true.rewrites_arguments)]


def contest(exchange: Exchange, provider: Provider, rivals: list[Hypothesis]) -> Contest | None:
    """The ids of a response under each convention that can have shown it, whatever its count says."""
    reading = read(exchange)
    situation = reading.situation
    if situation is None or not reading.layouts:
        return None
    texts = EncodedTexts(TARGET.vocabulary)
    readings: dict[str, ReadAs | None] = {}
    for hypothesis in rivals:
        output = hypothesis.invert(reading.layouts[0].output, situation)
        ids = None if output is None else tuple(join_output(output.over(texts.ids), TARGET.markers))
        readings[hypothesis.name] = None if ids is None else ReadAs(ids, closes=True)
    if len(set(readings.values())) < 2:
        return None
    prompt = prompt_ids(TARGET, exchange.request)
    return Contest(exchange.exchange_id, ("", provider.name, False), tuple(prompt), readings)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.slug)
def test_every_rival_of_the_demos_providers_is_decided_and_rightly(provider: Provider, tmp_path: Path) -> None:
    exchanges = [exchange for exchange, _ in exchanges_of(provider, 80)]
    true = true_hypothesis(provider)
    contested = decided = 0
    with bench(small_target(), tmp_path) as bench_:
        for rival in rivals_of(true):
            found = [c for e in exchanges if (c := contest(e, provider, [true, rival])) is not None]
            contested += bool(found)
            for arbitration in arbitrate(lambda found=found: found, bench_).get(("", provider.name, False), ()):
                decided += 1
                assert (arbitration.chosen, arbitration.refuted) == (true.name, rival.name)
                assert arbitration.responses <= MOST_RESPONSES
                assert arbitration.nats >= 6.9
                assert arbitration.error == ERROR
    assert decided == contested


def harbour() -> Provider:
    return next(provider for provider in PROVIDERS if provider.slug == "harbour")


def few_of_harbour() -> Iterator[Exchange]:
    """Answers of the provider that puts blanks in."""
    return (exchange for exchange, _ in exchanges_of(harbour(), FEW))


def test_a_decision_goes_into_the_calibration_with_its_evidence_and_lifts_what_it_settles(tmp_path: Path) -> None:
    first = calibrate(few_of_harbour())
    before = list(reconstruct(few_of_harbour(), first))
    open_before = [number for number, found in enumerate(before) if found.candidates]
    assert len(open_before) >= 4
    with bench(small_target(), tmp_path) as bench_:

        def contested() -> Iterator[Contest]:
            return contests(few_of_harbour(), first)

        cost = cost_of_arbitration(contested, bench_)
        arbitrations = arbitrate(contested, bench_)
    assert cost.questions > 0
    assert cost.tokens > cost.questions
    after_calibration = calibrate(few_of_harbour(), decisions(arbitrations, {}))
    group = after_calibration.of(TARGET.name, "Harbour AI", False)
    assert group is not None
    assert [s.hypothesis.name for s in group.survivors] == [
        "blanks round added tokens (reasoning start, content start)"
    ]
    assert [(a.refuted, a.judge, a.responses > 0) for a in group.arbitrations] == [("verbatim", "in process", True)]
    likelier, less_likely = group.arbitrations[0].log_likelihoods
    assert less_likely < likelier < 0
    write_calibration(after_calibration, tmp_path / "calibration.json")
    kept = read_calibration(tmp_path / "calibration.json").of(TARGET.name, "Harbour AI", False)
    assert kept is not None
    assert kept.arbitrations == group.arbitrations
    after = list(reconstruct(few_of_harbour(), after_calibration))
    truth = [ids for _, ids in exchanges_of(harbour(), FEW)]
    for number in open_before:
        assert after[number].candidates == ()
        assert after[number].output_ids == truth[number]


def open_section_ends(number: int) -> list[tuple[Exchange, list[int]]]:
    """Answers of a server that does not count the token that closes a tool section."""
    lakeside = next(provider for provider in PROVIDERS if provider.slug == "lakeside")
    convention = replace(lakeside.convention, name="section end not counted", section_end_counted=False)
    return exchanges_of(replace(lakeside, name="Sectional", convention=convention), number, start=60)


def test_whether_a_section_end_was_generated_is_the_targets_to_say(tmp_path: Path) -> None:
    answers = open_section_ends(120)
    exchanges = [exchange for exchange, _ in answers]
    first = calibrate(exchanges)
    before = list(reconstruct(exchanges, first))
    undecided = [n for n, found in enumerate(before) if "section_end_undecided" in found.reasons]
    assert len(undecided) >= 5
    with bench(small_target(), tmp_path) as bench_:
        arbitrations = arbitrate(lambda: contests(exchanges, first), bench_)
    ((key, (decided,)),) = arbitrations.items()
    assert (decided.chosen, decided.refuted) == (
        "verbatim, section end not counted",
        "verbatim, section end not generated",
    )
    assert decided.responses <= 10
    calibration = calibrate(exchanges, decisions(arbitrations, {}))
    assert calibration.groups[key].best.hypothesis.name == decided.chosen
    after = list(reconstruct(exchanges, calibration))
    for number in undecided:
        assert "section_end_undecided" not in after[number].reasons
        assert after[number].output_ids == answers[number][1]
    hypotheses = hypotheses_by_name(calibration)
    lifted = next(after[number] for number in undecided if after[number].trusted)
    reading = read(next(e for e in exchanges if e.exchange_id == lifted.exchange_id))
    again = serve_again(reading, lifted.output_ids or [], str(lifted.evidence["convention"]), hypotheses)
    assert (again.text_agrees, again.count_gap) == (True, 0)


def test_a_target_that_closes_no_section_says_that_none_was_generated(tmp_path: Path) -> None:
    exchanges = [exchange for exchange, _ in open_section_ends(120)]
    first = calibrate(exchanges)
    end = TARGET.markers.section_end
    taught = SmallTarget(TARGET, ((p, [i for i in o if i != end]) for p, o in corpus_answers(true_output, 1000)))
    with bench(taught, tmp_path) as bench_:
        arbitrations = arbitrate(lambda: contests(exchanges, first), bench_)
    assert [found.chosen for (found,) in arbitrations.values()] == ["verbatim, section end not generated"]
    calibration = calibrate(exchanges, decisions(arbitrations, {}))
    for found in reconstruct(exchanges, calibration):
        assert end not in (found.output_ids or ())


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("unverified", "consistent", "consistent"),
        ("unverified", "exact", "consistent"),
        ("unverified", "unverified", "unverified"),
        ("contradicted", "consistent", "contradicted"),
        ("exact", "consistent", "exact"),
    ],
)
def test_what_is_settled_is_lifted_to_consistent_and_never_higher(
    before: Verdict, after: Verdict, verdict: str
) -> None:
    stated = {"residual_error": 0.02} if after == "consistent" else {}
    found_after = Reconstruction("e", after, [2], reasons=("count_closes",), evidence=stated)
    found = settled(Reconstruction("e", before, [1]), found_after, 0.05)
    assert found.verdict == verdict
    lifted = before == "unverified" and after in ("consistent", "exact")
    assert found.output_ids == ([2] if lifted else [1])
    assert ("settled_by_the_target" in found.reasons) is lifted


def test_what_is_still_too_uncertain_is_not_lifted() -> None:
    before = Reconstruction("e", "unverified", [1])
    for evidence in ({"residual_error": 0.06}, {}):
        assert settled(before, Reconstruction("e", "consistent", [2], evidence=evidence), 0.05) == before


def test_what_the_target_finds_alike_stays_open(tmp_path: Path) -> None:
    alike = [
        Contest(f"e{n}", ("", "P", True), (n,), {"a": ReadAs((150_001,), True), "b": ReadAs((150_002,), True)})
        for n in range(500, 550)
    ]
    with bench(small_target(), tmp_path) as bench_:
        assert arbitrate(lambda: alike, bench_) == {}
        assert arbitrate(list, bench_) == {}


def test_one_response_decides_nothing(tmp_path: Path) -> None:
    likely = small_target()
    readings = {"a": ReadAs(tuple(TARGET.vocabulary.encode("The")), True), "b": ReadAs((163_000, 162_000), True)}
    freak = Contest("e", ("", "P", True), (1, 2), readings)
    scorer = InProcess(likely)
    with bench(likely, tmp_path, scorer) as bench_:
        assert arbitrate(lambda: [freak], bench_) == {}
        several = [replace(freak, exchange_id=f"e{n}") for n in range(300)]
        (decided,) = arbitrate(lambda: several, bench_)["", "P", True]
    assert (decided.chosen, decided.refuted, decided.nats) == ("a", "b", 3 * CAP)
    assert decided.responses == 3
