"""The files of an export: which rows each holds, and how they are written so that equal rows give equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eagle_assets.export_options import Format
from eagle_assets.lake.parquet import row_groups
from eagle_assets.reconstruction.workers import on_threads
from eagle_assets.training.exports.request import SPLITS, Split
from eagle_assets.training.exports.selection import ROWS_PER_BATCH, Selection
from eagle_assets.training.ragged import Lengths, Ragged

BYTES_PER_TOKEN = {"jsonl": 9, "parquet": 5}  # at most: six digits, a comma, a bit of the mask and its comma
BYTES_PER_ROW = 400

PARQUET_ROWS = pa.schema(
    [
        ("id", pa.string()),
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.uint8())),
        ("dataset", pa.string()),
        ("exchange_id", pa.string()),
        ("provider", pa.string()),
        ("verdict", pa.string()),
        ("input_ids_sha256", pa.string()),
    ]
)


@dataclass(frozen=True)
class Span:
    """Rows `start` to `stop` of a selection, as far as they are in the split of their file."""

    selection: Selection
    start: int
    stop: int


@dataclass(frozen=True)
class PlannedFile:
    """One file of rows. `bytes_at_most` bounds its size."""

    name: str
    split: Split
    spans: tuple[Span, ...]
    rows: int
    tokens: int
    generated_tokens: int
    bytes_at_most: int

    @property
    def datasets(self) -> list[str]:
        return [span.selection.dataset for span in self.spans]


@dataclass(frozen=True)
class ChosenRows:
    """Rows of one dataset as they are written, copies one after another."""

    dataset: str
    table: pa.RecordBatch
    input_ids: Ragged
    loss_mask: Ragged


def planned_files_of(selections: list[Selection], form: Format, shard_bytes: int) -> list[PlannedFile]:
    """SpecForge takes one path, so all its rows of a split are one file; the others get files for each dataset."""
    kind = "parquet" if form == "huggingface" else "jsonl"
    planned: list[PlannedFile] = []
    for split in SPLITS:
        if form == "specforge":
            spans = tuple(Span(s, 0, s.copies.size) for s in selections if s.of(split).any())
            if spans:
                planned.append(_planned(f"{split}.jsonl", split, spans, kind))
            continue
        for selection in selections:
            for number, span in enumerate(_spans(selection, split, kind, shard_bytes)):
                name = (
                    f"dataset={selection.dataset}/{split}-{number:05d}.parquet"
                    if kind == "parquet"
                    else f"{selection.dataset}-{split}-{number:05d}.jsonl"
                )
                planned.append(_planned(name, split, (span,), kind))
    return planned


def _spans(selection: Selection, split: Split, kind: str, shard_bytes: int) -> Iterator[Span]:
    sizes = _bytes_at_most(selection, split, kind)
    shard = (np.cumsum(sizes) - sizes) // shard_bytes
    taken = np.flatnonzero(sizes)
    for rows in np.split(taken, np.flatnonzero(np.diff(shard[taken])) + 1) if taken.size else []:
        yield Span(selection, int(rows[0]), int(rows[-1]) + 1)


def _bytes_at_most(selection: Selection, split: Split, kind: str) -> Lengths:
    row = selection.lengths * BYTES_PER_TOKEN[kind] + BYTES_PER_ROW
    return np.where(selection.of(split), selection.copies * row, 0)


def _planned(name: str, split: Split, spans: tuple[Span, ...], kind: str) -> PlannedFile:
    def total(of: Callable[[Selection], Lengths]) -> int:
        return sum(int(np.where(s.selection.of(split), of(s.selection), 0)[s.start : s.stop].sum()) for s in spans)

    return PlannedFile(
        name,
        split,
        spans,
        rows=total(lambda s: s.copies),
        tokens=total(lambda s: s.copies * s.lengths),
        generated_tokens=total(lambda s: s.copies * s.generated),
        bytes_at_most=total(lambda s: _bytes_at_most(s, split, kind)),
    )


def rows_of(file: PlannedFile) -> Iterator[ChosenRows]:
    """The rows of a file in order, a batch at a time; the next is read while one is written."""
    for span in file.spans:
        copies = np.where(span.selection.of(file.split), span.selection.copies, 0)
        chosen = on_threads(partial(_chosen_of_batch, span, copies), _batches(span))
        yield from (rows for rows in chosen if rows is not None)


def _chosen_of_batch(span: Span, of_selection: Lengths, placed: tuple[int, pa.RecordBatch]) -> ChosenRows | None:
    first, batch = placed
    begin, end = max(first, span.start), min(first + batch.num_rows, span.stop)
    copies = of_selection[begin:end]
    return _chosen(span.selection, batch.slice(begin - first, end - begin), begin, copies) if copies.any() else None


def _batches(span: Span) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of the shards that touch the span, each with the number of its first row."""
    first = 0
    for path in span.selection.published.paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if first < span.stop and first + rows > span.start:
                    at = first
                    for batch in file.iter_batches(ROWS_PER_BATCH, row_groups=[group]):
                        if at < span.stop and at + batch.num_rows > span.start:
                            yield at, batch
                        at += batch.num_rows
                first += rows


