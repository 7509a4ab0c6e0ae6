"""The journal: every exchange with the server as it comes in, byte for byte, safe against kill −9 at any instant.

One folder for each dataset, with one writer at a time. `exchanges.records` holds, for each attempt, that it was asked,
how the answer began, its pieces as they arrived, and how it ended; attempts lie interleaved. `generations.records`
holds what `/generation` said later. `exchanges.index` and `exchanges.places` only save time.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from eagle_assets.openrouter.attempts import Attempt, JournalRecord, ended_record
from eagle_assets.openrouter.decisions import Decision, Outcome, known_cost_usd, retry_decision
from eagle_assets.openrouter.hashed_set import HashedSet
from eagle_assets.openrouter.journal_index import ASKED, BEGAN, ENDED, KEY, PIECE, JournalIndex
from eagle_assets.openrouter.journal_reader import SECONDS, SETTLED, JournalReader, Strings, attempt_at, body_at
from eagle_assets.openrouter.outcome import error_details, read_outcome
from eagle_assets.openrouter.record_file import Damage, JournalError, RecordFile
from eagle_assets.openrouter.response import Response

INTERRUPTED = "interrupted: the process ended before the answer did"

_encode = msgspec.json.encode


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
        self._ids, self._settled = HashedSet(), HashedSet()
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
        place = self._append(PIECE, attempt, SECONDS.pack(seconds), piece)
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
            return body_at(descriptor, attempt)
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
            open_attempts = [attempt_at(number, entry.places, descriptor) for number, entry in index.open.items()]
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
