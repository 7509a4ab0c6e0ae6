"""Datasets before the judge, part by part: what comes later costs what is new, and leads to what all anew does."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eagle_assets.defs.judging import write_sequences
from eagle_assets.judge import scan
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.court import Court
from eagle_assets.judge.docket import Stored
from eagle_assets.judge.hearing import Hearing
from eagle_assets.judge.outcome import surprises_below_threshold
from eagle_assets.judge.questions import Question, QuestionRefused, Scores
from eagle_assets.judge.scan import WINDOW, Scan
from eagle_assets.judge.surprise import Surprise, Trial
from eagle_assets.judge.tally import NOTED, Tally
from eagle_assets.lake.audit import Audit, Check, require
from eagle_assets.lake.home import Home
from eagle_assets.lake.kept import parts_of
from eagle_assets.lake.schemas import RAW_RESPONSES
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations
from eagle_assets.reconstruction.parts.findings import BoughtFinder, find_in_parts, found_by
from eagle_assets.reconstruction.parts.observations import calibrate_parts
from eagle_assets.reconstruction.parts.weights import weigh_parts
from eagle_assets.sandbox.providers import all_providers
from eagle_assets_tests.judge.corpus import TARGET, InProcess, bench, small_target
from eagle_assets_tests.judge.provider_answers import exchanges_of

LIMIT = 0.05
PROVIDERS = {provider.slug: provider for provider in all_providers()}


def rows(slug: str, start: int, stop: int) -> list[dict[str, Any]]:
    """Rows of RAW_RESPONSES: answers of a provider."""
    return [_row(exchange) for exchange, _ in exchanges_of(PROVIDERS[slug], stop - start, start)]


def _row(exchange: Exchange) -> dict[str, Any]:
    return {
        "exchange_id": exchange.exchange_id,
        "prompt_id": exchange.exchange_id,
        "dataset": "B3",
        "model": exchange.model,
        "provider": exchange.provider,
        "status": exchange.status,
        "outcome": "answered",
        "request": msgspec.json.encode(exchange.request).decode(),
        "body": exchange.body,
        "arrivals": "[]",
        "other": "{}",
        "attempt": 1,
        "ended_at": 1.0,
    }


def add(home: Home, new: Iterable[dict[str, Any]]) -> None:
    """Publish these rows beside what was published, and find the sequences of all."""
    with new_version(home, "raw_responses", "B3") as version:
        for file in version.last_good.files if version.last_good is not None else ():
            assert version.keep(file)
        version.write_parts(RAW_RESPONSES, new)
        assert version.audit([Check("nothing_lost", True, "nothing is")]).passed
    with new_version(home, "token_sequences", "B3") as version:
        responses = require(home, "raw_responses", "B3")
        parts, calibration = parts_of(responses, "findings", found_by()), calibrated(home, {})
        for _ in find_in_parts(parts, BoughtFinder(TARGET.name, calibration)):
            pass
        write_sequences(version, weigh_parts(parts, calibration, LIMIT))
        assert version.audit([Check("roundtrip_is_exact", True, "it is")], [responses]).passed


def calibrated(home: Home, decided: Arbitrations) -> Calibration:
    return calibrate_parts(parts_of(require(home, "raw_responses", "B3"), "observations", found_by()), decided)


def judge(home: Home, scorer: InProcess) -> tuple[Audit, list[str]]:
    """What the asset does; also what it says that it costs."""
    said: list[str] = []
    with (
        new_version(home, "judged_sequences", "B3") as version,
        bench(small_target(), home.root / "judge", scorer) as bench_,
    ):
        stored = Stored(require(home, "token_sequences", "B3"), require(home, "raw_responses", "B3"), True)
        ruling = Court(bench_, TARGET, [stored], lambda decided: calibrated(home, decided)).sit(said.append)
        Hearing(ruling, bench_, stored, TARGET, LIMIT).write(version, said.append)
        tally = Tally()
        for row in version.rows(columns=NOTED):
            tally.note(row)
        return version.audit([surprises_below_threshold(tally, ruling.learnt, LIMIT)], [stored.sequences]), said


def contents(home: Home, audit: Audit) -> list[tuple[str, str]]:
    return [(file.written_as, file.sha256) for file in audit.files]


def anew(home: Home, folder: Path) -> Home:
    """A home with the same sequences, of which nothing went before the judge."""
    left_out = shutil.ignore_patterns("judge", "judged_sequences", ".kept", ".staging")
    return Home(shutil.copytree(home.root, folder, ignore=left_out))


@pytest.fixture(scope="module")
def judged_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers in three parts, of which some are proven, and some of providers of which something is open."""
    home = Home(tmp_path_factory.mktemp("judged"))
    add(home, [*rows("meridian", 0, 40), *rows("harbour", 0, 6)])
    add(home, rows("tundra", 0, 60))
    add(home, rows("tundra", 60, 110))
    assert judge(home, InProcess(small_target()))[0].passed
    return home.root