def _chosen(selection: Selection, batch: pa.RecordBatch, begin: int, copies: Lengths) -> ChosenRows:
    rows = np.repeat(np.arange(copies.size), copies)
    lengths = selection.lengths[begin + rows]
    nth = np.arange(rows.size) - np.repeat(np.cumsum(copies) - copies, copies)
    ids = [
        f"{name}#{n + 1}" if n else name
        for name, n in zip(batch["id"].take(pa.array(rows)).to_pylist(), nth, strict=True)
    ]
    written = {name: _first(Ragged.from_arrow(batch[name]), rows, lengths) for name in ("input_ids", "loss_mask")}
    table = pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.string()),
            *(pa.ListArray.from_arrays(pa.array(w.offsets, pa.int32()), pa.array(w.values)) for w in written.values()),
            *(batch[name].take(pa.array(rows)) for name in ("dataset", "exchange_id", "provider", "verdict")),
            pa.array([digest.tobytes().hex() for digest in selection.digests[begin + rows]], pa.string()),
        ],
        schema=PARQUET_ROWS,
    )
    return ChosenRows(selection.dataset, table, written["input_ids"], written["loss_mask"])


def _first(column: Ragged, rows: npt.NDArray[np.int64], lengths: Lengths) -> Ragged:
    """The first `lengths[i]` values of row `rows[i]`, for each i."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.repeat(column.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged(column.values[positions], offsets)


def write_jsonl(path: Path, batches: Iterator[ChosenRows]) -> None:
    """A line `{"id", "input_ids", "loss_mask"}` for each row."""
    with path.open("wb") as file:
        for chosen in batches:
            file.writelines(_lines(chosen))


def _lines(chosen: ChosenRows) -> Iterator[bytes]:
    ids, encode = chosen.input_ids, msgspec.json.encode
    bits = np.full(2 * chosen.loss_mask.values.size, ord(","), dtype=np.uint8)
    bits[::2] = chosen.loss_mask.values + ord("0")
    mask = bits.tobytes()
    bounds = ids.offsets.tolist()
    for name, begin, end in zip(chosen.table["id"].to_pylist(), bounds, bounds[1:], strict=False):
        yield b'{"id":%b,"input_ids":%b,"loss_mask":[%b]}\n' % (
            encode(name),
            encode(ids.values[begin:end].tolist()),
            mask[2 * begin : 2 * end - 1],
        )


def write_parquet(path: Path, batches: Iterator[ChosenRows]) -> None:
    """The rows with where each came from beside its ids."""
    with pq.ParquetWriter(path, PARQUET_ROWS, compression="zstd") as writer:
        for row_group in row_groups(chosen.table for chosen in batches):
            writer.write_table(row_group)
