"""What was found of outputs, on disk: scores are read, and variants looked for, once for an output and a judge.

Each is named after the ids and the sampling that it is about, and the file after the judge and the code that found it.
It follows from the scores, so that it may go at any time.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from eagle_assets.judge.surprise import Surprise, Trial
from eagle_assets.lake.code import digest_of_code
from eagle_assets.openrouter.record_file import RecordFile, placed_records, record_at

_CODE = ("judge/variants.py", "judge/surprise.py", "judge/nucleus.py", "targets")
_PACKAGES = ("splintr-rs",)
_KEY_BYTES = 16


class SurpriseFile:
    """The surprises that were found with one judge, in `folder`; whoever has its scores is the one writer. In memory is
    a place for each output only. Use as a context manager; raises JournalError."""

    def __init__(self, folder: Path, judge: str) -> None:
        of_judge = f"{hashlib.sha256(judge.encode()).hexdigest()[:16]}.surprises"
        path = folder / f"{of_judge}-{digest_of_code(_CODE, _PACKAGES)}.records"
        for other in folder.glob(f"{of_judge}-*"):  # of other code
            if other != path:
                other.unlink(missing_ok=True)
        self._file = RecordFile.open(path)
        self._places = {payload[:_KEY_BYTES]: place for place, payload in placed_records(path)}
        self._reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> SurpriseFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        os.close(self._reader)

    def get(self, trial: Trial) -> Surprise | None:
        place = self._places.get(_key(trial))
        if place is None:
            return None
        return msgspec.msgpack.decode(record_at(self._reader, place)[_KEY_BYTES:], type=Surprise)

    def put(self, trial: Trial, found: Surprise) -> None:
        key = _key(trial)
        self._places[key] = self._file.append(key, msgspec.msgpack.encode(found))


def _key(trial: Trial) -> bytes:
    sampling = msgspec.msgpack.encode(trial.sampling)
    return hashlib.blake2b(trial.question.key + sampling, digest_size=_KEY_BYTES).digest()
