"""`eagle-assets reconstruct`: files through calibration and judgement, with progress and a summary."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibration import Calibration
from eagle_assets.reconstruction.files import exchanges_in, read_calibration, write_calibration, write_verdicts
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.summary import Summary


def reconstruct_files(
    files: Sequence[Path], output: Path, calibration_file: Path | None, save_calibration: Path | None
) -> None:
    """Write a verdict for each line of `files` to `output`, which appears whole or not at all.

    Raises CalibrationError and OSError.
    """
    console = Console(stderr=True)
    started = time.monotonic()
    with _progress(console, files) as read:
        calibration = read_calibration(calibration_file) if calibration_file else calibrate(read("calibrating"))
        if save_calibration is not None:
            write_calibration(calibration, save_calibration)
        summary = _write(calibration, read("reconstructing"), output)
    seconds = time.monotonic() - started
    console.print(summary.by_provider())
    if summary.reasons:
        console.print(summary.by_reason())
    console.print(
        f"{summary.exchanges:,} exchanges, {summary.tokens:,} output tokens in {seconds:.1f} s "
        f"({summary.tokens / seconds:,.0f} tokens a second). Verdicts are in {output}"
    )


def _write(calibration: Calibration, exchanges: Iterator[Exchange], output: Path) -> Summary:
    summary = Summary()
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with partial.open("wb") as out:
            for _ in summary.watch(write_verdicts(reconstruct(exchanges, calibration), out)):
                pass
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    return summary


@contextmanager
def _progress(console: Console, files: Sequence[Path]) -> Iterator[Callable[[str], Iterator[Exchange]]]:
    """A function that reads all files under a title, with a bar on a terminal."""
    columns = (TextColumn("{task.description:15}"), BarColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    total = sum(file.stat().st_size for file in files)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def read(title: str) -> Iterator[Exchange]:
            task = bar.add_task(title, total=total)
            return exchanges_in(files, lambda size: bar.advance(task, size))

        yield read
