"""Shards file by file, each made from one file of sequences: what would come out the same stays as it is.

The audit of the sequences says what each of their files passes on, so that one that passes on the same is not read
again. How long the rows of its shards are is kept beside it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eagle_assets.durability import write_atomically
from eagle_assets.lake.audit import Check, File, Published
from eagle_assets.lake.code import digest_of_code
from eagle_assets.lake.kept import Part, forget_others, parts_of
from eagle_assets.lake.parquet import ROWS_PER_BATCH, whole_table
from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.lake.version import NewVersion
from eagle_assets.reconstruction.workers import on_threads
from eagle_assets.training.ragged import Ragged
from eagle_assets.training.shard_checks import ShardsFound
from eagle_assets.training.shards import SEQUENCE_COLUMNS, is_trusted, shard_batches

_CODE = ("training/shards.py", "training/shard_checks.py", "training/shard_parts.py", "training/ragged.py")
_IDS, _STRINGS = ("prompt_ids", "output_ids"), ("exchange_id", "provider", "verdict")
_LEFT_OUT = "left_out_"
_KEPT = "shards"


@dataclass(frozen=True, slots=True)
class Shards:
    """The checks of a version, what it counts (tokens, and rows that were left out by reason), and the tokens of each
    row, prompt and output."""

    checks: list[Check]
    counts: dict[str, float]
    row_tokens: list[int]


@dataclass(frozen=True, slots=True)
class _Task:
    """A file of sequences, what its shards are made from, and these where they are there already."""

    part: Part
    recipe: str
    there: File | None


@dataclass(frozen=True, slots=True)
class _Made:
    """The shards of a file of sequences: what was found in them, what they count, and the tokens of each row."""

    found: ShardsFound
    counts: dict[str, float]
    row_tokens: list[int]


def digest_for_shards(sequences: Iterable[pa.RecordBatch]) -> str:
    """A digest of all that becomes of the rows in the shards: of those that are not trusted, how many there are."""
    digests = {part: hashlib.sha256() for part in ("verdicts", "rows", *_IDS, *(f"{ids} lengths" for ids in _IDS))}
    for batch in sequences:
        digests["verdicts"].update("".join(f"{verdict}\n" for verdict in batch["verdict"].to_pylist()).encode())
        trusted = np.flatnonzero(is_trusted(batch["verdict"]))
        rows = zip(*(batch[column].take(pa.array(trusted)).to_pylist() for column in _STRINGS), strict=True)
        digests["rows"].update("".join(f"{row}\n" for row in rows).encode())
        for name in _IDS:
            ragged = Ragged.from_arrow(batch[name])
            of_rows = ragged.rows()
            for row in trusted.tolist():
                digests[name].update(of_rows[row].astype(np.int32, copy=False).data)
            digests[f"{name} lengths"].update(ragged.lengths[trusted].data)
    return hashlib.sha256("".join(digest.hexdigest() for digest in digests.values()).encode()).hexdigest()


def write_shards(version: NewVersion, sequences: Published, dataset: str, vocabulary_size: int) -> Shards:
    """Make the shards of every file of sequences that passes on something else than before, and keep the others."""
    found, left_out, row_tokens = ShardsFound(), Counter[str](), list[int]()
    tasks = [_task(version, part, dataset) for part in parts_of(sequences, _KEPT, digest_of_code(_CODE))]
    make = partial(_made, version, dataset, vocabulary_size)
    for task, made in zip(tasks, on_threads(make, tasks), strict=True):
        found.add(made.found)
        row_tokens += made.row_tokens
        left_out.update({name: int(count) for name, count in made.counts.items() if name.startswith(_LEFT_OUT)})
        if task.there is None:
            version.tell(task.part.file.written_as, task.recipe, made.counts)
            write_atomically(task.part.kept, msgspec.json.encode(made.row_tokens))
    checks = found.checks()
    if all(check.passed for check in checks):
        forget_others(version.home, _KEPT, dataset, (task.part for task in tasks))
    counts = {"tokens": found.tokens, "generated_tokens": found.generated_tokens}
    return Shards(checks, {**counts, **left_out}, row_tokens)


def _task(version: NewVersion, part: Part, dataset: str) -> _Task:
    name, passed_on = part.file.written_as, part.file.passes_on or digest_for_shards(_read(part).to_batches())
    recipe = hashlib.sha256(repr((name, dataset, digest_of_code(_CODE), passed_on)).encode()).hexdigest()
    there = version.keep_made_from(recipe)
    if there is None:
        version.tell(name, recipe)  # its place among the files
    return _Task(replace(part, kept=part.kept.with_name(recipe[:24])), recipe, there)


def _made(version: NewVersion, dataset: str, vocabulary_size: int, task: _Task) -> _Made:
    name, found = task.part.file.written_as, ShardsFound()
    if task.there is not None:
        found.add_good(task.there.counts)
        return _Made(found, task.there.counts, _kept_lengths(task.part) or _lengths(_written(version, name)))
    left_out: Counter[str] = Counter()
    sequences = _read(task.part)
    rows = shard_batches(sequences.to_batches(ROWS_PER_BATCH), dataset, vocabulary_size, left_out)
    version.write_batches(name, TRAINING_SHARDS, rows)
    written = _written(version, name)
    found.compare(
        lambda columns: iter(written.select(columns).to_batches(ROWS_PER_BATCH)),
        lambda columns: iter(sequences.select(columns).to_batches(ROWS_PER_BATCH)),
        vocabulary_size,
    )
    counts = {**found.counts, **{f"{_LEFT_OUT}{reason}": count for reason, count in left_out.items()}}
    return _Made(found, counts, _lengths(written))


def _kept_lengths(part: Part) -> list[int] | None:
    try:
        return msgspec.json.decode(part.kept.read_bytes(), type=list[int])
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _lengths(shards: pa.Table) -> list[int]:
    lengths: list[int] = pc.list_value_length(shards["input_ids"]).to_pylist()
    return lengths


def _read(part: Part) -> pa.Table:
    with pq.ParquetFile(part.path, pre_buffer=False) as file:
        return whole_table(file, SEQUENCE_COLUMNS)


def _written(version: NewVersion, name: str) -> pa.Table:
    return pa.Table.from_batches(version.batches(name), TRAINING_SHARDS)
