"""Scores on disk: what the judge once said is never asked again, whatever ended the process.

It is a file of records as the journal of collection is made of: a record holds a question's key, its scores, and what
the server answered, byte for byte, compressed; so both are there or neither.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from eagle_assets.judge.questions import Question, Scores
from eagle_assets.openrouter.record_file import JournalError, RecordFile, placed_records, record_at

_KEY_BYTES = 16
_FASTEST = 1  # of compression
_HEAD = struct.Struct("<16sII")  # the question's key, output tokens, width of `top`


class ScoreFile:
    """The scores of one judge, in `folder`; one process at a time. In memory is a place for each question only.

    The first record names the judge. A score is with the operating system before `put` returns, so that it outlives a
    kill of this process. Use as a context manager.
    """

    def __init__(self, folder: Path, judge: str) -> None:
        """Raises JournalError where another process has it, or it cannot be written."""
        path = folder / f"{hashlib.sha256(judge.encode()).hexdigest()[:16]}.answers.records"
        self._lock = _locked(path)
        try:
            self._file = RecordFile.open(path)
            self.damage = self._file.damage
            self._places: dict[bytes, int] = {}
            records = placed_records(path)
            if next(records, None) is None:
                self._file.append(msgspec.json.encode({"judge": judge}))
            self._places.update((payload[:_KEY_BYTES], place) for place, payload in records)
            self._reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> ScoreFile:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as closing:  # each, whatever becomes of the others; the lock last
            closing.callback(self._lock.close)
            closing.callback(os.close, self._reader)
            closing.callback(self._file.close)

    def __contains__(self, question: Question) -> bool:
        return question.key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def get(self, question: Question) -> Scores | None:
        """None where it was not asked yet, or refused."""
        place = self._places.get(question.key)
        if place is None:
            return None
        payload = record_at(self._reader, place)
        _, tokens, width = _HEAD.unpack_from(payload)
        values = np.frombuffer(payload, dtype="<f4", count=tokens * (1 + width), offset=_HEAD.size)
        answer = zlib.decompress(payload[_HEAD.size + values.nbytes :])
        return Scores(values[:tokens], values[tokens:].reshape(tokens, width), answer)

    def put(self, question: Question, scores: Scores) -> None:
        head = _HEAD.pack(question.key, *scores.top.shape)
        answer = zlib.compress(scores.answer, _FASTEST)
        self._places[question.key] = self._file.append(head, scores.tokens.tobytes(), scores.top.tobytes(), answer)

    def sync(self) -> None:
        """Make all of it outlive the machine's power too."""
        self._file.sync()


def _locked(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("a")
    except OSError as error:
        raise JournalError(f"cannot write to {path.parent}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise JournalError(f"another process is asking the judge into {path}; let it end, then run again") from None
    return lock
