"""Runs whose process has gone: ended by a sensor, because Dagster notices only where its code server outlives them.

After `kill -9` of `eagle-assets run`, or of all of `dagster dev`, a run stays started for ever, and holds its place
among the runs that may go at once. So each run holds a lock on a file of its own; the system frees it with the process.
"""

from __future__ import annotations

import atexit
import fcntl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from eagle_assets.lake.home import Home

_mark = ExitStack()  # of the run that this process is at: it executes one after the other
atexit.register(_mark.close)


def mark_alive(home: Home, run_id: str) -> None:
    """The run lives as long as this process, or until it is at another one."""
    _mark.close()
    path = _folder(home) / run_id
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{run_id}")
    file = _mark.enter_context(aside.open("a"))
    fcntl.flock(file, fcntl.LOCK_SH)
    aside.rename(path)  # nobody sees it before it is locked
    _mark.callback(path.unlink, missing_ok=True)


def runs_left_behind(home: Home) -> Iterator[str]:
    """Ids of runs whose processes ended without a word."""
    for path in sorted(_folder(home).glob("[!.]*")):
        try:
            with path.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileNotFoundError):  # it lives, or has just ended
            continue
        yield path.name


def forget(home: Home, run_id: str) -> None:
    """The run is known to have ended."""
    (_folder(home) / run_id).unlink(missing_ok=True)


def _folder(home: Home) -> Path:
    return home.root / ".locks" / "runs"
