"""The arrows between the packages point one way, and only `defs` knows dagster (contracts in pyproject.toml)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
