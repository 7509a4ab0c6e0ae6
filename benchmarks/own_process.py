"""Each measurement in a process of its own, so that its memory is its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ASKED = "--measure"


def measured_apart(script: str, *words: str) -> dict[str, float]:
    """What `script`, run again to measure what `words` say, answers by `answer_if_asked`."""
    command = [sys.executable, script, ASKED, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def answer_if_asked(measure: Callable[..., dict[str, float]]) -> None:
    """In a process that `measured_apart` started: measure, say it, and exit. Elsewhere nothing."""
    if sys.argv[1:2] == [ASKED]:
        print(json.dumps(measure(*sys.argv[2:])))
        raise SystemExit(0)


def peak_mib() -> float:
    """The most memory that this process ever had. What `getrusage` says is at least what its parent had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def forget_peak() -> None:
    """Have `peak_mib` say from now on what this process has from now on."""
    Path("/proc/self/clear_refs").write_text("5")
