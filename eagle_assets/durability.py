"""Files and renames that outlive a crash of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, data: bytes) -> None:
    """Write `path` so that it is there whole or not at all, also after a crash of the machine."""
    path.resolve().parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    sync_folder(path.resolve().parent)


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it was written; what was broken off leaves nothing. A link stays one,
    and what it points to is replaced."""
    path = path.resolve()
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as out:
            yield out
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames within a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
