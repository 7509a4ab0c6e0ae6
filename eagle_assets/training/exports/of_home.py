"""Exports that lie in the home, each in a folder named after itself and its content."""

from __future__ import annotations

import shutil
from pathlib import Path

from eagle_assets.configuration import Export
from eagle_assets.lake.home import Home
from eagle_assets.targets.target import Target
from eagle_assets.training.exports.export import Exported, export, shards_to_export
from eagle_assets.training.exports.request import ExportRequest

_DIGITS = 12


def export_into_home(home: Home, target: Target, name: str, options: Export, of_file: frozenset[str]) -> Exported:
    """Make an export of the datasets file, or leave it where it is there; the one that it supersedes goes. `of_file`
    are the datasets of that file.

    Raises ExportError and GateClosed.
    """
    chosen = {**options.model_dump(), "of_file": of_file}
    request = ExportRequest(folder=home.exports / name, **chosen)
    shards, _ = shards_to_export(home, target, request)
    folder = home.exports / f"{name}-{request.plan(target, shards)[:_DIGITS]}"
    exported = export(home, target, ExportRequest(folder=folder, **chosen))
    for other in superseded(home, name):
        if other != folder:
            shutil.rmtree(other)
    return exported


def superseded(home: Home, name: str) -> list[Path]:
    """The folders of an export of this name."""
    return [path for path in home.exports.glob(f"{name}-{'[0-9a-f]' * _DIGITS}") if path.is_dir()]
