"""The journal: every exchange with the server as it comes in, byte for byte, safe against kill −9 at any instant.

One folder for each dataset, with one writer at a time. `exchanges.records` holds, for each attempt, that it was asked,
how the answer began, its pieces as they arrived, and how it ended; attempts lie interleaved. `generations.records`
holds what `/generation` said later. `exchanges.index` and `exchanges.places` only save time.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.openrouter.attempts import Attempt, JournalRecord, ended_record, with_generation
from eagle_assets.openrouter.decisions import Decision, Outcome, known_cost_usd, retry_decision
from eagle_assets.openrouter.journal_index import ASKED, BEGAN, ENDED, KEY, PIECE, JournalIndex
from eagle_assets.openrouter.outcome import error_details, read_outcome
from eagle_assets.openrouter.record_file import (
    Damage,
    JournalError,
    RecordFile,
    read_records,
    record_at,
)
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.seen import Seen

SETTLED: tuple[Outcome, ...] = ("answered", "refused")
INTERRUPTED = "interrupted: the process ended before the answer did"

Strings: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray

_SECONDS = struct.Struct("<d")
_PIECE_START = KEY.size + _SECONDS.size
_encode, _decode = msgspec.json.encode, msgspec.json.decode


def journal_folder(home_folder: Path, dataset: str) -> Path:
    return home_folder / "journal" / f"dataset={dataset}"


def journaled_datasets(home_folder: Path) -> list[str]:
    """The datasets of which something was ever asked, by name."""
    return sorted(path.name.removeprefix("dataset=") for path in (home_folder / "journal").glob("dataset=*"))


class JournalReader:
    """A journal to read, also while another process writes it: attempts that are under way do not show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: JournalIndex | None = None

    def read(self, prompt_ids: Strings | None = None, known: Strings | None = None) -> Iterator[JournalRecord]:
        """Every attempt that has ended, one body in memory at a time: in the order in which they ended.

        With `prompt_ids`: in the order of these prompts, then of the attempts at each, so that it does not depend on
        when an answer came; attempts at other prompts come last. Exchanges with `known` ids are left out.
        """
        ended = self._index().ended.table.select(["prompt_id", "ordinal", "exchange_id"])
        numbers = np.arange(ended.num_rows)
        if known is not None:
            numbers = np.flatnonzero(~pc.is_in(ended["exchange_id"], _as_strings(known)).to_numpy())
        if prompt_ids is not None:
            wanted = ended.take(pa.array(numbers))
            place = pc.index_in(wanted["prompt_id"], _as_strings(prompt_ids))
            wanted = wanted.append_column("place", pc.fill_null(place, len(prompt_ids)))
            keys = [(name, "ascending") for name in ("place", "prompt_id", "ordinal")]
            numbers = numbers[pc.sort_indices(wanted, keys).to_numpy()]
        return self._load(numbers)

    def find(self, exchange_id: str) -> JournalRecord | None:
        """The record of one exchange, or None; the server's own name of it will do too."""
        return next(self._load(self._index().ended.named(exchange_id)[:1]), None)

    def has_ended(self, exchange_ids: Strings) -> npt.NDArray[np.bool_]:
        """Which of these exchanges have ended."""
        found: npt.NDArray[np.bool_] = pc.is_in(
            _as_strings(exchange_ids), self._index().ended.table["exchange_id"]
        ).to_numpy(zero_copy_only=False)
        return found

    def told_later(self) -> set[str]:
        """The exchanges of which `/generation` has said something."""
        said = pa.array(self._generations(), pa.large_string())
        ended = self._index().ended.table.select(["exchange_id", "generation_id"])
        told = pc.or_(*(pc.is_in(column, said) for column in ended.columns))
        return set(ended.filter(told)["exchange_id"].to_pylist())

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been asked yet."""
        return not self._index().ended and not self.under_way

    @property
    def under_way(self) -> int:
        """Attempts that have not ended: under way now, or left so by a process that was killed."""
        return len(self._index().open)

    def settled(self) -> set[tuple[str, str]]:
        """Pairs (prompt id, request key) that need not be asked again: answered, or refused for good."""
        settled = self._index().ended.with_outcomes(SETTLED)
        return set(zip(settled["prompt_id"].to_pylist(), settled["request_key"].to_pylist(), strict=True))

    def are_settled(self, prompt_ids: Strings, request_keys: Strings) -> npt.NDArray[np.bool_]:
        """Which of these requests, each of its prompt, need not be asked again."""
        settled = self._index().ended.with_outcomes(SETTLED)
        there = _pairs(settled["prompt_id"], settled["request_key"])
        asked = _pairs(_as_strings(prompt_ids), _as_strings(request_keys))
        found: npt.NDArray[np.bool_] = pc.is_in(asked, there).to_numpy(zero_copy_only=False)
        return found

    def _index(self) -> JournalIndex:
        """Where everything lies, up to the end of the file as it is now."""
        if self._known is None:
            self._known = JournalIndex.kept(self._exchanges_path)
        self._known.extend()
        return self._known

    def _load(self, numbers: npt.NDArray[np.int64]) -> Iterator[JournalRecord]:
        """The records of ended attempts, by their numbers in the index. Raises JournalError where one is damaged."""
        if not self._exchanges_path.exists():
            return
        index, generations = self._index(), self._generations()
        descriptor = os.open(self._exchanges_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for entry, places in zip(index.ended.at(numbers), index.places(numbers.tolist()), strict=True):
                attempt = _attempt(entry.number, places, descriptor)
                ended = _document(record_at(descriptor, entry.end))
                exchange = attempt.exchange(ended["transport_error"], _body_at(descriptor, attempt))
                yield with_generation(ended_record(attempt, exchange, ended), generations)
        except JournalError as error:
            raise JournalError(
                f"{self._exchanges_path}: {error}; remove exchanges.index beside it and collect again: that sets aside "
                "what cannot be read, and asks for it anew"
            ) from None
        finally:
            os.close(descriptor)

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
        self._exchanges = RecordFile.open(self._exchanges_path, JournalIndex.kept(self._exchanges_path).covers)
        self._generations_file = RecordFile.open(self._generations_path)
        self._ids, self._settled = Seen(), Seen()
        self._attempts: Counter[tuple[str, str]] = Counter()  # at what is not settled
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
        with ExitStack() as closing:  # each, whatever becomes of the others; the lock last
            closing.callback(os.close, self._lock)
            closing.callback(self._keep_index)
            closing.callback(self._generations_file.close)
            closing.callback(self._exchanges.close)

    def _keep_index(self) -> None:
        with suppress(OSError, JournalError):  # it only saves time
            self._index().keep()

    def is_settled(self, prompt_id: str, request_key: str) -> bool:
        """Whether there is no need to ask this again: it was answered, or refused for good."""
        return (prompt_id, request_key) in self._settled

    def are_settled(self, prompt_ids: Strings, request_keys: Strings) -> npt.NDArray[np.bool_]:
        settled = super().are_settled(prompt_ids, request_keys)
        self._known = None  # for the sake of memory
        return settled

    def ask(self, local_id: str, prompt_id: str, request_key: str, request: dict[str, Any]) -> Attempt:
        """Note that a request is about to leave; call it before it does."""
        if self.is_settled(prompt_id, request_key):
            ordinal = self._index().attempts(prompt_id, request_key) + 1
        else:
            ordinal = self._attempts[prompt_id, request_key] = self._attempts[prompt_id, request_key] + 1
        attempt = Attempt(self._next, local_id, prompt_id, request_key, ordinal, time.time(), request)
        self._next += 1
        asked = {
            "local_id": local_id,
            "prompt_id": prompt_id,
            "request_key": request_key,
            "ordinal": attempt.ordinal,
            "asked_at": attempt.asked_at,
            "request": request,
        }
        self._append(ASKED, attempt, _encode(asked))
        return attempt

    def begin(self, attempt: Attempt, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Note the status and headers of an answer."""
        attempt.status, attempt.headers = status, tuple(headers)
        self._append(BEGAN, attempt, _encode({"status": status, "headers": attempt.headers}))

    def receive(self, attempt: Attempt, piece: bytes, seconds: float) -> None:
        """Note a piece of the body, and when it came."""
        place = self._append(PIECE, attempt, _SECONDS.pack(seconds), piece)
        attempt.add(piece, seconds, place)

    def end(self, attempt: Attempt, transport_error: str | None = None) -> JournalRecord:
        """Judge what has come, and note the end of an attempt. The caller syncs."""
        return self.conclude(attempt, transport_error)[0]

    def conclude(
        self, attempt: Attempt, transport_error: str | None, *, never_sent: bool = False, overlong: bool = False
    ) -> tuple[JournalRecord, Response]:
        """As `end`; gives the response too, as far as `read_outcome` reads it.

        `never_sent` says that the request surely did not leave, `overlong` that no honest answer is as long.
        """
        exchange = attempt.exchange(transport_error, self._body(attempt))
        response = read_outcome(exchange)
        decision = retry_decision(exchange.status, response, error_details(exchange.body) if response.error else None)
        if overlong and decision.outcome == "retry":
            decision = Decision("refused", transport_error)
        generation_id = response.response_id or attempt.header("x-generation-id")
        answered = decision.outcome == "answered"
        ended = {
            "exchange_id": generation_id if answered and generation_id and self._is_new(generation_id) else None,
            "generation_id": generation_id,
            "model": response.model or exchange.model,
            "provider": response.provider,
            "outcome": decision.outcome,
            "reason": decision.reason,
            "transport_error": transport_error,
            "cost_usd": 0.0 if never_sent else known_cost_usd(exchange.status, response),
            "ended_at": attempt.asked_at + time.monotonic() - attempt.began,
        }
        ended["exchange_id"] = ended["exchange_id"] or attempt.local_id
        self._append(ENDED, attempt, _encode(ended))
        record = ended_record(attempt, exchange, ended)
        self._note(record.exchange.exchange_id, record.prompt_id, record.request_key, record.outcome)
        return record, response

    def add_generation(self, generation_id: str, data: dict[str, Any]) -> None:
        """Keep what `/generation` said of an exchange."""
        self._generations_file.append(_encode({"generation_id": generation_id, "data": data}))

    def sync(self) -> None:
        """Make all that is noted durable. May run in another thread than the rest."""
        self._exchanges.sync()
        self._generations_file.sync()

    @property
    def size(self) -> int:
        """Bytes noted so far, of all attempts."""
        return self._exchanges.size

    def _append(self, kind: bytes, attempt: Attempt, *data: bytes) -> int:
        return self._exchanges.append(KEY.pack(kind, attempt.number), *data)

    def _body(self, attempt: Attempt) -> bytes:
        if attempt.pieces is not None:
            return b"".join(attempt.pieces)
        descriptor = os.open(self._exchanges_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _body_at(descriptor, attempt)
        finally:
            os.close(descriptor)

    def _is_new(self, exchange_id: str) -> bool:
        return exchange_id not in self._ids

    def _note(self, exchange_id: str, prompt_id: str, request_key: str, outcome: Outcome) -> None:
        self._ids.add(exchange_id)
        if outcome in SETTLED:
            self._settled.add((prompt_id, request_key))
            self._attempts.pop((prompt_id, request_key), None)

    def _recover(self) -> tuple[JournalRecord, ...]:
        index, self._known = self._index(), None  # for the sake of memory
        ended, request = index.ended.rows, ("prompt_id", "request_key", "outcome")
        self._ids.update(name for (name,) in ended("exchange_id"))
        self._settled.update((prompt, key) for prompt, key, outcome in ended(*request) if outcome in SETTLED)
        unsettled = ((prompt, key) for prompt, key, outcome in ended(*request) if outcome not in SETTLED)
        self._attempts.update(asked for asked in unsettled if asked not in self._settled)
        self._next = index.highest + 1
        descriptor = os.open(self._exchanges_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            open_attempts = [_attempt(number, entry.places, descriptor) for number, entry in index.open.items()]
        finally:
            os.close(descriptor)
        for attempt in open_attempts:
            self._attempts[attempt.prompt_id, attempt.request_key] += 1
        recovered = tuple(self._end_interrupted(attempt) for attempt in open_attempts)
        self.sync()
        return recovered

    def _end_interrupted(self, attempt: Attempt) -> JournalRecord:
        """An answer that had come whole is as good as one whose end was noted."""
        came_whole = read_outcome(attempt.exchange(None, self._body(attempt))).complete
        return self.end(attempt, None if came_whole else INTERRUPTED)


def _as_strings(values: Strings) -> pa.Array | pa.ChunkedArray:
    """As they stand in the index."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(pa.large_string())
    return pa.array(values, pa.large_string())


def _pairs(
    prompt_ids: pa.Array | pa.ChunkedArray, request_keys: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """Each request of its prompt as one string: its digest has no blank."""
    return pc.binary_join_element_wise(request_keys, prompt_ids, pa.scalar(" ", pa.large_string()))


def _attempt(number: int, places: Sequence[int], descriptor: int) -> Attempt:
    """An attempt as far as its records go."""
    attempt = Attempt(number=number, **_document(record_at(descriptor, places[0])))
    attempt.began = time.monotonic() - max(0.0, time.time() - attempt.asked_at)
    for place in places[1:]:
        payload = record_at(descriptor, place)
        if payload[:1] == PIECE:
            attempt.add(payload[_PIECE_START:], _SECONDS.unpack_from(payload, KEY.size)[0], place)
        else:
            document = _document(payload)
            attempt.status = document["status"]
            attempt.headers = tuple((key, value) for key, value in document["headers"])
    return attempt


def _document(payload: bytes) -> dict[str, Any]:
    document: dict[str, Any] = _decode(memoryview(payload)[KEY.size :])
    return document


def _body_at(descriptor: int, attempt: Attempt) -> bytes:
    """What came of an answer; the pieces of a long one are read again."""
    if attempt.pieces is not None:
        return b"".join(attempt.pieces)
    return b"".join(record_at(descriptor, place)[_PIECE_START:] for place in attempt.places)
