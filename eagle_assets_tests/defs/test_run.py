"""`eagle-assets run`: through Dagster, dataset by dataset, and never with a traceback for what a user can mend."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from eagle_assets.defs.run import RunRefused, materialise, prepare
from eagle_assets.defs.run_page import RunPage
from eagle_assets.lake.audit import require
from eagle_assets.lake.queries import run_query
from eagle_assets.report.page import report_path
from eagle_assets_tests.defs.conftest import QUESTIONS, Place, write_datasets, write_local_responses, write_prompts


def test_answers_that_contradict_themselves_stop_their_dataset_and_no_other(place: Place) -> None:
    write_local_responses(place.folder / "B1.jsonl", ["It is 0.", "It is 7.", "It is 8."])
    with place.instance() as instance, RunPage(Console(file=(page_file := io.StringIO()), width=200)) as page:
        summary = materialise(prepare(["B1", "B3"]), instance, page.show, page.progress)
        page.conclude(summary)
    shown = page_file.getvalue()
    assert "✓ B3     training_shards" in shown
    assert "Refused\nB1 token_sequences: token_sequences of B1 was not published. contradictions_below_thresh" in shown
    assert not summary.succeeded
    assert {(o.asset, o.dataset) for o in summary.refused} == {("token_sequences", "B1")}
    assert "contradictions_below_threshold: 2 of 3 usable answers" in summary.refused[0].reason
    assert {(o.asset, o.dataset) for o in summary.outcomes if o.status == "not reached"} == {("training_shards", "B1")}
    assert require(place.home, "training_shards", "B3").audit.rows == 4
    assert place.home.catalogue.exists()


def test_a_budget_that_ends_early_says_so_everywhere_and_what_was_bought_goes_on(place: Place) -> None:
    questions = (*QUESTIONS, *(f"What is {n} + {n}?" for n in range(20)))
    write_prompts(place.folder / "B3.jsonl", questions)
    write_datasets(place.folder, budget_usd=0.007)
    result = ended(place, "B3")
    assert result.returncode == 3, result.stdout + result.stderr
    audit = require(place.home, "raw_responses", "B3").audit
    answers, beyond = audit.counts["answers"], audit.counts["beyond_budget"]
    assert len(QUESTIONS) < answers < len(questions)
    assert answers + beyond == len(questions)
    assert audit.counts["spent_usd"] <= 0.007
    assert require(place.home, "training_shards", "B3").audit.rows == answers
    said = f"B3 raw_responses: the budget ends here: {beyond:.0f} prompts of B3 might cost more than"
    assert said in " ".join(result.stdout.split("Ended early")[1].split())
    (row,) = run_query(place.home, "overview", "B3").as_objects()
    assert (row["answers"], row["beyond_budget"], row["shard_rows"]) == (answers, beyond, answers)
    assert f"; {beyond:.0f} found no room for their worst case" in report_path(place.home).read_text(encoding="utf-8")
    (check,) = (c for c in require(place.home, "prompts", "B3").audit.checks if c.name == "dataset_fits_budget")
    assert "the buying may end before every prompt is asked" in check.sentence
    assert check.numbers["probably_usd"] < check.numbers["worst_case_usd"]
    # A lower one does not take back what is there.
    write_datasets(place.folder, budget_usd=0.0001)
    assert ended(place, "B3").returncode == 3
    assert require(place.home, "training_shards", "B3").audit.rows == answers
    # Once there is more to spend, the rest is asked and nothing twice.
    write_datasets(place.folder, budget_usd=1)
    with place.instance() as instance:
        summary = materialise(prepare(["B3"], "training_shards"), instance)
    assert (summary.succeeded, summary.ended_early) == (True, ())
    assert require(place.home, "raw_responses", "B3").audit.counts["answers"] == len(questions)


def test_a_tick_without_a_daemon_asks_no_more_than_its_limit(place: Place) -> None:
    write_prompts(place.folder / "B3.jsonl", (*QUESTIONS, "What is 2 + 2?", "What is 2 + 3?"))
    write_datasets(place.folder, limit_per_tick=1)
    with place.instance() as instance:
        assert materialise(prepare(["B3"], "training_shards", as_tick=True), instance).succeeded
    counts = require(place.home, "raw_responses", "B3").audit.counts
    assert (counts["answers"], counts["not_asked_yet"]) == (len(QUESTIONS) + 1, 1)


def ended(place: Place, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("eagle-assets")), "run", *arguments],
        env={**os.environ, **place.environment, "DAGSTER_HOME": str(place.folder / "dagster"), **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=place.folder,
    )


def test_without_a_key_nothing_bought_is_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY")
    monkeypatch.chdir(place.folder)
    with pytest.raises(RunRefused, match=r"OPENROUTER_API_KEY is not set, and B3 would be bought .* `make demo`"):
        prepare(["B1", "B3"])


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        (None, r"there is nothing to ask: prompts file .*B3\.jsonl does not exist; mend `prompts`"),
        (b"", r"there is nothing to ask: prompts file .*B3\.jsonl holds no prompt"),
        (b"prompt_id,text\n", r"there is nothing to ask: .*B3\.jsonl, line 1: it is not JSON"),
    ],
)
def test_nothing_is_bought_where_there_is_nothing_to_ask(place: Place, prompts: bytes | None, said: str) -> None:
    path = place.folder / "B3.jsonl"
    path.unlink() if prompts is None else path.write_bytes(prompts)
    shutil.rmtree(place.home.root)
    with pytest.raises(RunRefused, match=said):
        place.materialise("B3")
    assert not place.home.root.exists()


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (["B99"], {}, "Error: there is no dataset 'B99' in "),
        (["B3", "--until", "shards"], {}, "Error: there is no asset 'shards'; there are draft_vocabulary, exports, "),
        (["B1"], {"EAGLE_ASSETS_DATASETS": "/nowhere.yaml"}, "Error: datasets file /nowhere.yaml does not exist"),
        (
            ["B1"],
            {"EAGLE_ASSETS_HOME": __file__},
            f"Error: {__file__} cannot be used: file exists; choose another place",
        ),
    ],
)
def test_mistakes_are_one_sentence(
    place: Place, arguments: list[str], environment: dict[str, str], sentence: str
) -> None:
    result = ended(place, *arguments, **environment)
    assert result.returncode == 1
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_local_dataset_needs_no_key_and_stops_where_it_is_told(place: Place) -> None:
    result = ended(place, "B1", "--until", "raw_responses", OPENROUTER_API_KEY="")
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [(line[0], [word for word in line if "_" in word or word == "prompts"]) for line in lines] == [
        ("✓", ["tokenizer_report"]),
        ("✓", ["prompts"]),
        ("✓", ["raw_responses"]),
    ]
