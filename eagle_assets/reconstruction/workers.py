"""Work on all cores: tasks in, results out, in order, a bounded number under way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import TypeVar

WORTH_WORKERS = 1_000  # responses; fewer are done before a worker has started

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers:
    """Processes, or without any this one."""

    def __init__(self, processes: ProcessPoolExecutor | None) -> None:
        self._processes = processes

    def map(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The result of each task, in order. Tasks are taken as they are needed."""
        if self._processes is None:
            yield from map(work, tasks)
            return
        under_way: deque[Future[Result]] = deque()
        for task in tasks:
            under_way.append(self._processes.submit(work, task))
            if len(under_way) > 2 * cores():
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def on_threads(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """The same on threads, for work that does not hold the interpreter, as Arrow's does not."""
    with ThreadPoolExecutor(cores()) as threads:
        under_way: deque[Future[Result]] = deque()
        for task in tasks:
            if len(under_way) == cores():
                yield under_way.popleft().result()
            under_way.append(threads.submit(work, task))
        while under_way:
            yield under_way.popleft().result()


@contextmanager
def workers(module: str, worth_it: bool = True) -> Iterator[Workers]:
    """Workers that begin with the module of this name, which is imported once for all, while their first tasks are made
    ready; one process where there is one core or little to do."""
    if cores() == 1 or not worth_it:
        yield Workers(None)
        return
    # The encoder's threads do not survive a fork, so workers are forked from a process in which it never encoded.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    forkserver.ensure_running()
    processes = ProcessPoolExecutor(cores(), context, end_with_parent)
    try:
        yield Workers(processes)
    finally:
        processes.shutdown(wait=False, cancel_futures=True)


def end_with_parent() -> None:
    """Have this process killed once the one that started it has ended in whatever way: a pool's would wait for ever."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


def cores() -> int:
    return len(os.sched_getaffinity(0))
