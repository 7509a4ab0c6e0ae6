"""The catalogue and the ready queries, on real DuckDB files, with readers in other processes while it is rebuilt."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

from eagle_assets.cli import main
from eagle_assets.lake import catalogue, snapshot
from eagle_assets.lake.audit import Check
from eagle_assets.lake.catalogue import SQL_FOLDER, CatalogueError, LedgerTotal, build_catalogue
from eagle_assets.lake.home import Home
from eagle_assets.lake.queries import ready_queries, run_query
from eagle_assets.lake.schemas import (
    JUDGED_SEQUENCES,
    RAW_RESPONSES,
    TOKEN_FREQUENCIES,
    TOKEN_SEQUENCES,
    TRAINING_SHARDS,
)
from eagle_assets.lake.version import new_version

ANSWERED_QUESTIONS = {
    "verdicts",
    "count_differences",
    "spend",
    "reasons_of_distrust",
    "materialisations",
    "tokens",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a home's folder")


def publish(home: Home, stage: str, dataset: str | None, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    with new_version(home, stage, dataset, "run") as version:
        version.write_rows("part.parquet", schema, rows)
        version.audit([Check("looks_well", True, "it does")], counts={"rows": len(rows)})


def fail_audit(home: Home, stage: str, dataset: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    with new_version(home, stage, dataset, "bad run") as version:
        version.write_rows("part.parquet", schema, rows)
        version.audit([Check("looks_well", False, "it does not")])


def sequence(dataset: str, number: int, verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "exchange_id": f"e{number}",
        "provider": "Chutes",
        "verdict": verdict,
        "output_ids": [1, 2, 3],
        "finish_reason": "stop",
        "count_difference": 0,
        "reasons": [],
        **more,
    }


def fill(home: Home) -> None:
    sequences = [
        sequence("B3", 1, "exact"),
        sequence("B3", 2, "consistent", provider="AtlasCloud", count_difference=1),
        sequence("B3", 3, "unverified", reasons=["rival_stands", "count_missing"], count_difference=None),
        sequence("B3", 4, "unusable", reasons=["error"], output_ids=None, count_difference=None, provider=None),
    ]
    responses = [
        {
            "dataset": "B3",
            "exchange_id": s["exchange_id"],
            "provider": s["provider"],
            "cost_usd": 0.25,
            "outcome": "answered",
        }
        for s in sequences
    ]
    shard = {"provider": "Chutes", "dataset": "B3", "input_ids": [9, 1, 2, 3], "loss_mask": [0, 1, 1, 1]}
    publish(home, "raw_responses", "B3", RAW_RESPONSES, responses)
    publish(home, "token_sequences", "B3", TOKEN_SEQUENCES, sequences)
    publish(home, "token_sequences", "B1", TOKEN_SEQUENCES, [sequence("B1", 1, "exact", provider="local")])
    publish(
        home,
        "training_shards",
        "B3",
        TRAINING_SHARDS,
        [{"id": f"B3/e{i}", "exchange_id": f"e{i}", "verdict": "exact", **shard} for i in (1, 2)],
    )
    publish(home, "draft_vocabulary", None, TOKEN_FREQUENCIES, [{"token": 1, "count": 2, "draft_id": 0}])


def answer(home: Home, name: str) -> list[dict[str, Any]]:
    result = run_query(home, name)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def read(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(path, read_only=True) as connection:
        return connection.sql(sql).fetchall()


def test_every_ready_query_says_what_it_answers_and_runs_before_anything_was_materialised(home: Home) -> None:
    build_catalogue(home)
    queries = ready_queries()
    assert set(queries) >= ANSWERED_QUESTIONS
    for query in queries.values():
        assert "?" in query.answers, query.name
        assert run_query(home, query.name).columns


def test_views_of_stages_without_files_have_the_columns_and_types_of_those_with_files(home: Home) -> None:
    describe = "SELECT column_name, column_type FROM (DESCRIBE token_sequences)"
    empty = read(build_catalogue(home), describe)
    fill(home)
    assert read(build_catalogue(home), describe) == empty
    assert dict(empty)["output_ids"] == "INTEGER[]"
    assert read(home.catalogue, "SELECT count(*) FROM token_sequences") == [(5,)]


def test_the_queries_count_what_was_published(home: Home) -> None:
    fill(home)
    build_catalogue(home, [LedgerTotal("B3", 1.0, 0.5, 8.5), LedgerTotal(None, 1.0, 0.5, 98.5)])
    verdicts = {(row["dataset"], row["provider"]): row for row in answer(home, "verdicts")}
    assert verdicts["B3", "Chutes"]["exact"] == 1
    assert verdicts["B3", "Chutes"]["unverified"] == 1
    assert verdicts["B3", "Chutes"]["trusted_percent"] == 50.0
    assert verdicts["B1", "local"]["sequences"] == 1
    assert sum(row["spent_usd"] for row in answer(home, "spend")) == 1.0
    assert [(r["reason"], r["sequences"]) for r in answer(home, "reasons_of_distrust")] == [
        ("error", 1),
        ("count_missing", 1),
        ("rival_stands", 1),
    ]
    differences = {row["provider"]: row for row in answer(home, "count_differences")}
    assert (differences["AtlasCloud"]["least"], differences["AtlasCloud"]["greatest"]) == (1, 1)
    assert differences["Chutes"]["closed"] == differences["Chutes"]["sequences"] == 1
    tokens = {row["dataset"]: row for row in answer(home, "tokens")}
    assert tokens["B3"] | {"trained_percent": 66.7} == tokens["B3"]
    assert (tokens["B3"]["shard_rows"], tokens["B3"]["shard_tokens"], tokens["B3"]["generated_tokens"]) == (2, 8, 6)
    assert [row["dataset"] for row in answer(home, "budget")] == ["B3", "all"]
    assert answer(home, "budget")[1]["left_usd"] == 98.5


def test_the_verdicts_are_those_that_the_shards_go_by_now(home: Home) -> None:
    """Of e1 to e3 the target judged the verdict that stands, of e4 one that has changed since."""
    now = [sequence("B3", n, v) for n, v in enumerate(["exact", "unverified", "consistent", "contradicted"], 1)]
    by_target = ["exact", "consistent", "contradicted", "consistent"]
    before = ["exact", "unverified", "consistent", "unverified"]
    judged = [
        {**row, "verdict": verdict, "verdict_before": was}
        for row, verdict, was in zip(now, by_target, before, strict=True)
    ]
    publish(home, "token_sequences", "B3", TOKEN_SEQUENCES, now)
    publish(home, "judged_sequences", "B3", JUDGED_SEQUENCES, judged)
    told = "SELECT verdict FROM all_sequences ORDER BY exchange_id"
    by_stage = {
        stage: [verdict for (verdict,) in read(build_catalogue(home, verdict_stage=stage), told)]
        for stage in ("judged_sequences", "token_sequences")
    }
    assert by_stage == {
        "judged_sequences": ["exact", "consistent", "contradicted", "contradicted"],
        "token_sequences": [row["verdict"] for row in now],
    }


def test_a_failed_audit_is_a_row_and_leaves_the_last_good_files_in_the_view(home: Home) -> None:
    publish(home, "token_sequences", "B3", TOKEN_SEQUENCES, [sequence("B3", 1, "exact")])
    fail_audit(home, "token_sequences", "B3", TOKEN_SEQUENCES, [sequence("B3", i, "exact") for i in range(9)])
    build_catalogue(home)
    assert [(r["passed"], r["is_current"], r["failed_checks"]) for r in answer(home, "materialisations")] == [
        (False, False, ["looks_well"]),
        (True, True, []),
    ]
    assert answer(home, "failed_checks")[0]["sentence"] == "it does not"
    assert read(home.catalogue, "SELECT count(*) FROM token_sequences") == [(1,)]
    assert read(home.catalogue, "SELECT count(*) FROM materialisations") == [(1,)]


def test_every_column_of_tables_and_files_says_what_it_holds(home: Home) -> None:
    fill(home)
    build_catalogue(home)
    made_of_others = {path.stem for path in (SQL_FOLDER / "views").glob("*.sql")}
    columns = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
    described = {
        (table, name): text for table, name, text in read(home.catalogue, columns) if table not in made_of_others
    }
    assert {table for table, _ in described} >= {"audits", "checks", "ledger", "calibration", "token_sequences"}
    assert [place for place, text in described.items() if len(text or "") <= 5] == []


def test_only_files_that_a_record_names_are_read(home: Home) -> None:
    publish(home, "token_sequences", "B3", TOKEN_SEQUENCES, [sequence("B3", 1, "exact")])
    (home.folder("token_sequences", "B3") / "stray.parquet").write_bytes(b"no parquet")
    build_catalogue(home)
    assert read(home.catalogue, "SELECT count(*) FROM token_sequences") == [(1,)]


def test_it_answers_from_any_folder(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = Home(Path("home"))
    fill(relative)
    build_catalogue(relative)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = f"import duckdb; print(duckdb.connect({str(relative.catalogue)!r}, read_only=True).sql('FROM verdicts'))"
    subprocess.run([sys.executable, "-c", code], cwd=elsewhere, check=True, capture_output=True)


READER = """
import os, sys, duckdb
path, stop = sys.argv[1:]
counts = set()
while not os.path.exists(stop):
    with duckdb.connect(path, read_only=True) as connection:
        (row,) = connection.sql("SELECT (SELECT count(*) FROM token_sequences), count(*) FROM ledger").fetchall()
    assert row[1] == 1 and row[0] != 99, row
    if row[0] not in counts:
        counts.add(row[0])
        print(row[0], flush=True)
