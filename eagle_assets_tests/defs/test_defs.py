"""The graph as Dagster sees it: every change of it shows in review."""

from __future__ import annotations

import json
import subprocess
import sys

import dagster as dg
import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from eagle_assets.definitions import defs
from eagle_assets.defs.graph import the_definitions


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
        "from eagle_assets.targets.kimi import known_targets\n"
        "heavy = sorted({'transformers', 'renderers', 'duckdb', 'polars', 'tiktoken'} & sys.modules.keys())\n"
        "print(json.dumps([heavy, known_targets.cache_info().currsize]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == [[], 0]
