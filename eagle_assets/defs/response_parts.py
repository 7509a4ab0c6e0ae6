"""The files of `raw_responses`: what was published stays as it is, what is new comes beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eagle_assets.defs.collection_checks import (
    differing_rows,
    every_prompt_is_explained,
    fingerprint,
    nothing_lost,
)
from eagle_assets.lake.audit import Check, File
from eagle_assets.lake.schemas import RAW_RESPONSES
from eagle_assets.lake.version import PART_ROWS, NewVersion
from eagle_assets.openrouter.client import CollectionSummary
from eagle_assets.openrouter.journal_reader import JournalReader, open_journal
from eagle_assets.reconstruction.stored import StrayOf, row_of_record
from eagle_assets.reconstruction.workers import on_threads

MOST_SMALL_PARTS = 64
"""Files that are not full from which on they are put together. What was found in their responses is then found anew."""

_TELLING = ["exchange_id", "outcome", "model", "provider", "stray", "cost_usd", "generation"]


def keep_parts(version: NewVersion, journal: JournalReader, stray_of: StrayOf) -> pa.ChunkedArray:
    """Keep every part whose rows are still what the journal says of their exchanges, and routing of whose they are;
    returns the ids of these."""
    files = _worth_keeping(version)
    parts = [pq.read_table(version.published(file), columns=_TELLING) for file in files]
    ids = pa.chunked_array([part["exchange_id"].combine_chunks() for part in parts], pa.string())
    ended = np.split(journal.has_ended(ids), np.cumsum([part.num_rows for part in parts])[:-1])
    told_later = pa.array(journal.told_later(), pa.string())
    kept = []
    for file, rows, still_there in zip(files, parts, ended, strict=False):
        unknown = rows.filter(pc.and_(pc.is_null(rows["cost_usd"]), pc.is_null(rows["generation"])))
        settled_since = pc.any(pc.is_in(unknown["exchange_id"], told_later), min_count=0).as_py()
        answers = rows.filter(pc.equal(rows["outcome"], "answered")).select(["model", "provider", "stray"])
        by_whom = answers.group_by(answers.column_names).aggregate([]).to_pylist()
        moved = any(stray_of(each["model"], each["provider"]) != each["stray"] for each in by_whom)
        if still_there.all() and not settled_since and not moved and version.keep(file):
            kept += rows["exchange_id"].chunks
    return pa.chunked_array(kept, pa.string())


def write_collected(
    version: NewVersion,
    name: str,
    prompt_ids: pa.ChunkedArray,
    summary: CollectionSummary,
    stray_of: StrayOf,
    changed: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: row,
) -> Check:
    """Write every exchange of a dataset's journal, `changed`, that is not in a part that is kept. Returns the check
    that nothing is lost. `stray_of` says why an answer may not be used.

    New rows are in the order of the prompts, so that they do not depend on when each answer came.
    """
    journal = open_journal(version.home.root, name)
    known, read = keep_parts(version, journal, stray_of), list[tuple[str, bytes]]()

    def rows() -> Iterator[dict[str, Any]]:
        for record in journal.read(prompt_ids, known):
            read.append(fingerprint(record.exchange.exchange_id, record.exchange.body))
            yield changed(row_of_record(record, name, stray_of))

    new = version.write_parts(RAW_RESPONSES, rows())
    explained = every_prompt_is_explained(prompt_ids, version.batches(columns=["prompt_id", "outcome"]), summary)

    def written(part: str) -> list[tuple[str, bytes]]:
        rows = version.rows(part, ["exchange_id", "body"])
        return [fingerprint(row["exchange_id"], row["body"]) for row in rows]

    return nothing_lost(explained, differing_rows(read, chain.from_iterable(on_threads(written, new))))


def write_local(version: NewVersion, rows: Iterable[dict[str, Any]]) -> None:
    """Write the rows of a local dataset; parts that hold the file's first rows, byte for byte, are kept."""
    stream: Iterator[dict[str, Any]] = iter(rows)
    for file in _worth_keeping(version):
        columns = _read(version, file, ["exchange_id", "body"])
        ahead = list(islice(stream, file.rows))
        same = [(row["exchange_id"], row["body"]) for row in ahead] == list(zip(*columns.values(), strict=True))
        if not same or not version.keep(file):
            stream = chain(ahead, stream)
            break
    version.write_parts(RAW_RESPONSES, stream)


def _worth_keeping(version: NewVersion) -> list[File]:
    files = version.last_good.files if version.last_good is not None else ()
    there = [file for file in files if version.is_there(file)]
    few = sum(file.rows < PART_ROWS for file in there) <= MOST_SMALL_PARTS
    return [file for file in there if few or file.rows >= PART_ROWS]


def _read(version: NewVersion, file: File, columns: list[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = pq.read_table(version.published(file), columns=columns).to_pydict()
    return found