"""


def test_readers_in_other_processes_never_meet_a_lock_or_half_a_catalogue(home: Home, tmp_path: Path) -> None:
    ledger = [LedgerTotal(None, 0.0, 0.0, 100.0)]
    publish(home, "token_sequences", "B1", TOKEN_SEQUENCES, [sequence("B1", 1, "exact")])
    build_catalogue(home, ledger)
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", READER, str(home.catalogue), str(stop)]
    readers = [subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) for _ in range(3)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "1\n"
        for i in range(2, 8):
            # The catalogue that is being read names files that are superseded meanwhile, twice.
            publish(home, "token_sequences", "B1", TOKEN_SEQUENCES, [sequence("B1", n, "exact") for n in range(99)])
            publish(home, "token_sequences", "B1", TOKEN_SEQUENCES, [sequence("B1", n, "exact") for n in range(i)])
            build_catalogue(home, ledger)
    finally:
        stop.touch()
        outputs = [reader.communicate(timeout=30) for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0, 0], [error for _, error in outputs]
    assert all(later.strip() for later, _ in outputs), "a reader saw none of the rebuilt catalogues"


def test_duckdb_never_had_the_file_that_others_read_open_for_writing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_catalogue, written = catalogue._fill, tmp_path / "written"

    def fill_and_link(*given: Any) -> None:
        fill_catalogue(*given)
        (aside,) = (path for path in home.root.glob(".eagle.duckdb.*") if path.suffix != ".wal")
        written.hardlink_to(aside)

    monkeypatch.setattr(catalogue, "_fill", fill_and_link)
    build_catalogue(home)
    assert written.is_file()
    assert not written.samefile(home.catalogue)
    assert read(home.catalogue, "SELECT count(*) FROM audits") == [(0,)]


def test_two_builders_at_once_leave_one_whole_catalogue_and_nothing_aside(home: Home) -> None:
    fill(home)
    code = (
        "import sys, pathlib; from eagle_assets.lake.home import Home;"
        "from eagle_assets.lake.catalogue import build_catalogue; build_catalogue(Home(pathlib.Path(sys.argv[1])))"
    )
    builders = [subprocess.Popen([sys.executable, "-c", code, str(home.root)]) for _ in range(2)]
    assert [builder.wait(timeout=60) for builder in builders] == [0, 0]
    assert [path.name for path in home.root.iterdir() if "duckdb" in path.name] == ["eagle.duckdb"]
    assert read(home.catalogue, "SELECT count(*) FROM audits") == [(5,)]


def test_a_build_that_fails_leaves_the_old_catalogue(home: Home, tmp_path: Path) -> None:
    fill(home)
    build_catalogue(home)
    (tmp_path / "sql" / "views").mkdir(parents=True)
    (tmp_path / "sql" / "views" / "wrong.sql").write_text("CREATE VIEW wrong AS SELECT nothing")
    with pytest.raises(CatalogueError, match=r"wrong\.sql"):
        build_catalogue(home, sql_folder=tmp_path / "sql")
    assert [path.name for path in home.root.iterdir() if "duckdb" in path.name] == ["eagle.duckdb"]
    assert read(home.catalogue, "SELECT count(*) FROM token_sequences") == [(5,)]


def test_what_is_not_there_is_said_in_a_sentence(home: Home, tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="make demo"):
        run_query(home, "verdicts")
    with pytest.raises(CatalogueError, match=r"there is no query 'verdict'; there are: .*verdicts"):
        run_query(home, "verdict")
    with pytest.raises(CatalogueError, match="root of the repository"):
        ready_queries(tmp_path / "nowhere")


def test_what_was_superseded_since_still_answers_and_the_command_says_so(home: Home) -> None:
    fill(home)
    build_catalogue(home)
    before = answer(home, "verdicts")
    publish(home, "token_sequences", "B3", TOKEN_SEQUENCES, [sequence("B3", 9, "exact")])
    assert answer(home, "verdicts") == before
    result = CliRunner().invoke(main, ["query", "verdicts", "--json"], env={"EAGLE_ASSETS_HOME": str(home.root)})
    assert json.loads(result.stdout)
    assert result.stderr == "1 audits ended since eagle.duckdb was made: materialise run_statistics again\n"
    build_catalogue(home)
    assert answer(home, "verdicts") != before
    assert query(home, "verdicts", "--json")[1].startswith("[")


def test_a_catalogue_of_another_version_still_answers_and_the_command_says_so(home: Home) -> None:
    fill(home)
    with duckdb.connect(build_catalogue(home)) as connection:
        connection.execute("DROP MACRO verdict_stage")
    result = CliRunner().invoke(main, ["query", "budget"], env={"EAGLE_ASSETS_HOME": str(home.root)})
    assert (result.exit_code, result.stderr) == (
        0,
        "eagle.duckdb was made by another version of this program: materialise run_statistics again\n",
    )


def test_a_query_needs_no_datasets_file(home: Home, tmp_path: Path) -> None:
    fill(home)
    build_catalogue(home)
    environment = {"EAGLE_ASSETS_HOME": str(home.root), "EAGLE_ASSETS_DATASETS": str(tmp_path / "none.yaml")}
    result = CliRunner().invoke(main, ["query", "verdicts", "--json"], env=environment)
    assert json.loads(result.stdout)
    assert "none.yaml does not exist" in result.stderr


def test_links_of_old_catalogues_go_when_nobody_reads_them(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def links() -> set[Path]:
        return set((home.root / ".snapshots").iterdir())

    fill(home)
    build_catalogue(home)
    first = links()
    build_catalogue(home)
    assert links() > first
    monkeypatch.setattr(snapshot, "KEPT_SECONDS", -1)
    build_catalogue(home)
    assert not links() & first
    assert answer(home, "verdicts")


def test_where_files_cannot_be_linked_they_are_read_themselves(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(snapshot.os, "link", no_links)
    fill(home)
    build_catalogue(home)
    assert answer(home, "verdicts")
    publish(home, "token_sequences", "B3", TOKEN_SEQUENCES, [sequence("B3", 9, "exact")])
    with pytest.raises(CatalogueError, match="run_statistics"):
        run_query(home, "verdicts")


def test_a_query_over_one_dataset(home: Home) -> None:
    fill(home)
    build_catalogue(home)
    assert {row["dataset"] for row in answer(home, "verdicts")} == {"B1", "B3"}
    assert [row["dataset"] for row in run_query(home, "verdicts", "B1").as_objects()] == ["B1"]
    for name in ready_queries():
        run_query(home, name, "B3")
    with pytest.raises(CatalogueError, match=r"there is no dataset 'B9' in the catalogue; there are: B1, B3"):
        run_query(home, "verdicts", "B9")


def test_the_new_questions_are_answered_from_what_happened(home: Home) -> None:
    day = 1_764_547_200.0  # 2025-12-01
    verdicts = ["exact", "exact", "unverified", "contradicted"]
    sequences = [
        sequence("B3", n, verdict, completion_tokens=3 + n, canonical=[True, False, None, None][n], evidence="{}")
        for n, verdict in enumerate(verdicts)
    ]
    responses = [
        {
            "dataset": "B3",
            "exchange_id": f"e{n}",
            "prompt_id": f"p{n}",
            "provider": "Chutes",
            "outcome": "answered",
            "attempt": 2 if n == 0 else 1,
            "cost_usd": 0.5,
            "asked_at": day + 86_400 * (n // 2),
            "ended_at": day + 86_400 * (n // 2) + n,
        }
        for n in range(4)
    ]
    refused = {**responses[0], "exchange_id": "e9", "attempt": 1, "outcome": "retry", "status": 429, "cost_usd": None}
    publish(home, "raw_responses", "B3", RAW_RESPONSES, [{**refused, "reason": "too many requests"}, *responses])
    publish(home, "token_sequences", "B3", TOKEN_SEQUENCES, sequences)
    shard = {"exchange_id": "e0", "dataset": "B3", "input_ids": [9, 1, 2, 1], "loss_mask": [0, 1, 1, 1]}
    publish(home, "training_shards", "B3", TRAINING_SHARDS, [shard])
    publish(home, "training_shards", "B3", TRAINING_SHARDS, [shard, {**shard, "exchange_id": "e1"}])
    frequencies = [{"token": 1, "count": 2, "draft_id": 0}, {"token": 2, "count": 1, "draft_id": None}]
    publish(home, "draft_vocabulary", None, TOKEN_FREQUENCIES, frequencies)
    build_catalogue(home)
    exactness = answer(home, "exactness")
    assert [(str(r["day"]), r["answers"], r["exact_percent"]) for r in exactness] == [
        ("2025-12-01", 2, 100.0),
        ("2025-12-02", 2, 0.0),
    ]
    drift = answer(home, "drift")
    assert [row["trusted_moved"] for row in drift] == [None, -100.0]
    (price,) = answer(home, "price_of_trust")
    assert (price["bought_tokens"], price["trusted_tokens"]) == (18, 6)
    assert price["usd_per_million_trusted"] == round(2e6 / 6, 2)
    (paths,) = answer(home, "non_canonical")
    assert (paths["proved"], paths["non_canonical"], paths["for_example"]) == (2, 1, ["e1"])
    (coverage,) = answer(home, "coverage")
    assert (coverage["generated_tokens"], coverage["covered_percent"]) == (6, 66.67)
    assert [row["exchange_id"] for row in answer(home, "slowest")] == ["e3", "e2", "e1", "e0"]
    dearest = {row["prompt_id"]: row for row in answer(home, "dearest")}
    assert (dearest["p0"]["attempts"], dearest["p0"]["last_verdict"]) == (2, "exact")
    (retries,) = answer(home, "retries")
    assert (retries["cause"], retries["attempts"], retries["prompts_without_answer"]) == ("too many requests", 1, 0)
    (superseded,) = answer(home, "superseded")
    assert (superseded["stage"], superseded["rows"], superseded["rows_more"]) == ("training_shards", 1, 1)
    assert superseded["content_changed"]


def test_the_sql_lies_at_the_root_of_the_repository() -> None:
    assert (SQL_FOLDER.parent / "pyproject.toml").is_file()


def query(home: Home, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["query", *arguments], env={"EAGLE_ASSETS_HOME": str(home.root)})
    return result.exit_code, result.output


def test_the_command_lists_its_questions_and_answers_them_for_people_and_programs(home: Home) -> None:
    fill(home)
    build_catalogue(home)
    status, text = query(home)
    assert status == 0
    assert all(name in text for name in ANSWERED_QUESTIONS)
    status, text = query(home, "verdicts")
    assert status == 0
    assert "AtlasCloud" in text
    status, text = query(home, "spend", "--json")
    assert status == 0
    assert {row["dataset"] for row in json.loads(text)} == {"B3"}
    assert {row["query"] for row in json.loads(query(home, "--json")[1])} >= ANSWERED_QUESTIONS
    status, text = query(home, "reasons_of_distrust", "--csv")
    rows = list(csv.DictReader(text.splitlines()))
    assert (status, {row["verdict"] for row in rows}) == (0, {"unverified", "unusable"})
    assert query(home, "verdicts", "--dataset", "B9")[0] == 1
    status, text = query(home, "verdicts", "--csv", "--json")
    assert (status, "--json or --csv, not both" in text) == (2, True)


def test_every_query_gives_json_that_programs_can_read(home: Home) -> None:
    fill(home)
    build_catalogue(home, [LedgerTotal(None, 0.0, 0.0, 100.0)])
    for name in ready_queries():
        status, text = query(home, name, "--json")
        assert (status, isinstance(json.loads(text), list)) == (0, True), text


def test_the_command_says_in_a_sentence_what_is_missing(home: Home) -> None:
    assert query(home, "verdicts") == (
        1,
        f"Error: there is no catalogue at {home.catalogue}: `eagle-assets run` makes it; what `make demo` made lies "
        "elsewhere: EAGLE_ASSETS_HOME=data/demo eagle-assets query\n",
    )
    status, text = query(home, "nonsense")
    assert (status, text.count("\n")) == (1, 1)
