"""The journal: every exchange with the server as it comes in, byte for byte, safe against kill −9 at any instant.

One folder for each dataset, with one writer at a time. `exchanges.records` holds, for each attempt, that it was asked,
how the answer began, its pieces as they arrived, and how it ended; attempts lie interleaved. `generations.records`
holds what `/generation` said later.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from eagle_assets.openrouter.attempts import Attempt, JournalRecord, ended_record, with_generation
from eagle_assets.openrouter.decisions import known_cost_usd, retry_decision
from eagle_assets.openrouter.record_file import Damage, JournalError, RecordFile, read_records
from eagle_assets.openrouter.wire import read_response

INTERRUPTED = "interrupted: the process ended before the answer did"

_ASKED, _BEGAN, _PIECE, _ENDED = b"A", b"B", b"P", b"E"
_KEY = struct.Struct("<cQ")
_SECONDS = struct.Struct("<d")
_encode, _decode = msgspec.json.encode, msgspec.json.decode


def journal_folder(home_folder: Path, dataset: str) -> Path:
    return home_folder / "journal" / f"dataset={dataset}"


class JournalReader:
    """A journal to read, also while another process writes it: attempts that are under way do not show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> Iterator[JournalRecord]:
        """Every attempt that has ended, in the order in which they ended. Holds one body at a time, and those of
        the attempts that were under way beside it."""
        generations = self._generations()
        replay = _Replay()
        for payload in read_records(self._exchanges_path):
            if (record := replay.feed(payload)) is not None:
                yield with_generation(record, generations)

    def find(self, exchange_id: str) -> JournalRecord | None:
        """The record of one exchange, or None."""
        return next((r for r in self.read() if r.exchange.exchange_id == exchange_id), None)

    @property
    def _exchanges_path(self) -> Path:
        return self.folder / "exchanges.records"

    @property
    def _generations_path(self) -> Path:
        return self.folder / "generations.records"

    def _generations(self) -> dict[str, dict[str, Any]]:
        return {row["generation_id"]: row["data"] for row in map(_decode, read_records(self._generations_path))}


def open_journal(home_folder: Path, dataset: str) -> JournalReader:
    """The journal of a dataset, to read; it is empty where nothing was collected yet."""
    return JournalReader(journal_folder(home_folder, dataset))


