"""What the figures were measured on: `python benchmarks/machine.py`."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    print(f"{_of('/proc/cpuinfo', 'model name') or platform.machine()}, {len(os.sched_getaffinity(0))} cores in use")
    print(
        f"{int((_of('/proc/meminfo', 'MemTotal') or '0 kB').split()[0]) / 2**20:.0f} GiB of memory, {platform.system()}"
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "splintr-rs", "httpx", "duckdb"))
    print(f"Python {platform.python_version()}, {packages}")
    print(f"load before the run: {os.getloadavg()[0]:.1f}")


def _of(path: str, key: str) -> str | None:
    if not Path(path).is_file():
        return None
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), None)


if __name__ == "__main__":
    main()
