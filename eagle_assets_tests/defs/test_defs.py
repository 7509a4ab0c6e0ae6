"""The graph as Dagster sees it: every change of it shows in review."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from eagle_assets.definitions import defs
from eagle_assets.defs import prompt_parts
from eagle_assets.defs.graph import the_definitions
from eagle_assets.defs.presentation import ROOMS
from eagle_assets.lake.catalogue import build_catalogue
from eagle_assets.lake.home import Home
from eagle_assets.report.next_steps import NEXT_STEPS
from eagle_assets.training import part_counts, shard_parts
from eagle_assets.training.exports import request

REPOSITORY = Path(__file__).parents[2]
HEAVY = {
    *("aiohttp", "duckdb", "httpx", "numpy", "pandas", "polars", "pyarrow"),
    *("renderers", "splintr", "tiktoken", "transformers"),
}


@pytest.fixture
def json_snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JSONSnapshotExtension)


def specs() -> list[dg.AssetSpec]:
    return sorted(defs.resolve_all_asset_specs(), key=lambda spec: spec.key)


def test_assets_dependencies_checks_and_partitions(json_snapshot: SnapshotAssertion) -> None:
    checks = the_definitions().resolve_asset_graph()
    described = {
        spec.key.to_user_string(): {
            "depends on": sorted(dep.asset_key.to_user_string() for dep in spec.deps),
            "group": spec.group_name,
            "kinds": sorted(spec.kinds),
            "partitions": spec.partitions_def.get_partition_keys() if spec.partitions_def else None,
            "blocking checks": sorted(
                key.name for key in checks.get_check_keys_for_assets({spec.key}) if checks.get_check_spec(key).blocking
            ),
        }
        for spec in specs()
    }
    assert described == json_snapshot


def test_every_asset_says_what_it_is() -> None:
    for spec in specs():
        assert len(spec.description or "") > 60, spec.key
        assert spec.group_name != "default", spec.key
        assert spec.kinds, spec.key


def test_every_asset_says_whose_it_is_where_its_code_lies_and_when_it_is_out_of_date() -> None:
    for spec in specs():
        assert spec.owners, spec.key
        assert spec.code_version, spec.key
        assert "dagster/code_references" in spec.metadata, spec.key


@pytest.mark.parametrize(
    ("asset", "code"),
    [
        ("prompts", prompt_parts._CODE),
        ("training_shards", shard_parts._CODE),
        ("draft_vocabulary", part_counts._CODE),
        ("exports", request._CODE),
    ],
)
def test_an_asset_is_out_of_date_wherever_the_files_that_it_keeps_are(asset: str, code: tuple[str, ...]) -> None:
    rooms = [Path(room) for room in ROOMS[asset]]
    assert [place for place in code if not any(Path(place).is_relative_to(room) for room in rooms)] == []


def test_every_column_says_what_it_holds() -> None:
    schemas = [spec.metadata["dagster/column_schema"] for spec in specs() if "dagster/column_schema" in spec.metadata]
    assert len(schemas) >= 4
    for schema in schemas:
        for column in schema.columns:
            assert len(column.description or "") > 5, column.name


def test_every_blocking_check_says_what_to_do_when_it_fails() -> None:
    names = {key.name for key in the_definitions().resolve_asset_graph().asset_check_keys}
    assert names == NEXT_STEPS.keys()


def test_relations_are_views_of_the_catalogue(tmp_path: Path) -> None:
    named = {spec.metadata.get("dagster/relation_identifier") for spec in specs()} - {None}
    with duckdb.connect(build_catalogue(Home(tmp_path)), read_only=True) as eagle:
        there = {f"eagle.main.{name}" for (name,) in eagle.sql("SELECT name FROM (SHOW TABLES)").fetchall()}
    assert named
    assert named <= there


def test_schedules_are_off_and_the_sensors_spend_nothing() -> None:
    repository = defs.get_repository_def()
    assert {s.default_status for s in repository.schedule_defs} == {dg.DefaultScheduleStatus.STOPPED}
    targets = {s.name: [target.job_name for target in s.targets] for s in repository.sensor_defs}
    assert targets == {"datasets_changed": ["conclude"], "killed_runs": []}
    selected = {key.to_user_string() for key in repository.get_job("conclude").asset_layer.selected_asset_keys}
    assert selected == {"draft_vocabulary", "exports", "run_statistics"}


@pytest.mark.parametrize("command", [["dagster", "definitions", "validate"], ["dg", "check", "defs"]])
def test_dagsters_own_checks_of_the_definitions_pass(command: list[str], tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name(command[0]))
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path), "DG_CLI_CONFIG": str(tmp_path / "none.toml")}
    ended = subprocess.run(
        [program, *command[1:]], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_checks_have_the_partitions_of_their_asset() -> None:
    graph = the_definitions().resolve_asset_graph()
    for spec in specs():
        for key in graph.get_check_keys_for_assets({spec.key}):
            assert graph.get_check_spec(key).partitions_def == spec.partitions_def, key


def test_loading_the_definitions_needs_neither_vocabulary_nor_network() -> None:
    code = (
        "import json, sys, socket\n"
        "def no_network(*_): raise OSError('no network here')\n"
        "socket.socket.connect = no_network\n"
        "import eagle_assets.definitions\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(ended.stdout))
    assert "dagster" in loaded
    assert loaded & HEAVY == set()
    assert not {name for name in loaded if name.startswith(("eagle_assets.targets.", "eagle_assets.reconstruction."))}


@pytest.mark.parametrize("exports", [{}, {"train": {"format": "huggingface"}}])
def test_exports_of_the_datasets_file_are_made_anew_with_all_that_is_made_of_shards(
    tmp_path: Path, exports: dict[str, dict[str, str]]
) -> None:
    datasets = {"B1": {"source": "local", "responses": "B1.jsonl"}}
    (tmp_path / "datasets.yaml").write_text(json.dumps({"datasets": datasets, "exports": exports}))
    code = (
        "from eagle_assets.defs.graph import the_definitions\n"
        "job = the_definitions().get_repository_def().get_job('conclude')\n"
        "print(*sorted(key.to_user_string() for key in job.asset_layer.selected_asset_keys))"
    )
    environment = {**os.environ, "EAGLE_ASSETS_DATASETS": str(tmp_path / "datasets.yaml")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["draft_vocabulary", *(["exports"] if exports else []), "run_statistics"]
