"""Calibrations explained: what refuted a rival, what is open, what nothing explains; and changes in mid-file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from eagle_assets.cli import main
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.drift import Drift, eras, find_drift
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.refutation import calibrate_observations
from eagle_assets.reconstruction.calibrating.rules import rules_between
from eagle_assets.reconstruction.console.calibration_page import sighting_in_words
from eagle_assets.reconstruction.console.explain import GroupExplanation, Rival, explain, open_points, standings
from eagle_assets.reconstruction.files.exchanges import exchanges_in, read_calibration
from eagle_assets.reconstruction.reconstruct import seen_in
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, STOP_NOT_COUNTED, VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets_tests.reconstruction.served_exchanges import (
    K2_5,
    TOOL,
    Truth,
    document,
    exchanges,
    output_of,
    some_outputs,
    spelt_out,
)

MANY = some_outputs(60, seed=3)


def observed_in(made: Iterable[Exchange]) -> list[Observation]:
    return [seen.observation for seen in seen_in(made) if seen.observation is not None]


def explained(made: Sequence[Exchange]) -> GroupExplanation:
    seen = observed_in(made)
    (explanation,) = explain(calibrate_observations(seen), seen)
    return explanation


def rival(explanation: GroupExplanation, rule: str) -> Rival:
    return next(rival for rival in explanation.rivals if rival.rule == rule)


def texts(*contents: str) -> list[Truth]:
    return [Truth(output_of("So.", content), Situation(K2_5, thinking=True)) for content in contents]


def test_a_text_without_a_blank_names_the_exchange_that_refutes_blanks() -> None:
    made = exchanges(texts("Oi", *["The end."] * 5), VERBATIM)
    start = rival(explained(made), "content_start")
    assert start.fate == "refuted"
    assert [sighting.exchange_id for sighting in start.sightings] == [exchange.exchange_id for exchange in made]
    assert sighting_in_words(start.sightings[0], {("Lakeside-0", "content_start"): "'Oi'"}) == (
        "start of the content without a blank: 'Oi'"
    )


def test_a_count_that_closes_only_without_the_blank_refutes_that_it_is_the_models() -> None:
    made = exchanges(texts(*["Oi", "The end."] * 6), BLANKS_ROUND_ADDED_TOKENS)
    explanation = explained(made)
    start = rival(explanation, "content_start")
    assert "content_start" in explanation.group.best.hypothesis.inserted
    assert "content_start" not in start.hypothesis.inserted
    assert start.fate == "refuted"
    assert {(s.difference, s.edge, s.change) for s in start.sightings} == {(-1, "content_start", -1)}
    assert len(start.sightings) == 6


def test_a_first_word_of_one_token_with_and_without_a_blank_leaves_both_standing() -> None:
    explanation = explained(exchanges(texts(*["The end."] * 12), BLANKS_ROUND_ADDED_TOKENS))
    start = rival(explanation, "content_start")
    assert start.sightings == ()
    assert start.nats == 0
    open_questions = [point.what for point in open_points(explanation.group)]
    assert "whether the blank at the start of the content is the server's" in open_questions


def test_a_settled_group_has_one_convention_and_no_open_point() -> None:
    explanation = explained(exchanges(MANY, VERBATIM))
    (standing,) = standings(explanation.group)
    assert (standing.name, standing.share) == ("verbatim", 1.0)
    assert open_points(explanation.group) == []
    assert explanation.unexplained == ()
    assert explanation.residual == {0: len(MANY)}


def test_a_provider_that_nothing_explains_shows_its_residual() -> None:
    made = []
    for number, truth in enumerate(MANY):
        line = document(truth, VERBATIM, f"x{number}")
        body = json.loads(line["body"])
        body["usage"]["completion_tokens"] += 7 + number % 2
        line["body"] = json.dumps(body)
        made += [line]
    explanation = explained(list(map(_exchange, made)))
    assert len(explanation.unexplained) == len(MANY)
    assert 0 not in explanation.residual
    assert any("no known convention" in point.what for point in open_points(explanation.group))


def _exchange(line: dict[str, object]) -> Exchange:
    from eagle_assets.openrouter.exchange_line import exchange_of

    return exchange_of(line)


CHANGES = [
    (VERBATIM, STOP_NOT_COUNTED, {"stop_counted"}),
    (VERBATIM, BLANKS_ROUND_ADDED_TOKENS, {"reasoning_start", "content_start"}),
    (BLANKS_ROUND_ADDED_TOKENS, VERBATIM, {"reasoning_start", "content_start"}),
]


@pytest.mark.parametrize(("before", "after", "rules"), CHANGES)
@pytest.mark.parametrize("position", [20, 40])
def test_a_change_of_convention_is_found_where_it_happened(
    before: Convention, after: Convention, rules: set[str], position: int
) -> None:
    members = changed_at(position, before, after)
    drift = find_drift(members)
    assert drift is not None
    # Where the next responses would look the same under both, the place is known only up to them.
    assert abs(drift.position - position) <= 3
    assert rules <= set(rules_between(drift.before, drift.after))
    assert (drift.last_before, drift.first_after) == (
        members[drift.position - 1].exchange_id,
        members[drift.position].exchange_id,
    )
    assert [len(era) for era in eras(members)] == [drift.position, len(members) - drift.position]


def changed_at(position: int, before: Convention, after: Convention) -> list[Observation]:
    made = [*exchanges(MANY[:position], before, "One"), *exchanges(MANY[position:], after, "Two")]
    return observed_in(made)


def test_the_same_responses_in_another_order_are_no_change() -> None:
    members = changed_at(20, VERBATIM, STOP_NOT_COUNTED)
    found: list[Drift | None] = []
    for seed in range(5):
        Random(seed).shuffle(members)
        found.append(find_drift(members))
    assert found == [None] * 5
    assert find_drift([]) is None
    assert find_drift(members[:1]) is None


def test_steady_providers_have_no_drift() -> None:
    for convention in (VERBATIM, BLANKS_ROUND_ADDED_TOKENS, STOP_NOT_COUNTED):
        members = observed_in(exchanges(MANY, convention))
        assert find_drift(members) is None
        assert eras(members) == [members]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    lines = [document(truth, BLANKS_ROUND_ADDED_TOKENS, f"h{n}", "Harbour AI") for n, truth in enumerate(texts("Oi"))]
    lines += [document(truth, VERBATIM, f"l{n}", "Lakeside") for n, truth in enumerate(MANY)]
    called = Truth(output_of("So.", "", [("functions.look_up:0", "{}")]), Situation(K2_5, True, (TOOL,)))
    lines.append(document(called, STOP_NOT_COUNTED, "c0", "Copperline"))
    path = tmp_path / "recorded.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_the_command_keeps_what_it_shows(recorded: Path, tmp_path: Path) -> None:
    kept = tmp_path / "calibration.json"
    result = CliRunner().invoke(main, ["calibrate", str(recorded), "-o", str(kept)])
    assert result.exit_code == 0, result.output
    for name in ("Lakeside", "Harbour AI", "Copperline", "verbatim", "yes"):
        assert name in result.output
    rows = json.loads(CliRunner().invoke(main, ["calibrate", str(recorded), "--json"]).output)
    groups = read_calibration(kept).groups
    assert {(row["model"], row["provider"], row["streamed"]) for row in rows} == {key for key in groups if key[0]}
    assert [row["provider"] for row in rows if row["settled"]] == ["Lakeside"]
    assert all(row["open"] for row in rows if not row["settled"])
    assert "rivals" not in rows[0]


def test_what_is_taken_from_one_kind_of_answer_is_shown_and_doubted_there_alone(tmp_path: Path) -> None:
    """Contents begin and end with line breaks now and then, but for those of instant answers, which are trimmed."""
    lines = []
    for number in range(160):
        thinking, white = number % 4 != 0, "\n" * (number % 3 == 0)
        reasoning = f"{white}So.\n\nThat is it.{white}" if thinking else None
        ids = output_of(reasoning, f"{white}It is {number}.{white}" if thinking else f"It is {number}.")
        truth = Truth(ids, Situation(K2_5, thinking))
        lines.append(document(truth, VERBATIM, f"{'thinking' if thinking else 'instant'} {number}"))
    off_the_path = Truth(spelt_out("So.", "answer"), Situation(K2_5, True))  # so that counts are not of the texts
    lines += [document(off_the_path, VERBATIM, f"strayed {number}") for number in range(3)]
    path, kept = tmp_path / "answers.jsonl", tmp_path / "calibration.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (row,) = json.loads(CliRunner().invoke(main, ["calibrate", str(path), "--json", "-o", str(kept)]).output)
    instant = ["instant answers"]
    assert row["taken_from"] == {"content_start": instant, "message_end": instant}
    assert "never seen in instant" in CliRunner().invoke(main, ["calibrate", str(path)]).output
    for known in ([], ["--calibration", str(kept)]):
        out = tmp_path / f"verdicts{len(known)}.jsonl"
        CliRunner().invoke(main, ["reconstruct", str(path), "-o", str(out), *known])
        found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        assert {(line["exchange_id"].split()[0], line["verdict"]) for line in found} == {
            ("thinking", "consistent"),
            ("instant", "unverified"),
            ("strayed", "contradicted"),
        }


def test_an_explanation_names_exchanges_and_the_counts_of_words(recorded: Path) -> None:
    arguments = ["calibrate", str(recorded), "--explain", "harbour-ai"]
    page = CliRunner().invoke(main, arguments).output
    assert "h0: the count would be" in page
    assert "' Oi' 2 tokens, 'Oi' 1" in page
    assert "Lakeside" not in page
    rows = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).output)
    (row,) = [row for row in rows if "rivals" in row]
    seen = [sighting for rival in row["rivals"] for sighting in rival["sightings"]]
    assert {sighting["exchange_id"] for sighting in seen} == {"h0"}


def test_mistakes_are_one_sentence(recorded: Path, tmp_path: Path) -> None:
    empty, packed, refused = tmp_path / "empty.jsonl", tmp_path / "packed.jsonl.gz", tmp_path / "refused.jsonl"
    empty.write_text("\n")
    packed.write_bytes(gzip.compress(recorded.read_bytes()))
    refused.write_text('{"exchange_id": "x", "status": 429, "request": {}, "body": ""}\n')
    for arguments, said in (
        ([str(empty)], "No line could be read"),
        ([str(packed)], "Unpack a file that is compressed"),
        ([str(refused)], "nothing can be learnt"),
        ([str(recorded), "--explain", "Nobody"], "there are some of Copperline, Harbour AI, Lakeside"),
        ([str(recorded), "-o", str(recorded)], "choose another name"),
    ):
        result = CliRunner().invoke(main, ["calibrate", *arguments])
        assert result.exit_code == 1
        assert said in result.output
        assert "Traceback" not in result.output


SHARED = Path(__file__).parents[4] / "shared"
FILES = sorted(SHARED.glob("truth/exchanges_*.jsonl")) + sorted(SHARED.glob("recorded/*.jsonl"))

if FILES:

    def test_servers_that_never_change_are_never_said_to() -> None:
        seen = observed_in(exchanges_in(FILES))
        explanations = explain(calibrate_observations(seen), seen)
        assert [e.group.provider for e in explanations if e.drift is not None] == []
        assert sum(explanation.responses for explanation in explanations) == len(seen)