@pytest.fixture
def home(judged_once: Path, tmp_path: Path) -> Home:
    return Home(shutil.copytree(judged_once, tmp_path / "home"))


def test_what_was_judged_is_kept_as_it_is(home: Home) -> None:
    before = require(home, "judged_sequences", "B3")
    kept = {path: path.stat().st_mtime_ns for path in before.paths}
    scorer = InProcess(small_target())
    audit, said = judge(home, scorer)
    assert scorer.tokens == 0
    assert "0 target tokens in 0 sequences" in said[-1]
    assert contents(home, audit) == contents(home, before.audit)
    assert {path: path.stat().st_mtime_ns for path in require(home, "judged_sequences", "B3").paths} == kept


def test_new_responses_cost_what_is_new_and_lead_to_what_all_do_anew(home: Home, tmp_path: Path) -> None:
    before, whole = require(home, "judged_sequences", "B3").audit, InProcess(small_target())
    add(home, rows("tundra", 110, 112))
    scorer = InProcess(small_target())
    audit, _ = judge(home, scorer)
    again, _ = judge(anew(home, tmp_path / "anew"), whole)
    assert contents(home, audit) == contents(home, again)
    assert len(audit.files) == len(before.files) + 1
    assert 0 < scorer.tokens < 0.05 * whole.tokens
    kept = {file.sha256 for file in before.files} & {file.sha256 for file in audit.files}
    assert len(kept) >= 1


def test_decisions_lift_what_they_settle_and_the_rows_say_what_was_before(home: Home) -> None:
    truth = {e.exchange_id: ids for slug in ("tundra", "harbour") for e, ids in exchanges_of(PROVIDERS[slug], 110)}
    lifted = [
        row
        for row in require(home, "judged_sequences", "B3").rows()
        if row["verdict"] == "consistent" and row["verdict_before"] == "unverified"
    ]
    assert len(lifted) >= 5
    assert all(row["reasons"][0].startswith("settled_by_the_target") for row in lifted)
    assert all(msgspec.json.decode(row["evidence"])["residual_error"] <= LIMIT for row in lifted)
    assert all(row["log_likelihood"] < 0 for row in lifted)
    wrong = sum(row["output_ids"] != truth[row["exchange_id"]] for row in lifted)
    assert wrong <= LIMIT * len(lifted)


def test_a_part_that_the_judge_did_not_answer_for_is_judged_again(home: Home, tmp_path: Path) -> None:
    other = anew(home, tmp_path / "anew")
    longest = max(
        len(row["prompt_ids"]) + len(row["output_ids"])
        for row in require(other, "token_sequences", "B3").rows()
        if row["verdict"] == "consistent"
    )
    judge(other, _Short(longest))
    refused = [row for row in require(other, "judged_sequences", "B3").rows() if row["log_likelihood"] is None]
    assert any(row["verdict"] == "consistent" for row in refused)
    audit, _ = judge(other, InProcess(small_target()))
    assert contents(other, audit) == contents(home, require(home, "judged_sequences", "B3").audit)


class _Short(InProcess):
    """A judge whose context is too short for the longest sequences."""

    def __init__(self, longest: int) -> None:
        super().__init__(small_target())
        self._longest = longest

    async def score(self, question: Question) -> Scores:
        if question.tokens >= self._longest:
            raise QuestionRefused("too long")
        return await super().score(question)


def test_a_window_of_outputs_is_in_memory(tmp_path: Path) -> None:
    drawn = 0
    answered: list[Surprise | None] = []

    def trials() -> Iterable[Trial]:
        nonlocal drawn
        for number in range(3 * WINDOW):
            drawn += 1
            assert drawn - len(answered) <= WINDOW
            yield Trial([number], TARGET.vocabulary.encode("It is so."))

    with bench(small_target(), tmp_path) as bench_:
        for found in Scan(bench_, TARGET).surprises(trials()):
            answered.append(found)
    assert len(answered) == 3 * WINDOW


def test_what_was_found_of_an_output_is_not_looked_for_again(tmp_path: Path) -> None:
    tried = [Trial([1, 2], TARGET.vocabulary.encode(text)) for text in ("It is so.", " Why not?", "No.\n")]

    def surprises(bench_: Bench) -> Sequence[Surprise | None]:
        return list(Scan(bench_, TARGET).surprises(tried))

    with bench(small_target(), tmp_path) as bench_:
        first = surprises(bench_)
    with bench(small_target(), tmp_path) as bench_, pytest.MonkeyPatch.context() as patch:
        patch.delattr(scan, "suspicious_variants")
        assert surprises(bench_) == first
    assert all(found is not None and found.log_likelihood < 0 for found in first)
