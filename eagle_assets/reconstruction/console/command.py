"""`eagle-assets reconstruct`: files through calibration and judgement, with progress and a summary."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from eagle_assets.reconstruction.workers import workers

_WORTH_WORKERS = 2**22  # bytes; less is done before a worker has started


def reconstruct_files(
    files: Sequence[Path], output: Path, calibration_file: Path | None, save_calibration: Path | None
) -> None:
    """Write a verdict for each line of `files` to `output`, which appears whole or not at all.

    Raises CalibrationError and OSError.
    """
    console = Console(stderr=True)
    started = time.monotonic()
    large = sum(file.stat().st_size for file in files) >= _WORTH_WORKERS
    with _bar(console, files) as (bar, task), workers("eagle_assets.reconstruction.loaded", large) as at_work:
        # Not before, since workers load the same meanwhile.
        from eagle_assets.reconstruction.console.conclusion import conclude
        from eagle_assets.reconstruction.files.verdicts import write_verdicts

        stage, advance = partial(_describe, bar, task), partial(bar.advance, task)
        summary = write_verdicts(files, output, calibration_file, save_calibration, at_work, stage, advance)
    conclude(console, summary, time.monotonic() - started, output)


def _describe(bar: Progress, task: TaskID, stage: str) -> None:
    bar.update(task, description=stage)


@contextmanager
def _bar(console: Console, files: Sequence[Path]) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar over the bytes of the files, shown on a terminal only."""
    columns = (TextColumn("{task.description:15}"), BarColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task("", total=sum(file.stat().st_size for file in files))
