"""The asset `exports`: folders for trainers, made of what may be read, and of nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
import yaml

from eagle_assets.defs.graph import the_definitions
from eagle_assets.lake.audit import Check
from eagle_assets.lake.home import Home
from eagle_assets.lake.version import new_version
from eagle_assets_tests.training.sequences import publish_shards, row

EXPORTS = {"fast": {"format": "speculators", "max_length": 100}, "card": {"format": "huggingface"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    write_datasets(tmp_path, EXPORTS)
    monkeypatch.setenv("EAGLE_ASSETS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EAGLE_ASSETS_DATASETS", str(tmp_path / "datasets.yaml"))
    home = Home(tmp_path / "home")
    publish_shards(home, "B1", [row([1, 2], [3, 4]), row([5], [6])])
    return home


def write_datasets(folder: Path, exports: dict[str, dict[str, object]]) -> None:
    datasets = {name: {"source": "local", "responses": "none.jsonl"} for name in ("B1", "B3")}
    (folder / "datasets.yaml").write_text(yaml.safe_dump({"datasets": datasets, "exports": exports}))


def run() -> dg.ExecuteInProcessResult:
    job = the_definitions().resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("exports")], raise_on_error=False)


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    (event,) = result.asset_materializations_for_node("exports")
    return {name: value.value for name, value in event.metadata.items()}


def folders(home: Home) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in home.exports.iterdir())


def test_every_export_of_the_datasets_file_is_made_and_says_what_it_holds(home: Home) -> None:
    result = run()
    assert result.success
    assert folders(home) == ["card", "fast"]
    assert [metadata(result)[name] for name in ("rows", "tokens", "covered_percent")] == [4, 12, 100.0]
    (fast,) = home.exports.glob("fast-*")
    manifest = json.loads((fast / "manifest.json").read_bytes())
    assert (manifest["options"]["max_length"], manifest["rows"]) == (100, 2)
    (event,) = result.asset_materializations_for_node("exports")
    assert str(fast) in str(event.metadata["exports"])


def test_an_export_stays_until_the_shards_are_others(home: Home) -> None:
    assert run().success
    before = {path: path.stat().st_mtime_ns for path in home.exports.rglob("*") if path.is_file()}
    again = run()
    assert again.success
    assert before == {path: path.stat().st_mtime_ns for path in home.exports.rglob("*") if path.is_file()}
    publish_shards(home, "B1", [row([1, 2], [3, 4])])
    assert run().success
    assert folders(home) == ["card", "fast"]
    assert not any(path.exists() for path in before)


def test_a_dataset_whose_gate_is_closed_is_left_out_and_named(home: Home) -> None:
    publish_shards(home, "B3", [row([7], [8, 9])])
    with new_version(home, "training_shards", "B3") as version:
        version.audit([Check("masks_cover_generated_tokens", False, "1 of 1 masks is wrong")])
    result = run()
    assert result.success
    assert metadata(result)["rows"] == 4
    assert "training_shards of B3 did not pass its audit" in str(metadata(result)["left out"])


def test_where_nothing_may_be_read_it_is_refused_in_a_sentence(home: Home, tmp_path: Path) -> None:
    with new_version(home, "training_shards", "B1") as version:
        version.audit([Check("masks_cover_generated_tokens", False, "1 of 1 masks is wrong")])
    result = run()
    (failure,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    assert "no dataset can be exported" in str(failure.step_failure_data.user_failure_data.description)
    assert not home.exports.exists()


def test_without_the_key_there_is_one_export_for_speculators(home: Home, tmp_path: Path) -> None:
    write_datasets(tmp_path, {})
    assert run().success
    assert folders(home) == ["speculators"]
