"""A folder that appears whole: it is built beside its place under another name, and renamed when it is complete.

What was finished before a kill is known by its content: a file counts as finished where its hash is the one that was
noted when it was written, for the same plan.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from eagle_assets.durability import sync_folder, write_atomically
from eagle_assets.lake.audit import sha256_of
from eagle_assets.training.exports.request import ExportError

NOTES = "unfinished.json"


class FinishedFile(msgspec.Struct, frozen=True):
    sha256: str
    bytes: int


class _Notes(msgspec.Struct):
    plan: str
    files: dict[str, FinishedFile] = {}


def write_file(folder: Path, name: str, writer: Callable[[Path], object]) -> FinishedFile:
    """Let `writer` write a file, which has its name once it is on the disk."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    writer(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    finished = FinishedFile(sha256_of(partial), partial.stat().st_size)
    partial.replace(path)
    return finished


class Aside:
    """A folder under construction; `folder` is where its files lie meanwhile."""

    def __init__(self, folder: Path, plan: str) -> None:
        self.folder = folder
        self._notes = self._read_notes(plan)

    def finished(self, name: str) -> FinishedFile | None:
        """The file of this name, if an earlier attempt finished it and it is still what was written then."""
        noted = self._notes.files.get(name)
        path = self.folder / name
        if noted is None or not path.is_file() or sha256_of(path) != noted.sha256:
            return None
        return noted

    def write(self, name: str, writer: Callable[[Path], object]) -> FinishedFile:
        """Let `writer` write a file, and note it as finished once it is on the disk."""
        finished = write_file(self.folder, name, writer)
        self.note(name, finished)
        return finished

    def note(self, name: str, finished: FinishedFile) -> None:
        """Note a file as finished that is on the disk."""
        self._notes.files[name] = finished
        write_atomically(self.folder / NOTES, msgspec.json.encode(self._notes))

    def _read_notes(self, plan: str) -> _Notes:
        try:
            notes = msgspec.json.decode((self.folder / NOTES).read_bytes(), type=_Notes)
        except (FileNotFoundError, msgspec.DecodeError):
            notes = _Notes("")
        if notes.plan == plan:
            return notes
        for left in self.folder.iterdir():  # of another plan
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        return _Notes(plan)

    def _complete(self, names: set[str]) -> None:
        """Remove what is not one of these files."""
        for path in self.folder.rglob("*"):
            if path.is_file() and str(path.relative_to(self.folder)) not in names:
                path.unlink()

    def publish(self, folder: Path) -> None:
        """Give the folder its name. Nothing but the finished files is in it then."""
        self._complete(set(self._notes.files))
        sync_folder(self.folder)
        os.replace(self.folder, folder)
        sync_folder(folder.parent)


@contextmanager
def aside(folder: Path, plan: str) -> Iterator[Aside]:
    """The construction of `folder`, alone on this machine. Raises ExportError where another process is at it."""
    place = place_aside(folder)
    place.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Aside(place, plan)
    except BlockingIOError:
        raise ExportError(f"another export is writing {folder}; wait for it, or choose another folder") from None
    finally:
        os.close(descriptor)


def place_aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.unfinished")
