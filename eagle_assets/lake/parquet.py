"""Parquet files read and written a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_BATCH = 256
ROW_GROUP_BYTES = 8_000_000

Item = TypeVar("Item")


def batches_of(
    source: Path | BinaryIO, columns: Sequence[str] | None = None, size: int = ROWS_PER_BATCH
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in order, at most `size` at a time; all columns, or these."""
    with pq.ParquetFile(source, pre_buffer=False) as file:  # a buffer would keep all that was read
        yield from file.iter_batches(size, columns=None if columns is None else list(columns))


def rows_at(batches: Iterable[pa.RecordBatch], places: npt.NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """The rows at these ascending places among all rows of the batches."""
    first = 0
    for batch in batches:
        here = places[(places >= first) & (places < first + batch.num_rows)] - first
        if here.size:
            yield from batch.take(pa.array(here)).to_pylist()
        first += batch.num_rows


def repeating(schema: pa.Schema) -> list[str]:
    """The columns worth a dictionary. Ids hardly repeat within a page: without one they take less room and time."""
    return [field.name for field in schema if field.type != pa.list_(pa.int32())]


def row_groups(batches: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[pa.Table]:
    """Batches in order, put together to tables of at least ROW_GROUP_BYTES.

    A file keeps something for each of its row groups: one for each small batch would make memory grow with the rows.
    """
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch)
        if sum(table.nbytes for table in waiting) >= ROW_GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def made_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; each is made on a thread while the one before it is being used."""
    made, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, made, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, made, end)
            yield cast(Item, item)


def whole_table(file: pq.ParquetFile, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a file, read in batches: Arrow takes several times as long to make one long list of ids grow."""
    schema = file.schema_arrow
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    batches = file.iter_batches(ROWS_PER_BATCH, columns=None if columns is None else list(columns), use_threads=False)
    return pa.Table.from_batches((batch.select(wanted.names) for batch in batches), wanted)
