"""The files of `raw_responses`: what was published stays as it is, what is new comes beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

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
from eagle_assets.openrouter.journal import JournalReader, open_journal
from eagle_assets.reconstruction.stored import StrayOf, row_of_record
from eagle_assets.reconstruction.workers import on_threads

MOST_SMALL_PARTS = 64
"""Files that are not full from which on they are put together. What was found in their responses is then found anew."""

_OF_AN_ANSWER = ("exchange_id", "outcome", "model", "provider", "stray")


def keep_parts(version: NewVersion, journal: JournalReader, stray_of: StrayOf) -> set[str]:
    """Keep every part whose rows are still what the journal says of their exchanges, and routing of whose they are;
    returns the ids of these."""
    kept: set[str] = set()
    ended = journal.ended()
    for file in _worth_keeping(version):
        columns = _read(version, file, [*_OF_AN_ANSWER, "cost_usd", "generation"])
        ids, told = columns["exchange_id"], zip(columns["cost_usd"], columns["generation"], strict=True)
        settled_since = (
            cost is None and generation is None and ended.get(exchange_id)
            for exchange_id, (cost, generation) in zip(ids, told, strict=True)
        )
        answers = zip(*(columns[name] for name in _OF_AN_ANSWER), strict=True)
        moved = (
            outcome == "answered" and stray_of(model, provider) != stray
            for _, outcome, model, provider, stray in answers
        )
        if ended.keys() >= set(ids) and not any(settled_since) and not any(moved) and version.keep(file):
            kept.update(ids)
    return kept


def write_collected(
    version: NewVersion,
    name: str,
    prompt_ids: Sequence[str],
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
    explained = every_prompt_is_explained(prompt_ids, version.rows(columns=["prompt_id", "outcome"]), summary)

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