class Journal(JournalReader):
    """A journal to write, held against every other process.

    `damage` says what had to be cut off. `recovered` are the attempts that the last process left open: they were
    asked, and their end is not known, so they may have been paid for.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        super().__init__(folder)
        self._lock = lock
        self._exchanges = RecordFile.open(self._exchanges_path)
        self._generations_file = RecordFile.open(self._generations_path)
        self._ids: set[str] = set()
        self._settled: set[tuple[str, str]] = set()
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._next = 0
        self.damage: tuple[Damage, ...] = tuple(
            file.damage for file in (self._exchanges, self._generations_file) if file.damage is not None
        )
        self.recovered = self._recover()

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Open or make a journal. Raises JournalError where another process has it, or it cannot be written."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JournalError(f"cannot write to {folder}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise JournalError(
                f"another process (pid {holder}) is collecting into {folder}; let it end, or stop it, then run again"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        try:
            return cls(folder, lock)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._exchanges.close()
        self._generations_file.close()
        os.close(self._lock)

    def is_settled(self, prompt_id: str, request_key: str) -> bool:
        """Whether there is no need to ask this again: it was answered, or refused for good."""
        return (prompt_id, request_key) in self._settled

    def ask(self, local_id: str, prompt_id: str, request_key: str, request: dict[str, Any]) -> Attempt:
        """Note that a request is about to leave; call it before it does."""
        self._attempts[prompt_id, request_key] += 1
        attempt = Attempt(
            self._next, local_id, prompt_id, request_key, self._attempts[prompt_id, request_key], time.time(), request
        )
        self._next += 1
        asked = {
            "local_id": local_id,
            "prompt_id": prompt_id,
            "request_key": request_key,
            "ordinal": attempt.ordinal,
            "asked_at": attempt.asked_at,
            "request": request,
        }
        self._append(_ASKED, attempt, _encode(asked))
        return attempt

    def begin(self, attempt: Attempt, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Note the status and headers of an answer."""
        attempt.status, attempt.headers = status, tuple(headers)
        self._append(_BEGAN, attempt, _encode({"status": status, "headers": attempt.headers}))

    def receive(self, attempt: Attempt, piece: bytes, seconds: float) -> None:
        """Note a piece of the body, and when it came."""
        attempt.add(piece, seconds)
        self._append(_PIECE, attempt, _SECONDS.pack(seconds), piece)

    def end(self, attempt: Attempt, transport_error: str | None = None, *, never_sent: bool = False) -> JournalRecord:
        """Judge what has come, and note the end of an attempt. The caller syncs."""
        exchange = attempt.exchange(transport_error)
        response = read_response(exchange)
        decision = retry_decision(exchange.status, response)
        generation_id = response.response_id or attempt.header("x-generation-id")
        ended = {
            "exchange_id": generation_id if generation_id and generation_id not in self._ids else attempt.local_id,
            "generation_id": generation_id,
            "model": response.model or exchange.model,
            "provider": response.provider,
            "outcome": decision.outcome,
            "reason": decision.reason,
            "transport_error": transport_error,
            "cost_usd": 0.0 if never_sent else known_cost_usd(exchange.status, response),
            "ended_at": time.time(),
        }
        self._append(_ENDED, attempt, _encode(ended))
        record = ended_record(attempt, exchange, ended)
        self._note(record)
        return record

    def add_generation(self, generation_id: str, data: dict[str, Any]) -> None:
        """Keep what `/generation` said of an exchange."""
        self._generations_file.append(_encode({"generation_id": generation_id, "data": data}))

    def sync(self) -> None:
        """Make all that is noted durable. May run in another thread than the rest."""
        self._exchanges.sync()
        self._generations_file.sync()

    @property
    def is_synced(self) -> bool:
        return self._exchanges.is_synced and self._generations_file.is_synced

    @property
    def size(self) -> int:
        """Bytes noted so far, of all attempts."""
        return self._exchanges.size

    def _append(self, kind: bytes, attempt: Attempt, *data: bytes) -> None:
        self._exchanges.append(_KEY.pack(kind, attempt.number), *data)

    def _note(self, record: JournalRecord) -> None:
        self._ids.add(record.exchange.exchange_id)
        if record.outcome in ("answered", "refused"):
            self._settled.add((record.prompt_id, record.request_key))

    def _recover(self) -> tuple[JournalRecord, ...]:
        replay = _Replay()
        for payload in read_records(self._exchanges_path):
            if (record := replay.feed(payload)) is not None:
                self._note(record)
                self._attempts[record.prompt_id, record.request_key] += 1
        self._next = replay.highest + 1
        for attempt in replay.open.values():
            self._attempts[attempt.prompt_id, attempt.request_key] += 1
        recovered = tuple(self.end(attempt, INTERRUPTED) for attempt in replay.open.values())
        self.sync()
        return recovered


class _Replay:
    """Puts the records of a file together again."""

    def __init__(self) -> None:
        self.open: dict[int, Attempt] = {}
        self.highest = -1

    def feed(self, payload: bytes) -> JournalRecord | None:
        """The attempt that ends with this record, if one does."""
        kind, number = _KEY.unpack_from(payload)
        data = memoryview(payload)[_KEY.size :]
        if kind == _PIECE:
            self.open[number].add(bytes(data[_SECONDS.size :]), _SECONDS.unpack_from(data)[0])
            return None
        document = _decode(data)
        if kind == _ASKED:
            self.highest = max(self.highest, number)
            self.open[number] = Attempt(number=number, **document)
        elif kind == _BEGAN:
            attempt = self.open[number]
            attempt.status = document["status"]
            attempt.headers = tuple((key, value) for key, value in document["headers"])
        elif kind == _ENDED:
            attempt = self.open.pop(number)
            return ended_record(attempt, attempt.exchange(document["transport_error"]), document)
        return None
