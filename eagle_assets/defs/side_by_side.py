"""Dagster runs side by side, each lane a process that executes one run after the other.

A run in this process would do, but not for two datasets at once: signals reach the main thread of a process only, and
a collection has to be able to end on one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

from eagle_assets.defs.outcomes import Group, Outcome
from eagle_assets.openrouter.progress import Progress
from eagle_assets.reconstruction.workers import end_with_parent

if TYPE_CHECKING:
    from eagle_assets.defs.progress import OnProgress

SECONDS_BETWEEN_LOOKS = 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LANE_KILLED = (
    "a process of this run was killed, as the system does where memory runs out; run it again: nothing is bought twice"
)


class Lanes:
    """Processes that execute groups. `on_progress` is called in this process with what their collections report."""

    def __init__(self, count: int, on_progress: OnProgress | None) -> None:
        self._count, self._context = count, multiprocessing.get_context("spawn")
        self._reports: SimpleQueue[Progress] = self._context.SimpleQueue()
        self._on_progress = on_progress
        self._interrupted = False
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(self._count, self._context, _start_lane, (self._reports,))
        for _ in range(self._count):
            pool.submit(os.getpid)  # a lane starts with its first task, and takes seconds to start
        return pool

    def close(self) -> None:
        """End the lanes; what they are at is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def execute(self, groups: Iterable[Group]) -> Iterator[list[Outcome]]:
        """The outcomes of each group as it ends. Where a lane is killed, what all of them were at is refused.

        An interruption is passed on to the lanes, and raised as KeyboardInterrupt when what they are at has ended.
        """
        with self._passing_signals_on():
            running = {self._submit(group): group for group in groups}
            while running:
                done, waiting = wait(running, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
                self._show_progress()
                if self._interrupted:
                    running = {future: running[future] for future in waiting if not future.cancel()}
                    continue
                for future in done:
                    yield _outcomes(future, running.pop(future))
        if self._interrupted:
            raise KeyboardInterrupt

    def _submit(self, group: Group) -> Future[list[Outcome]]:
        try:
            return self._pool.submit(_execute_in_lane, group)
        except BrokenProcessPool:
            self._pool = self._started()
            return self._pool.submit(_execute_in_lane, group)

    def _show_progress(self) -> None:
        while not self._reports.empty():
            report = self._reports.get()
            if self._on_progress is not None:
                self._on_progress(report)

    @contextmanager
    def _passing_signals_on(self) -> Iterator[None]:
        def pass_on(number: int, _: FrameType | None) -> None:
            self._interrupted = True
            for lane in multiprocessing.active_children():
                if lane.pid is not None:
                    os.kill(lane.pid, number)

        before = {number: signal.signal(number, pass_on) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _outcomes(ended: Future[list[Outcome]], group: Group) -> list[Outcome]:
    try:
        return ended.result()
    except BrokenProcessPool:
        return [Outcome(asset, group.dataset, "refused", LANE_KILLED) for asset in group.assets]


_reports: SimpleQueue[Progress]  # of this process, when it is a lane


def _start_lane(reports: SimpleQueue[Progress]) -> None:
    global _reports
    end_with_parent()
    os.setsid()  # a terminal's Ctrl-C comes by way of the first process, once
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # between two runs; during one Dagster has its own handlers
    from eagle_assets.defs import execution  # noqa: F401 (seconds, while another lane is at work)

    _reports = reports


def _execute_in_lane(group: Group) -> list[Outcome]:
    from eagle_assets.defs.execution import execute, the_instance
    from eagle_assets.defs.progress import shown_by

    with the_instance() as instance, shown_by(_reports.put):
        return list(execute(group, instance))
