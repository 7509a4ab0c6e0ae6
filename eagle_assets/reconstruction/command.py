"""`eagle-assets reconstruct`: files through calibration and judgement, with progress and a summary."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from eagle_assets.reconstruction.calibration import Calibration
from eagle_assets.reconstruction.files import exchange_of_line, read_calibration, write_calibration
from eagle_assets.reconstruction.reconstruct import calibrate
from eagle_assets.reconstruction.sampling import lines_of, sampled_lines
from eagle_assets.reconstruction.summary import Summary
from eagle_assets.reconstruction.workers import judge_lines


def reconstruct_files(
    files: Sequence[Path], output: Path, calibration_file: Path | None, save_calibration: Path | None
) -> None:
    """Write a verdict for each line of `files` to `output`, which appears whole or not at all.

    Raises CalibrationError and OSError.
    """
    console = Console(stderr=True)
    started = time.monotonic()
    with _bar(console, files) as (bar, task):
        if calibration_file is not None:
            calibration = read_calibration(calibration_file)
        else:
            bar.update(task, description="calibrating")
            calibration = calibrate(exchange_of_line(text, place, order) for place, order, text in sampled_lines(files))
        if save_calibration is not None:
            write_calibration(calibration, save_calibration)
        bar.update(task, description="reconstructing")
        summary = _write(calibration, files, output, bar, task)
    _conclude(console, summary, time.monotonic() - started, output)


def _write(calibration: Calibration, files: Sequence[Path], output: Path, bar: Progress, task: TaskID) -> Summary:
    summary = Summary()
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with partial.open("wb") as out:
            for verdicts, of_piece, read in judge_lines(lines_of(files), calibration):
                out.write(verdicts)
                summary.add_all(of_piece)
                bar.advance(task, read)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    return summary


def _conclude(console: Console, summary: Summary, seconds: float, output: Path) -> None:
    console.print(summary.by_provider())
    if summary.reasons:
        console.print(summary.by_reason())
    console.print(
        f"{summary.exchanges:,} exchanges, {summary.tokens:,} output tokens in {seconds:.1f} s "
        f"({summary.tokens / seconds:,.0f} tokens a second). Verdicts are in {output}"
    )


@contextmanager
def _bar(console: Console, files: Sequence[Path]) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar over the bytes of the files, shown on a terminal only."""
    columns = (TextColumn("{task.description:15}"), BarColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task("", total=sum(file.stat().st_size for file in files))
