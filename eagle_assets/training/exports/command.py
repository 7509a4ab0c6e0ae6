"""`eagle-assets export`: what was typed, a bar while it runs, and what to do with the folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eagle_assets.configuration import Settings, load_configuration
from eagle_assets.lake.home import Home
from eagle_assets.targets.kimi import target_named
from eagle_assets.training.exports.export import Exported, export
from eagle_assets.training.exports.request import ExportError, ExportRequest, size_in_bytes


def export_to(
    folder: Path, form: str, datasets: Sequence[str], weights: Sequence[str], size: str, **options: Any
) -> None:
    """Export as the command line says. Raises ExportError and ConfigurationError."""
    settings = Settings()
    configuration = load_configuration(settings.datasets_file)
    request = ExportRequest(
        form,  # type: ignore[arg-type]  # the request itself refuses what is no format
        folder,
        datasets=tuple(name for names in datasets for name in names.split(",") if name),
        weights=dict(_weight(pair) for pairs in weights for pair in pairs.split(",") if pair),
        shard_bytes=size_in_bytes(size),
        of_file=frozenset(configuration.datasets),
        **options,
    )
    target = target_named(configuration.target)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:15}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def on_rows(doing: str, rows: int, total: int) -> None:
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing, total=total)
            bar.advance(tasks[doing], rows)

        exported = export(Home(settings.home), target, request, on_rows)
    _say(exported, console)


def _weight(pair: str) -> tuple[str, float]:
    dataset, _, weight = pair.partition("=")
    try:
        return dataset.strip(), float(weight)
    except ValueError:
        raise ExportError(f"{pair!r} is no weight of a dataset; write it like B3=2") from None


def _say(exported: Exported, console: Console) -> None:
    manifest = exported.manifest
    for note in exported.notes:
        console.print(note, style="yellow", highlight=False, soft_wrap=True)
    for name, dataset in manifest["datasets"].items():
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in dataset["left_out"].items())
        console.print(
            f"{name}: {dataset['rows']:,} rows, {dataset['generated_tokens']:,} generated tokens"
            + (f"; left out: {left_out}" if left_out else ""),
            highlight=False,
        )
    complete = "is complete, without what is named first" if exported.notes else "is complete"
    verb = "is that export already; nothing was written" if exported.was_there else complete
    coverage = manifest["draft_vocabulary"]
    console.print(
        f"{manifest['rows']:,} rows, {manifest['tokens']:,} tokens, the longest row {manifest['longest']:,}; "
        f"{coverage['size']:,} draft ids cover {coverage['coverage']:.2%}.\n"
        f"{exported.folder} {verb}. README.md in it says how to train from there.",
        highlight=False,
        soft_wrap=True,
    )
