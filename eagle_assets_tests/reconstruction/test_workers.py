"""Processes that work for another one: in order, and never longer than it lives."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle_assets.reconstruction.workers import cores, on_threads, workers

KILLED_AT_WORK = """
import os, time
from eagle_assets.reconstruction.workers import workers
from eagle_assets_tests.reconstruction.test_workers import pid_of
with workers("os") as found:
    for pid in found.map(pid_of, range(20)):
        print(pid, flush=True)
    time.sleep(600)
"""


def pid_of(_: int) -> int:
    return os.getpid()


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_results_come_in_the_order_of_the_tasks() -> None:
    with workers("os") as found:
        assert list(found.map(abs, range(-50, 0))) == list(range(50, 0, -1))


def test_workers_end_with_the_process_that_started_them_however_it_ends() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", KILLED_AT_WORK], stdout=pipe, text=True) as process:
        assert process.stdout is not None
        pids = {int(process.stdout.readline()) for _ in range(20)}
        process.kill()
    end = time.monotonic() + 30
    while alive := [pid for pid in pids if is_there(pid)]:
        assert time.monotonic() < end, f"{alive} live on"
        time.sleep(0.1)


def test_threads_give_results_in_order_and_take_tasks_as_they_are_needed() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    results = on_threads(lambda number: number * number, tasks())
    assert next(results) == 0
    assert len(taken) <= 1 + cores()
    assert list(results) == [number * number for number in range(1, 20)]
    with pytest.raises(ZeroDivisionError):
        list(on_threads(lambda number: 1 // number, [1, 0]))
