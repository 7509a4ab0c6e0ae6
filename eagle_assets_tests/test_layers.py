"""The arrows between the packages point one way, only `defs` knows dagster (contracts in pyproject.toml), and what is
kept is kept for the code that it was made by."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp

from eagle_assets.reconstruction.parts import findings


def test_the_layers_hold() -> None:
    ended = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "2 kept, 0 broken" in ended.stdout


def test_findings_are_kept_for_all_the_code_that_reads_and_judges_a_response() -> None:
    graph = grimp.build_graph("eagle_assets")
    judging = [f"eagle_assets.reconstruction.{name}" for name in ("reconstruct", "stored", "own.local", "roundtrip")]
    needed = {module for judge in judging for module in graph.find_upstream_modules(judge)}
    assert "eagle_assets.openrouter.wire" in needed
    named = tuple(f"eagle_assets.{place.removesuffix('.py').replace('/', '.')}" for place in findings.CODE)
    assert [module for module in sorted(needed) if not module.startswith(named)] == []
