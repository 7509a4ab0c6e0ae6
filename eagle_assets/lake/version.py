"""Write, audit, publish: a new version of a stage is written aside and becomes visible with its audit record."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from eagle_assets import __version__
from eagle_assets.durability import sync_folder, write_atomically
from eagle_assets.lake.audit import Audit, Check, File, GateClosed, Published, Record, read_record, sha256_of
from eagle_assets.lake.code import WHOLE, digest_of_code
from eagle_assets.lake.home import AUDIT_FILE, Home
from eagle_assets.lake.parquet import ROWS_PER_BATCH, batches_of, made_ahead, repeating, row_groups

PART_ROWS = 2_048
_PART = re.compile(r"part-(\d+)\.parquet")


@dataclass(slots=True)
class _Told:
    """What the stage says of a file that it wrote."""

    recipe: str = ""
    counts: Mapping[str, float] = field(default_factory=dict)
    passes_on: str = ""


class NewVersion:
    """A version of one stage of one dataset that is being made. Made by `new_version`, ended by `audit`.

    Its files are written aside, or kept: taken from the last good version as they are. `files` are in order.
    """

    def __init__(self, home: Home, stage: str, dataset: str | None, run_id: str) -> None:
        self.home, self.stage, self.dataset, self.run_id = home, stage, dataset, run_id
        self.folder = home.staging(stage, dataset, run_id)
        self.last_good = last_good(home, stage, dataset)
        self._files: dict[str, _Told | File] = {}

    @property
    def files(self) -> list[str]:
        """The files of this version by the names that they are written as, in the order in which they came."""
        return list(self._files)

    def write_rows(self, name: str, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write rows as Parquet; memory is that of two row groups.

        Raises pyarrow.ArrowInvalid where a row does not fit.
        """
        stream = iter(rows)
        batches = iter(lambda: list(islice(stream, ROWS_PER_BATCH)), [])
        made = (pa.RecordBatch.from_pylist(batch, schema=schema) for batch in batches)
        return self.write_batches(name, schema, made_ahead(row_groups(made)))

    def write_parts(self, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write rows as Parquet files of at most PART_ROWS, beside what is kept. Returns their names."""
        stream, written = iter(rows), []
        while first := list(islice(stream, 1)):
            written.append(self.next_part())
            self.write_rows(written[-1], schema, chain(first, islice(stream, PART_ROWS - 1)))
        return written

    def next_part(self) -> str:
        """The name of a part beside those that are there."""
        number = 1 + max((int(digits[1]) for name in self._files if (digits := _PART.fullmatch(name))), default=-1)
        return f"part-{number:05d}.parquet"

    def write_batches(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table]) -> Path:
        """Write batches or tables of `schema` as one Parquet file. Returns where it lies aside.

        A file of this name that was written before is replaced, and may be read meanwhile.
        """
        path = self.folder / name
        unfinished = path.with_suffix(".unfinished")
        with pq.ParquetWriter(unfinished, schema, compression="zstd", use_dictionary=repeating(schema)) as writer:
            for row_group in row_groups(batches):
                writer.write_table(row_group)
        unfinished.replace(path)
        self.add(path)
        return path

    def write_json(self, name: str, value: Any) -> Path:
        """Write a value as one JSON file."""
        path = self.folder / name
        path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2))
        self.add(path)
        return path

    def add(self, *paths: Path) -> None:
        """Take files that were written into `folder` into this version; what was told of them before stays."""
        for path in paths:
            name = str(path.relative_to(self.folder))
            if not isinstance(self._files.get(name), _Told):
                self._files[name] = _Told()

    def tell(self, name: str, recipe: str, counts: Mapping[str, float] | None = None, passes_on: str = "") -> None:
        """Say of a file what a `File` says of it; also before it is written, where it is to stand at this place among
        the files."""
        self._files[name] = _Told(recipe, counts or {}, passes_on)

    def passed_on(self) -> list[str]:
        """What each file passes on to the next stage, in order."""
        return [told.passes_on for told in self._files.values()]

    def forget(self) -> None:
        """Take nothing of what was written or kept so far."""
        self._files.clear()

    def keep(self, file: File) -> bool:
        """Take a file of the last good version as it is; False where it is no longer what was published."""
        if file.written_as in self._files or not self.is_there(file):
            return False
        self._files[file.written_as] = file
        return True

    def is_there(self, file: File) -> bool:
        """Whether a file of the last good version is still what was published."""
        path = self.published(file)
        return path.is_file() and sha256_of(path) == file.sha256

    def keep_made_from(self, recipe: str) -> File | None:
        """Keep the file of the last good version that was made from the same; None where there is none."""
        files = self.last_good.files if self.last_good is not None else ()
        return next((file for file in files if file.recipe == recipe and self.keep(file)), None)

    def path(self, name: str) -> Path:
        """Where a file of this version lies now."""
        file = self._files.get(name)
        return self.published(file) if isinstance(file, File) else self.folder / name

    def batches(self, name: str | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """A Parquet file of this version, or all of them in order, read back from the disk, as an audit should."""
        for each in self.files if name is None else [name]:
            yield from batches_of(self.path(each), columns)

    def rows(self, name: str | None = None, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """As `batches`, row by row."""
        for batch in self.batches(name, columns):
            yield from batch.to_pylist()

    def audit(
        self,
        checks: Sequence[Check],
        inputs: Iterable[Published] = (),
        counts: Mapping[str, float] | None = None,
        identity: str | None = None,
        vocabulary: str | None = None,
    ) -> Audit:
        """Publish this version if all checks passed; else leave the last good one in place and close its gate.

        `identity` is what the stages downstream depend on; by default that is the content of the files.
        """
        files = tuple(told if isinstance(told, File) else self._file(name, told) for name, told in self._files.items())
        audit = Audit(
            stage=self.stage,
            dataset=self.dataset,
            passed=all(check.passed for check in checks),
            identity=identity or hashlib.sha256("".join(f.sha256 for f in files).encode()).hexdigest(),
            files=files,
            inputs=tuple(published.as_input for published in inputs),
            checks=tuple(checks),
            counts=dict(counts or {}),
            code_version=f"{__version__}+{digest_of_code(WHOLE)}",
            vocabulary=vocabulary,
            run_id=self.run_id,
            time=datetime.now(UTC).isoformat(),
        )
        self._remember(audit)  # first, so that whatever is published has its row
        if audit.passed:
            self._publish(audit)
        else:
            self._record(Record(last_good(self.home, self.stage, self.dataset), failed=audit))
        return audit

    def published(self, file: File) -> Path:
        """Where a file of the last good version lies."""
        return self.home.folder(self.stage, self.dataset) / file.name

    def _file(self, written: str, told: _Told) -> File:
        """The file under the name that it will be published by: its own and its content's."""
        path = self.folder / written
        digest = sha256_of(path)
        rows = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else 0
        published = path.rename(path.with_name(f"{path.stem}-{digest[:12]}{path.suffix}"))
        size = published.stat().st_size
        return File(published.name, written, digest, size, rows, told.recipe, dict(told.counts), told.passes_on)

    def _publish(self, audit: Audit) -> None:
        target = self.home.folder(self.stage, self.dataset)
        target.mkdir(parents=True, exist_ok=True)
        for file in audit.files:
            if isinstance(self._files[file.written_as], File):
                continue
            with (self.folder / file.name).open("rb") as written:
                os.fsync(written.fileno())
            os.replace(self.folder / file.name, target / file.name)
        sync_folder(target)
        self._record(Record(published=audit))
        remove_superseded(self.home, self.stage, self.dataset, audit)

    def _record(self, record: Record) -> None:
        data = msgspec.json.format(msgspec.json.encode(record), indent=2)
        write_atomically(self.home.audit(self.stage, self.dataset), data)

    def _remember(self, audit: Audit) -> None:
        name = f"{audit.time}-{audit.stage}-{audit.dataset or 'all'}-{uuid.uuid4().hex[:6]}.json"
        write_atomically(self.home.history / name.replace(":", ""), msgspec.json.encode(audit))


@contextmanager
def new_version(home: Home, stage: str, dataset: str | None = None, run_id: str | None = None) -> Iterator[NewVersion]:
    """Begin a new version, alone on this machine for this stage and dataset; what is written aside goes at the end."""
    with home.locked(stage, dataset):
        published = last_good(home, stage, dataset)
        if published is not None:
            remove_superseded(home, stage, dataset, published)
        version = NewVersion(home, stage, dataset, run_id or uuid.uuid4().hex)
        shutil.rmtree(version.folder.parent, ignore_errors=True)  # of runs that were killed
        version.folder.mkdir(parents=True)
        try:
            yield version
        finally:
            shutil.rmtree(version.folder, ignore_errors=True)


def last_good(home: Home, stage: str, dataset: str | None) -> Audit | None:
    """The version published last, also where a later audit failed; None where there is none to be read."""
    try:
        return read_record(home, stage, dataset).published
    except GateClosed:
        return None


def remove_superseded(home: Home, stage: str, dataset: str | None, published: Audit) -> None:
    """Remove every file of a stage that its published version does not name."""
    keep = {AUDIT_FILE, *(file.name for file in published.files)}
    for path in home.folder(stage, dataset).iterdir():
        if path.is_file() and path.name not in keep:
            path.unlink(missing_ok=True)
