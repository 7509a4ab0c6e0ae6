"""The gate in the data: what a stage has published, what its checks said, and who may read it.

The record beside the files of a stage is the commit. It names the files of the last good version with their
hashes, and, where a later audit failed, that failure too: until a good version is published, the gate is closed.
Dagster's definitions load this room, so pyarrow is imported where it is used.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from eagle_assets.lake.home import Home

if TYPE_CHECKING:
    import pyarrow as pa


_CLOCK_TICK_NS = 2_000_000_000
"""Changes so far apart are noted with different times on every file system."""


class GateClosed(Exception):
    """A stage may not be read: it has no good and current audit. The message names the check or the reason."""


class Check(msgspec.Struct, frozen=True):
    """One check of an audit: what it found in a sentence, in numbers, and in its worst offenders."""

    name: str
    passed: bool
    sentence: str
    numbers: dict[str, float] = {}
    worst: tuple[dict[str, Any], ...] = ()


class File(msgspec.Struct, frozen=True):
    """A published file, `name` within the folder of its stage and dataset; `written_as` is that without its digest.

    Where its stage says so, `recipe` is a digest of all that it was made from (equal recipes make equal files), and
    `passes_on` one of what the next stage takes of it. `counts` are its share of the version's counts.
    """

    name: str
    written_as: str
    sha256: str
    bytes: int
    rows: int
    recipe: str = ""
    counts: dict[str, float] = {}
    passes_on: str = ""


class Input(msgspec.Struct, frozen=True):
    """An upstream version that this one was made from."""

    stage: str
    dataset: str | None
    identity: str


class Audit(msgspec.Struct, frozen=True):
    """The outcome of one audit. `identity` is what versions downstream depend on: it changes when the content does."""

    stage: str
    dataset: str | None
    passed: bool
    identity: str
    files: tuple[File, ...]
    inputs: tuple[Input, ...]
    checks: tuple[Check, ...]
    counts: dict[str, float]
    code_version: str
    vocabulary: str | None
    run_id: str
    time: str  # ISO 8601, UTC

    @property
    def failed_checks(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class Record(msgspec.Struct, frozen=True):
    """What lies in `_audit.json`: the last good version, and the audit that failed since, if one did."""

    published: Audit | None = None
    failed: Audit | None = None


class Published(msgspec.Struct, frozen=True):
    """A version that passed its audit and may be read."""

    home: Home
    audit: Audit

    def __hash__(self) -> int:
        return hash((self.home, self.as_input))

    @property
    def paths(self) -> list[Path]:
        folder = self.home.folder(self.audit.stage, self.audit.dataset)
        return [folder / file.name for file in self.audit.files]

    def path(self, written_as: str) -> Path:
        """Where the file lies that was written under this name, such as `d2t.npy`."""
        name = next(file.name for file in self.audit.files if file.written_as == written_as)
        return self.home.folder(self.audit.stage, self.audit.dataset) / name

    @property
    def as_input(self) -> Input:
        return Input(self.audit.stage, self.audit.dataset, self.audit.identity)

    def batches(self, columns: Sequence[str] | None = None, size: int = 1_024) -> Iterator[pa.RecordBatch]:
        """Rows of the Parquet files in order, at most `size` at a time."""
        from eagle_assets.lake.parquet import batches_of

        for path in self.paths:
            yield from batches_of(path, columns, size)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at once; for stages that fit into memory."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pa.concat_tables([pq.read_table(path, columns=columns and list(columns)) for path in self.paths])

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        for batch in self.batches(columns):
            yield from batch.to_pylist()


def read_record(home: Home, stage: str, dataset: str | None = None) -> Record:
    """The record of a stage; an empty one where nothing was ever audited. Raises GateClosed where it is damaged."""
    path = home.audit(stage, dataset)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return Record()
    except msgspec.DecodeError as error:
        raise GateClosed(f"{path} is damaged ({error}); materialise {called(stage, dataset)} again") from None


def require(home: Home, stage: str, dataset: str | None = None) -> Published:
    """The current good version of a stage, its files hashed again, and everything it was made from looked at.

    Raises GateClosed where the stage was never published, where a later audit of it or of anything upstream
    failed, where it was made from a version that is no longer the current one, or where a file changed.
    """
    audit = require_current(home, stage, dataset)
    folder = home.folder(stage, dataset)
    for file in audit.files:
        path = folder / file.name
        if not path.is_file():
            raise GateClosed(f"{path} is missing; materialise {called(stage, dataset)} again")
        if sha256_of(path) != file.sha256:
            raise GateClosed(f"{path} changed after its audit; materialise {called(stage, dataset)} again")
    return Published(home, audit)


def require_all(home: Home, stage: str, datasets: Iterable[str]) -> tuple[list[Published], list[str]]:
    """The datasets of a stage that may be read, and for each of the others the sentence that refuses it."""
    published, refused = [], []
    for dataset in datasets:
        try:
            published.append(require(home, stage, dataset))
        except GateClosed as error:
            refused.append(str(error))
    return published, refused


def require_current(home: Home, stage: str, dataset: str | None = None) -> Audit:
    """As `require`, without hashing the files."""
    record = read_record(home, stage, dataset)
    name = called(stage, dataset)
    if record.failed is not None:
        failures = "; ".join(f"{check.name} failed: {check.sentence}" for check in record.failed.failed_checks)
        when = datetime.fromisoformat(record.failed.time).strftime("%Y-%m-%d %H:%M UTC")
        raise GateClosed(f"{name} did not pass its audit of {when}: {failures}")
    if record.published is None:
        raise GateClosed(f"{name} has no audit; materialise it first")
    for made_from in record.published.inputs:
        upstream = require_current(home, made_from.stage, made_from.dataset)
        if upstream.identity != made_from.identity:
            raise GateClosed(
                f"{name} was made from a version of {called(made_from.stage, made_from.dataset)} that is no longer "
                f"the current one; materialise {name} again"
            )
    return record.published


def read_history(home: Home) -> list[Audit]:
    """Every audit that ever ended, oldest first."""
    return [msgspec.json.decode(path.read_bytes(), type=Audit) for path in sorted(home.history.glob("*.json"))]


def called(stage: str, dataset: str | None) -> str:
    """How a message names a stage of a dataset."""
    return f"{stage} of {dataset}" if dataset is not None else stage


def sha256_of(path: Path) -> str:
    """The digest of a file's content. One that nothing has changed since this process hashed it, by all that the system
    notes of it, is not read again."""
    noted = path.stat()
    if time.time_ns() - noted.st_ctime_ns < _CLOCK_TICK_NS:
        return _hashed(path)
    return _hashed_as_noted(path, noted.st_dev, noted.st_ino, noted.st_size, noted.st_mtime_ns, noted.st_ctime_ns)


@lru_cache(maxsize=1 << 14)
def _hashed_as_noted(path: Path, *noted: int) -> str:
    return _hashed(path)


def _hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
