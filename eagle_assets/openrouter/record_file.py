"""An append-only file of records that survives kill −9 at any instant: each has its length and its checksum.

A record lies as `<u32 length> <u32 CRC-32 of the payload> <payload>`, little-endian, behind the file's magic bytes. The
highest bit of the length is set until all of it is written: a process that is killed while it writes can leave the
first pages of a record (Linux ends a write between two pages), and that is no damage.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from eagle_assets.durability import sync_folder

MAGIC = b"eagle-assets records 1\n"
_HEAD = struct.Struct("<II")
_UNFINISHED = 1 << 31
_LAST_BYTE_OF_LENGTH = 3  # a single byte is written whole or not at all, wherever the page ends
_COPY_BYTES = 1 << 20


class JournalError(Exception):
    """The journal cannot be used; one sentence that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The end of a file that could not be read, and was cut off: `size` bytes from `offset`, kept in `copy`."""

    path: Path
    offset: int
    size: int
    copy: Path

    def __str__(self) -> str:
        return f"{self.path}: the last {self.size} bytes were damaged and are cut off; they are kept in {self.copy}"


class RecordFile:
    """A file open for appending. The caller sees to it that there is one writer at a time.

    Each record reaches the operating system before `append` returns, so that it outlives this process; `sync` makes
    what was appended outlive the machine's power.
    """

    def __init__(self, path: Path, descriptor: int, finisher: int, size: int, damage: Damage | None) -> None:
        self.path = path
        self.size = size
        self.damage = damage
        self._descriptor = descriptor
        self._finisher = finisher  # not for appending: it marks a record as finished
        self._synced = size
        self._syncing = Lock()  # another thread may sync while this one appends

    @classmethod
    def open(cls, path: Path, known: int = 0) -> RecordFile:
        """Open `path`, or make it. A damaged tail is copied aside and cut off, an unfinished record is cut off.

        The first `known` bytes are known to be whole records. Raises JournalError.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        damage = _cut_tail(path, known) if path.exists() else None
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        finisher = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        file = cls(path, descriptor, finisher, os.fstat(descriptor).st_size, damage)
        if file.size == 0:
            file._write(MAGIC)
            file.sync()
            sync_folder(path.parent)
        return file

    def append(self, *parts: bytes) -> int:
        """Append one record made of `parts`; returns where its payload begins.

        Raises JournalError where it cannot be written; the file stays whole.
        """
        payload = b"".join(parts)
        if not payload:
            raise ValueError("an empty record cannot be told from a hole in the file")
        start = self.size + _HEAD.size
        head = _HEAD.pack(len(payload), zlib.crc32(payload))
        self._write(_HEAD.pack(len(payload) | _UNFINISHED, zlib.crc32(payload)) + payload, finished=head)
        return start

    def sync(self) -> None:
        """Make everything that is appended durable; costs nothing where it is so already. Any thread may call it."""
        with self._syncing:
            target = self.size
            if self._synced < target:
                try:
                    os.fsync(self._descriptor)
                except OSError as error:
                    raise JournalError(f"cannot make {self.path} durable: {error.strerror}") from error
                self._synced = target

    def close(self) -> None:
        """Make all of it durable, and close it in any case. Raises JournalError."""
        try:
            self.sync()
        finally:
            with self._syncing:
                os.close(self._descriptor)
                os.close(self._finisher)

    def _write(self, data: bytes, finished: bytes | None = None) -> None:
        """Append `data`; `finished` is the head that it has once it is there."""
        written = 0
        view = memoryview(data)
        try:
            while written < len(data):
                written += os.write(self._descriptor, view[written:])
            if finished is not None:
                last = finished[_LAST_BYTE_OF_LENGTH : _LAST_BYTE_OF_LENGTH + 1]
                os.pwrite(self._finisher, last, self.size + _LAST_BYTE_OF_LENGTH)
        except OSError as error:
            os.ftruncate(self._descriptor, self.size)
            raise JournalError(f"cannot write to {self.path}: {error.strerror}; nothing is lost so far") from error
        except BaseException:  # a signal's handler may raise between any two instructions
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(data)


def read_records(path: Path) -> Iterator[bytes]:
    """The payloads in a file, up to its end or its first damaged record. Takes no lock: the file may be growing."""
    return (payload for _, payload in placed_records(path))


def placed_records(path: Path, known: int = 0) -> Iterator[tuple[int, bytes]]:
    """As `read_records`, each payload behind the place where it begins, without those in the first `known` bytes."""
    if path.exists():
        with path.open("rb") as file:
            for end, payload in _whole_records(file, known):
                yield end - len(payload), payload


def record_at(descriptor: int, start: int) -> bytes:
    """The payload that begins there, in a file that is open to read. Raises JournalError where no whole record does."""
    head = os.pread(descriptor, _HEAD.size, max(0, start - _HEAD.size))
    length, checksum = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
    if 0 < length < _UNFINISHED:
        payload = os.pread(descriptor, length, start)
        if len(payload) == length and zlib.crc32(payload) == checksum:
            return payload
    raise JournalError(f"the record at byte {start} is damaged")


def _whole_records(file: BinaryIO, known: int = 0) -> Iterator[tuple[int, bytes]]:
    """Pairs (offset behind the record, payload) as long as they are whole, behind the first `known` bytes. Raises
    JournalError for a foreign file."""
    start = file.read(len(MAGIC))
    if start != MAGIC:
        if MAGIC.startswith(start):  # the process ended while it was making the file
            return
        raise JournalError(f"{file.name} is no journal of this program; move it away")
    size = os.fstat(file.fileno()).st_size
    offset = file.seek(max(known, len(MAGIC)))
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        length, checksum = _HEAD.unpack(head)
        offset += _HEAD.size + length
        # A length of 0 is a hole of zeros, as file systems leave them after a power cut.
        if length == 0 or length & _UNFINISHED or offset > size:
            return
        payload = file.read(length)
        if zlib.crc32(payload) != checksum:
            return
        yield offset, payload


def _cut_tail(path: Path, known: int) -> Damage | None:
    """Cut off what is behind the last whole record; it is kept aside unless it is a record that was never finished."""
    with path.open("r+b") as file:
        end = known
        for offset, _ in _whole_records(file, known):
            end = offset
        size = os.fstat(file.fileno()).st_size
        if end == 0:
            end = min(len(MAGIC), size) if size >= len(MAGIC) else 0
        if end == size:
            return None
        if _is_unfinished(file, end, size):
            _truncate(file, end)
            return None
        copy = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        with copy.open("xb") as kept:
            file.seek(end)
            while piece := file.read(_COPY_BYTES):
                kept.write(piece)
            kept.flush()
            os.fsync(kept.fileno())
        sync_folder(path.parent)
        _truncate(file, end)
    return Damage(path, end, size - end, copy)


def _is_unfinished(file: BinaryIO, start: int, size: int) -> bool:
    """Whether all that there is from `start` is (the beginning of) one record that was being written."""
    file.seek(start)
    head = file.read(_HEAD.size).ljust(_HEAD.size, b"\0")
    length, _ = _HEAD.unpack(head)
    return bool(length & _UNFINISHED) and size <= start + _HEAD.size + (length & ~_UNFINISHED)


def _truncate(file: BinaryIO, size: int) -> None:
    file.truncate(size)
    file.flush()
    os.fsync(file.fileno())
