"""A failed check stops everything downstream of its partition: in its run, in later ones, and everywhere else."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from eagle_assets.defs.gates import refusals
from eagle_assets.defs.graph import the_definitions
from eagle_assets.lake.audit import GateClosed, read_record, require
from eagle_assets.openrouter.ledger import Ledger, ledger_path
from eagle_assets.reconstruction.console.shown import find_in_home
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.parts import findings as part_findings
from eagle_assets.reconstruction.verdict import TRUSTED
from eagle_assets_tests.defs.conftest import QUESTIONS, Place, write_datasets, write_prompts

REPOSITORY = Path(__file__).parents[2]


def run(instance: dg.DagsterInstance, partition: str | None, *assets: str) -> dg.ExecuteInProcessResult:
    """What the UI does when these assets of a partition are selected."""
    job = the_definitions().resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(asset) for asset in assets]
    return job.execute_in_process(
        instance=instance, partition_key=partition, asset_selection=selection, raise_on_error=False
    )


def refusal(result: dg.ExecuteInProcessResult, asset: str) -> str:
    """The sentence on the run page."""
    failures = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE" and e.step_key == asset]
    return failures[0].step_failure_data.user_failure_data.description


def materialised(instance: dg.DagsterInstance, asset: str, partition: str) -> int:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition]), limit=100
    )
    return len(records.records)


def last_id_wrong(rows: Iterator[tuple[dict[str, Any], Reading]]) -> Iterator[tuple[dict[str, Any], Reading]]:
    """A fault in reconstruction: a wrong id in sequences that are trusted."""
    for row, reading in rows:
        if row["verdict"] in TRUSTED:
            row = {**row, "output_ids": [*row["output_ids"][:-2], 11, row["output_ids"][-1]]}
        yield row, reading


@pytest.fixture
def spoilt(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place where reconstruction went wrong and the roundtrip check of B3 found it, in a run of both assets."""
    right = part_findings.found_rows
    shutil.rmtree(place.home.root / ".kept")  # so that everything is judged anew
    with place.instance("fresh") as instance, monkeypatch.context() as patch:
        patch.setattr(part_findings, "found_rows", lambda *given: last_id_wrong(right(*given)))
        result = run(instance, "B3", "token_sequences", "training_shards")
        assert not result.success
        assert "roundtrip_is_exact" in refusal(result, "token_sequences")
        assert "training_shards" not in {event.step_key for event in result.all_events}
        assert materialised(instance, "token_sequences", "B3") == 0
        (evaluation,) = [e for e in result.get_asset_check_evaluations() if e.check_name == "roundtrip_is_exact"]
        assert (evaluation.passed, evaluation.partition) == (False, "B3")
    return place


def test_the_last_good_version_stays_and_the_gate_is_closed(place: Place, spoilt: Place) -> None:
    record = read_record(spoilt.home, "token_sequences", "B3")
    assert record.published is not None
    assert all((spoilt.home.folder("token_sequences", "B3") / file.name).exists() for file in record.published.files)
    with pytest.raises(GateClosed, match="roundtrip_is_exact failed"):
        require(spoilt.home, "token_sequences", "B3")


def test_a_worst_offender_can_be_looked_at(spoilt: Place) -> None:
    failed = read_record(spoilt.home, "token_sequences", "B3").failed
    assert failed is not None
    offender = next(check for check in failed.checks if check.name == "roundtrip_is_exact").worst[0]
    shown = find_in_home(offender["exchange_id"], spoilt.home, "token_sequences")
    assert shown.output_ids
    assert shown.facts["judged"] == "just now, because token_sequences did not pass its audit"


@pytest.mark.parametrize("dagster_home", ["fresh", "another"])
def test_a_later_run_of_the_shards_alone_is_refused_with_the_name_of_the_check(
    spoilt: Place, dagster_home: str
) -> None:
    before = {path.name for path in spoilt.home.folder("training_shards", "B3").iterdir()}
    with spoilt.instance(dagster_home) as instance:
        result = run(instance, "B3", "training_shards")
        assert not result.success
        assert "roundtrip_is_exact failed" in refusal(result, "training_shards")
        assert materialised(instance, "training_shards", "B3") == 0
    assert {path.name for path in spoilt.home.folder("training_shards", "B3").iterdir()} == before


