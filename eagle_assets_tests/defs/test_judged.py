"""`judged_sequences` in the lineage: made where the datasets file names a judge, and missed by nothing where not."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from eagle_assets.cli import main
from eagle_assets.configuration import ConfigurationError, LocalJudge, ServedJudge, load_configuration
from eagle_assets.defs.run import RunRefused, prepare
from eagle_assets.lake.audit import read_record, require
from eagle_assets.lake.queries import run_query
from eagle_assets.reconstruction.console.show_command import show
from eagle_assets.reconstruction.console.shown import find_in_home
from eagle_assets.reconstruction.console.tokens_view import tokens_text
from eagle_assets.reconstruction.verdict import TRUSTED
from eagle_assets.sandbox.judge_server import JudgeServer
from eagle_assets.sandbox.small_target import SmallTarget
from eagle_assets_tests.defs.conftest import TARGET, Place
from eagle_assets_tests.judge.serving import serving


def with_judge(place: Place, judge: dict[str, Any] | None) -> None:
    file = place.folder / "datasets.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "judge": judge}))


@pytest.fixture
def judge(place: Place) -> Iterator[str]:
    """A judge that was taught what is in the shards of the place, so that nothing surprises it."""
    rows = [
        (row["prompt_ids"], row["output_ids"])
        for name in ("B1", "B3")
        for row in require(place.home, "token_sequences", name).rows()
        if row["verdict"] in TRUSTED
    ]
    with serving(JudgeServer(SmallTarget(TARGET, rows * 3), TARGET).app) as url:
        yield url


def test_without_a_judge_the_shards_are_made_and_say_so(place: Place) -> None:
    assert read_record(place.home, "judged_sequences", "B1").published is None
    made_from = require(place.home, "training_shards", "B1").audit.inputs
    assert [source.stage for source in made_from] == ["token_sequences"]
    with pytest.raises(RunRefused, match="names no judge"):
        prepare(["B1"], "judged_sequences")


def test_with_a_judge_the_shards_are_made_of_what_it_judged(place: Place, judge: str) -> None:
    with_judge(place, {"kind": "sglang", "base_url": judge})
    summary = place.materialise("B1", "B3")
    assert summary.succeeded, summary.refused
    for name in ("B1", "B3"):
        judged, sequences = (require(place.home, stage, name) for stage in ("judged_sequences", "token_sequences"))
        assert [source.stage for source in require(place.home, "training_shards", name).audit.inputs] == [
            "judged_sequences"
        ]
        (check,) = judged.audit.checks
        assert (check.name, check.passed) == ("surprises_below_threshold", True)
        rows, before = list(judged.rows()), list(sequences.rows())
        assert [row["verdict_before"] for row in rows] == [row["verdict"] for row in before]
        assert [row["output_ids"] for row in rows] == [row["output_ids"] for row in before]
        assert all(row["log_likelihood"] < 0 for row in rows if row["verdict"] in TRUSTED)
        assert not any(row["verdict"] == "exact" and row["verdict_before"] != "exact" for row in rows)
    found = run_query(place.home, "judged").as_objects()
    assert {row["dataset"] for row in found} == {"B1", "B3"}
    assert sum(row["judged"] for row in found) >= 3
    assert [row["dataset"] for row in run_query(place.home, "judged_error").as_objects()] == ["B1", "B3"]


def test_once_the_judge_is_taken_out_nobody_is_told_what_it_said(place: Place, judge: str) -> None:
    with_judge(place, {"kind": "sglang", "base_url": judge})
    assert place.materialise("B1").succeeded
    exchange_id = next(require(place.home, "judged_sequences", "B1").rows())["exchange_id"]

    def told() -> tuple[bool, str, list[str]]:
        shown = CliRunner().invoke(main, ["show", exchange_id]).output
        judged = run_query(place.home, "judged").as_objects()
        said = CliRunner().invoke(main, ["query", "verdicts"]).stderr
        return "before the target" in shown, said, [row["dataset"] for row in judged]

    assert told() == (True, "", ["B1"])
    with_judge(place, None)
    outdated = (
        "verdicts in eagle.duckdb are those of judged_sequences, and the datasets file goes by token_sequences now: "
        "materialise run_statistics again\n"
    )
    assert told() == (False, outdated, ["B1"])
    assert place.materialise("B1").succeeded
    assert told() == (False, "", [])
    assert run_query(place.home, "judged_error").rows == []


def test_a_judge_that_does_not_answer_stops_the_shards_with_a_sentence(place: Place) -> None:
    with_judge(place, {"kind": "vllm", "base_url": "http://127.0.0.1:1", "model": "k2"})
    from eagle_assets.judge import server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "ATTEMPTS", 1)
        summary = place.materialise("B1", until="training_shards")
    (refused,) = summary.refused
    assert refused.asset == "judged_sequences"
    assert "does not answer" in refused.reason
    assert not summary.succeeded


def test_the_judge_of_the_datasets_file(tmp_path: Path) -> None:
    file = tmp_path / "datasets.yaml"

    def judge_of(text: str) -> object:
        file.write_text(f"datasets: {{B1: {{source: local, responses: B1.jsonl}}}}\n{text}")
        return load_configuration(file).judge

    assert judge_of("") is None
    assert judge_of("judge: {kind: sglang, base_url: 'http://h:1'}") == ServedJudge(
        kind="sglang", base_url="http://h:1"
    )
    assert judge_of("judge: {kind: transformers, folder: tiny}") == LocalJudge(
        kind="transformers", folder=tmp_path / "tiny"
    )
    for wrong in ("{kind: llama, base_url: x}", "{kind: sglang}", "{kind: vllm, base_url: x, colour: red}"):
        with pytest.raises(ConfigurationError, match="judge"):
            judge_of(f"judge: {wrong}")


def test_show_marks_what_surprises_the_target(place: Place) -> None:
    """A judge that was taught the answers with another beginning."""
    taught = [
        (row["prompt_ids"], [*TARGET.vocabulary.encode(" So"), *row["output_ids"]])
        for row in require(place.home, "token_sequences", "B1").rows()
    ]
    with serving(JudgeServer(SmallTarget(TARGET, taught * 9), TARGET).app) as url:
        with_judge(place, {"kind": "sglang", "base_url": url})
        assert place.materialise("B1", until="judged_sequences").succeeded
    row = next(require(place.home, "judged_sequences", "B1").rows())
    output = StringIO()
    show(find_in_home(row["exchange_id"], place.home, "judged_sequences"), False, Console(file=output, width=200))
    assert "before the target" in output.getvalue()
    assert ("it finds them likely" in output.getvalue()) is (not row["surprise"])
    there = TARGET.vocabulary.encode("It is seven")
    assert tokens_text(there, TARGET.vocabulary, False, False, surprising=[1]).plain == "It·! is!· seven"
