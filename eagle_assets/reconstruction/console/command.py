"""`eagle-assets reconstruct`: files through calibration and judgement, with progress and a summary."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from eagle_assets.reconstruction.files.exchanges import read_calibration, write_calibration
from eagle_assets.reconstruction.files.pieces import Judged, judge_span, look_at, make_ready
from eagle_assets.reconstruction.files.sampling import survey
from eagle_assets.reconstruction.files.summary import Summary
from eagle_assets.reconstruction.reconstruct import calibrate_seen
from eagle_assets.reconstruction.workers import workers

_WORTH_WORKERS = 2**22  # bytes; less is done before a worker has started
_LINES_AT_ONCE = 32  # that a worker looks at for calibration


def reconstruct_files(
    files: Sequence[Path], output: Path, calibration_file: Path | None, save_calibration: Path | None
) -> None:
    """Write a verdict for each line of `files` to `output`, which appears whole or not at all.

    Raises CalibrationError and OSError.
    """
    console = Console(stderr=True)
    started = time.monotonic()
    large = sum(file.stat().st_size for file in files) >= _WORTH_WORKERS
    with _bar(console, files) as (bar, task), workers(make_ready, large) as at_work:
        found = survey(files)
        if calibration_file is not None:
            calibration = read_calibration(calibration_file)
        else:
            bar.update(task, description="calibrating")
            samples = (found.sample[i : i + _LINES_AT_ONCE] for i in range(0, len(found.sample), _LINES_AT_ONCE))
            calibration = calibrate_seen(seen for part in at_work.map(look_at, samples) for seen in part)
        if save_calibration is not None:
            write_calibration(calibration, save_calibration)
        bar.update(task, description="reconstructing")
        judged = at_work.map(partial(judge_span, pickled_calibration=pickle.dumps(calibration)), found.pieces)
        summary = _write(judged, output, bar, task)
    _conclude(console, summary, time.monotonic() - started, output)


def _write(judged: Iterable[Judged], output: Path, bar: Progress, task: TaskID) -> Summary:
    summary = Summary()
    aside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with aside.open("wb") as out:
            for piece in judged:
                out.write(piece.verdicts)
                summary.add_all(piece.summary)
                bar.advance(task, piece.read)
        aside.replace(output)
    finally:
        aside.unlink(missing_ok=True)
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