def test_dagsters_own_command_line_is_refused_with_the_name_of_the_check(spoilt: Place) -> None:
    command = ["asset", "materialize", "-m", "eagle_assets.definitions", "--select", "training_shards"]
    with spoilt.instance("command_line") as instance:
        environment = {**os.environ, **spoilt.environment, "DAGSTER_HOME": instance.root_directory}
    ended = subprocess.run(
        [str(Path(sys.executable).with_name("dagster")), *command, "--partition", "B3"],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert "roundtrip_is_exact failed" in ended.stderr


def test_the_draft_vocabulary_leaves_the_refused_dataset_out_and_others_are_not_touched(spoilt: Place) -> None:
    with spoilt.instance() as instance:
        assert run(instance, "B1", "raw_responses", "token_sequences", "training_shards").success
        assert run(instance, None, "draft_vocabulary").success
    assert [i.dataset for i in require(spoilt.home, "draft_vocabulary").audit.inputs] == ["B1"]


def test_a_good_run_opens_the_gate_again(spoilt: Place) -> None:
    with spoilt.instance() as instance:
        result = run(instance, "B3", "token_sequences", "training_shards")
    assert result.success
    assert require(spoilt.home, "training_shards", "B3").audit.rows == 4


@pytest.mark.parametrize("dagster_home", ["fresh", "another"])
def test_an_audit_that_is_older_than_its_data_closes_the_gate_until_it_is_made_again(
    place: Place, dagster_home: str
) -> None:
    write_prompts(place.folder / "B3.jsonl", (*QUESTIONS, "What is 2 + 2?"))
    with place.instance("fresh") as instance:
        assert run(instance, "B3", "prompts", "raw_responses").success
    with place.instance(dagster_home) as instance:
        alone = run(instance, "B3", "training_shards")
        assert "was made from a version of raw_responses of B3 that is no" in refusal(alone, "training_shards")
        assert materialised(instance, "training_shards", "B3") == 0
        assert run(instance, "B3", "token_sequences").success
        assert run(instance, "B3", "training_shards").success
    assert require(place.home, "training_shards", "B3").audit.rows == len(QUESTIONS) + 1


def test_files_that_changed_after_their_audit_are_refused(place: Place) -> None:
    path = require(place.home, "token_sequences", "B3").paths[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with place.instance() as instance:
        result = run(instance, "B3", "training_shards")
    assert f"{path} changed after its audit" in refusal(result, "training_shards")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"prompt_id": "q1"}', "line 1: messages is missing"),
        ('{"prompt_id": "q1", "messages": [{"role": "user", "content": [{"type": "image"}]}]}', "only text"),
    ],
)
def test_a_bad_prompt_closes_the_gate_before_anything_is_bought(place: Place, line: str, complaint: str) -> None:
    (place.folder / "B3.jsonl").write_text(line + "\n")
    with place.instance("fresh") as instance:
        result = run(instance, "B3", "prompts", "raw_responses")
        assert "prompts_are_valid" in refusal(result, "prompts")
        assert complaint in refusal(result, "prompts")
        assert materialised(instance, "raw_responses", "B3") == 0
    with pytest.raises(GateClosed, match="prompts_are_valid failed"):
        require(place.home, "training_shards", "B3")


def test_a_dataset_that_could_cost_more_than_its_cap_is_refused_before_anything_was_asked(place: Place) -> None:
    write_datasets(place.folder, budget_usd=0.0001)
    with place.instance() as instance:
        assert run(instance, "B3", "prompts").success
    shutil.rmtree(place.home.root / "journal")
    with place.instance() as instance:
        assert "dataset_fits_budget" in refusal(run(instance, "B3", "prompts"), "prompts")


def test_what_was_spent_beyond_the_cap_stops_this_run_and_the_next_until_the_cap_is_raised(place: Place) -> None:
    audit = require(place.home, "raw_responses", "B3").audit
    write_datasets(place.folder, budget_usd=0.5)
    with Ledger(ledger_path(place.home.root), 0.5, {"B3": None}) as ledger:
        assert ledger.reserve("dearer than its provider said", "B3", 0.01)
        ledger.settle("dearer than its provider said", 0.6)
    with place.instance() as instance:
        assert run(instance, "B3", "prompts").success
        for _ in range(2):
            assert "spend_within_budget" in refusal(run(instance, "B3", "raw_responses"), "raw_responses")
    assert read_record(place.home, "raw_responses", "B3").published == audit
    write_datasets(place.folder, budget_usd=1)
    with place.instance() as instance:
        assert run(instance, "B3", "prompts", "raw_responses").success
    assert require(place.home, "raw_responses", "B3").audit.counts["spent_usd"] > 0.6


def test_prompts_that_changed_after_their_audit_are_not_bought(place: Place) -> None:
    write_prompts(place.folder / "B3.jsonl", ("What is 2 + 2?",))
    with place.instance() as instance:
        result = run(instance, "B3", "raw_responses")
    assert "materialise it again" in refusal(result, "raw_responses")


def test_a_full_disk_is_a_sentence() -> None:
    with pytest.raises(dg.Failure, match="is full: make room, and run it again"), refusals():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(PermissionError), refusals():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_nothing_is_bought_twice(place: Place) -> None:
    write_prompts(place.folder / "B3.jsonl", ("What is 37 × 46?", "Solve 3x + 7 = 52 for x.", "What is 2 + 2?"))
    before = require(place.home, "raw_responses", "B3").audit
    with place.instance() as instance:
        assert run(instance, "B3", "prompts", "raw_responses", "token_sequences", "training_shards").success
    after = require(place.home, "raw_responses", "B3").audit
    assert after.counts["answers"] == before.counts["answers"] + 1
    assert after.files[: len(before.files)] == before.files


def test_a_file_that_another_run_superseded_is_named_in_a_sentence(tmp_path: Path) -> None:
    gone = tmp_path / "part-00000-0123456789ab.parquet"
    sentence = r"part-00000-.* is not there any more: another run may have"
    with pytest.raises(dg.Failure, match=sentence) as refusal, refusals():
        gone.read_bytes()
    assert refusal.value.allow_retries
