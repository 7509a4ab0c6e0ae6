"""The demo: two datasets end to end through Dagster against the sandbox, and a page that does not flatter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

from eagle_assets.demo.__main__ import MARKER, DemoRefused, fresh_home, show_page
from eagle_assets.demo.incidents import incidents
from eagle_assets.demo.naive import encoded_as_it_stands
from eagle_assets.demo.score import VerdictScore, score
from eagle_assets.lake.audit import Check
from eagle_assets.lake.catalogue import build_catalogue
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import TOKEN_SEQUENCES
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.response import ReceivedCall, Response
from eagle_assets.targets.kimi import target_named

REPOSITORY = Path(__file__).parents[1]


def judged(tmp_path: Path, rows: list[tuple[str, list[int] | None, list[int]]]) -> tuple[Home, Path]:
    """A home with these sequences (verdict, ids, true ids) and its catalogue, and the file with the truth."""
    home, truth_file = Home(tmp_path / "home"), tmp_path / "truth.jsonl"
    sequences: list[dict[str, Any]] = [
        {"exchange_id": f"e{i}", "dataset": "B3", "provider": "P", "verdict": verdict, "output_ids": ids, "reasons": []}
        for i, (verdict, ids, _) in enumerate(rows)
    ]
    with new_version(home, "token_sequences", "B3", "run") as version:
        version.write_rows("part.parquet", TOKEN_SEQUENCES, sequences)
        version.audit([Check("looks_well", True, "it does")])
    build_catalogue(home)
    truth = [json.dumps({"exchange_id": f"e{i}", "true_ids": true}) for i, (_, _, true) in enumerate(rows)]
    truth_file.write_text("".join(f"{line}\n" for line in truth))
    return home, truth_file


def page(home: Home, truth_file: Path) -> tuple[int, str]:
    output = StringIO()
    status = show_page(home, truth_file, Console(file=output, width=120))
    return status, output.getvalue()


def test_verdicts_are_scored_against_the_true_ids(tmp_path: Path) -> None:
    home, truth_file = judged(
        tmp_path,
        [
            ("exact", [1, 2], [1, 2]),
            ("consistent", [1, 2], [1, 2]),
            ("consistent", [1, 2], [2, 1]),
            ("unverified", [1], [1, 2]),
            ("unusable", None, [1]),
        ],
    )
    assert score(home, truth_file) == {
        "exact": VerdictScore("exact", 1, 1, 0),
        "consistent": VerdictScore("consistent", 2, 1, 1),
        "unverified": VerdictScore("unverified", 1, 0, 1),
        "unusable": VerdictScore("unusable", 1, 0, 0),
    }
    status, text = page(home, truth_file)
    assert status == 0
    assert "No response is called exact and is not" in text
    assert "66.7%" in text


@pytest.mark.parametrize("ids", [[1, 3], None, []])
def test_one_false_exact_fails_the_demo(tmp_path: Path, ids: list[int] | None) -> None:
    status, text = page(*judged(tmp_path, [("exact", [1, 2], [1, 2]), ("exact", ids, [1, 2])]))
    assert status == 1
    assert "1 responses are called exact and are not" in text


def test_a_demo_that_could_not_be_scored_fails(tmp_path: Path) -> None:
    home, truth_file = judged(tmp_path, [("exact", [1, 2], [1, 2])])
    truth_file.write_text("")
    status, text = page(home, truth_file)
    assert status == 1
    assert "proves nothing" in text


def test_what_the_verdicts_are_compared_with_is_each_text_encoded_as_it_stands() -> None:
    target = target_named("moonshotai/kimi-k2.5")
    encode, markers = target.vocabulary.encode, target.markers
    whole = Response(reasoning="Let me see.", content=" Yes.", finish_reason="stop")
    assert encoded_as_it_stands(whole, target, thinks=True) == [
        *encode("Let me see."),
        markers.think_end,
        *encode(" Yes."),
        markers.stop,
    ]
    cut = Response(
        content="Looking.",
        tool_calls=(ReceivedCall("functions.look:0", "look", '{"a": 1}'),),
        finish_reason="length",
    )
    assert encoded_as_it_stands(cut, target, thinks=False) == [
        *encode("Looking."),
        markers.section_begin,
        markers.call_begin,
        *encode("functions.look:0"),
        markers.argument_begin,
        *encode('{"a": 1}'),
        markers.call_end,
        markers.section_end,
    ]


def test_what_a_run_met_is_said_in_a_line_each() -> None:
    calibration = [{"provider": "a", "refused": None}, {"provider": "b", "refused": "requantised weights (fp4)"}]
    retries = [
        {"status": 429, "attempts": 2, "prompts_without_answer": 0},
        {"status": 200, "attempts": 1, "prompts_without_answer": 1},
    ]
    row = {"dataset": "B7", "prompts": 30, "answers": 20, "spent_usd": 0.13, "beyond_budget": 10}
    lines = list(incidents(calibration, retries, [row, {**row, "dataset": "B8", "beyond_budget": None}], {"B7": 0.15}))
    assert lines == [
        "Calibration refused 1 of 2 providers, which were never asked: b (requantised weights (fp4)).",
        "3 attempts failed on the way (2 × HTTP 429, 1 × an error or a cut inside 200); asked again, all but 1 of "
        "these prompts got an answer.",
        "B7 may cost $0.15, and its buying ended there: 20 of 30 prompts were answered for $0.1300, 10 found no room "
        "for their worst case, and what was bought went on into the shards.",
    ]
    assert list(incidents([], [], [], {})) == []


def test_the_demo_empties_only_its_own_home(tmp_path: Path) -> None:
    precious = tmp_path / "data" / "raw_responses.parquet"
    precious.parent.mkdir()
    precious.write_bytes(b"bought")
    with pytest.raises(DemoRefused, match="EAGLE_ASSETS_HOME"):
        fresh_home(precious.parent)
    assert precious.read_bytes() == b"bought"
    home = fresh_home(tmp_path / "demo")
    (home.root / "old").touch()
    assert [path.name for path in fresh_home(tmp_path / "demo").root.iterdir()] == [MARKER]


def test_a_local_and_a_bought_dataset_through_dagster(tmp_path: Path) -> None:
    home, dagster_home = tmp_path / "home", tmp_path / "dagster"
    dagster_home.mkdir()
    environment = {
        **{
            name: value for name, value in os.environ.items() if not name.startswith(("OPENROUTER", "EAGLE", "DAGSTER"))
        },
        "EAGLE_ASSETS_HOME": str(home),
        "DAGSTER_HOME": str(dagster_home),
    }
    done = subprocess.run(
        [sys.executable, "-m", "eagle_assets.demo", "B1", "B3"],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No response is called exact and is not" in done.stdout
    said = " ".join(done.stdout.split())
    assert "the ids behind the 30 answers that were bought, and kept them to itself; the other 30 came with" in said
    assert "encoding the same 30 texts as they stand" in said
    assert "Calibration refused 2 of 8 providers" in done.stdout
    assert "attempts failed on the way" in done.stdout
    with duckdb.connect(home / "eagle.duckdb", read_only=True) as connection:
        datasets = connection.sql("SELECT DISTINCT dataset FROM training_shards ORDER BY 1").fetchall()
        wrong = connection.sql(
            f"""SELECT count(*) FROM training_shards JOIN read_json('{home}/sandbox_truth.jsonl') USING (exchange_id)
            WHERE verdict = 'exact' AND input_ids[len(input_ids) - len(true_ids) + 1:] <> true_ids"""
        ).fetchall()
        spent = connection.sql("SELECT spent_usd > 0 FROM ledger WHERE dataset = 'B3'").fetchall()
    (exported,) = (home / "exports").glob("speculators-*")
    assert {file.name for file in exported.glob("B*")} == {"B1-train-00000.jsonl", "B3-train-00000.jsonl"}
    assert (datasets, wrong, spent) == ([("B1",), ("B3",)], [(0,)], [(True,)])
