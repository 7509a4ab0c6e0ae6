"""Judging what is stored, part by part, on all cores: what was found is kept, and found again only where it may differ.

A part is a file of `raw_responses`. What is found in a response depends on its bytes, on this code, and on the decisive
facts of its group's calibration; the kept file is named after the first two and tells the third.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eagle_assets.durability import written_whole
from eagle_assets.lake.audit import GateClosed
from eagle_assets.lake.code import digest_of_code
from eagle_assets.lake.kept import Part
from eagle_assets.lake.parquet import ROWS_PER_BATCH, batches_of, repeating, rows_at, whole_table
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.canonical import with_canonical
from eagle_assets.reconstruction.decisive import decisive_facts
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.own.local import sequence_row
from eagle_assets.reconstruction.roundtrip import Roundtrip
from eagle_assets.reconstruction.sequence_checks import examine_bought, examine_local
from eagle_assets.reconstruction.sequences import FOUND_SEQUENCES, found_rows, gaps_and_conventions
from eagle_assets.reconstruction.workers import WORTH_WORKERS, workers
from eagle_assets.targets.kimi import target_named

CODE = (
    *("reconstruction", "serving", "targets", "lake/columns.py"),
    *(f"openrouter/{name}.py" for name in ("wire", "response", "values", "names", "tolerant_json", "exchange")),
    *(f"openrouter/{name}.py" for name in ("event_stream", "alike", "deltas", "attempts", "decisions", "outcome")),
)
_PACKAGES = ("splintr-rs", "renderers")

FINDINGS = "findings"
"""The name under which they are kept."""

_FACTS = b"decisive facts"


def found_by() -> str:
    """A digest of the code that findings and observations depend on."""
    return digest_of_code(CODE, _PACKAGES)


class Finder(Protocol):
    """What is to be found in the responses of a dataset, under what was learnt from others."""

    @property
    def calibration(self) -> Calibration: ...

    def find(self, responses: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Any]]:
        """A row of FOUND_SEQUENCES, not examined yet, for each row of RAW_RESPONSES, and what `examine` is to know of
        that."""

    def examine(self, found: pa.RecordBatch, of_responses: Sequence[Any]) -> Iterator[Roundtrip]:
        """Hold what was found, as it is written, against the responses."""

    def facts(self, group: str) -> str:
        """A digest of what it depends on in a group of responses."""


@dataclass(frozen=True, slots=True)
class BoughtFinder:
    """Inverts texts under a calibration."""

    target: str
    calibration: Calibration

    def find(self, responses: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Reading]]:
        vocabulary = target_named(self.target).vocabulary
        for row, reading in found_rows(responses, self.calibration):
            yield with_canonical(row, vocabulary), reading

    def examine(self, found: pa.RecordBatch, of_responses: Sequence[Reading]) -> Iterator[Roundtrip]:
        return examine_bought(found, of_responses, self.calibration)

    def facts(self, group: str) -> str:
        return decisive_facts(self.calibration, msgspec.json.decode(group, type=GroupKey))


@dataclass(frozen=True, slots=True)
class LocalFinder:
    """Takes the ids that the server gave; nothing is learnt from other responses."""

    target: str
    calibration: Calibration = field(default_factory=Calibration)

    def find(self, responses: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        target = target_named(self.target)
        for row in responses:
            yield with_canonical(sequence_row(row, target), target.vocabulary), row

    def examine(self, found: pa.RecordBatch, of_responses: Sequence[dict[str, Any]]) -> Iterator[Roundtrip]:
        return examine_local(found.to_pylist(), of_responses, target_named(self.target))

    def facts(self, group: str) -> str:
        return ""


def find_in_parts(parts: Sequence[Part], finder: Finder) -> Iterator[int]:
    """Bring what is kept of every part up to date; gives the number of responses that were judged, as it goes on.

    The files of a killed run are taken up by the next.
    """
    for folder in {part.kept.parent for part in parts}:
        for killed in folder.glob(".*"):
            killed.unlink(missing_ok=True)
    tasks = [_Task(part, finder, redo) for part in parts if (redo := _to_redo(part, finder)) is None or redo]
    worth_it = len(tasks) > 1 and sum(task.part.file.rows for task in tasks) >= WORTH_WORKERS
    with workers("eagle_assets.reconstruction.loaded", worth_it) as pool:
        yield from pool.map(_find, tasks)


def read_findings(part: Part, columns: Sequence[str] | None = None) -> pa.Table:
    """What is kept of a part: rows of FOUND_SEQUENCES. Raises GateClosed where the file is damaged."""
    try:
        with pq.ParquetFile(part.kept, pre_buffer=False, page_checksum_verification=True) as file:
            return whole_table(file, columns)
    except (OSError, pa.ArrowInvalid) as error:
        raise GateClosed(
            f"{part.kept} is damaged ({error}); remove it, and materialise token_sequences again"
        ) from None


def facts_of(part: Part) -> dict[str, str]:
    """What the kept file of a part depends on, by group."""
    facts: dict[str, str] = msgspec.json.decode(pq.read_schema(part.kept).metadata[_FACTS])
    return facts


def _to_redo(part: Part, finder: Finder) -> frozenset[str] | None:
    """The groups whose responses must be judged again; None for everything, where nothing is kept."""
    try:
        return frozenset(group for group, facts in facts_of(part).items() if finder.facts(group) != facts)
    except (OSError, pa.ArrowInvalid, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class _Task:
    """A part of which these groups of responses are to be judged again; None for all of it."""

    part: Part
    finder: Finder
    redo: frozenset[str] | None


def _find(task: _Task) -> int:
    part, finder = task.part, task.finder
    table, judged = _brought_up_to_date(part, finder, task.redo)
    groups = sorted(set(table["group"].to_pylist()) - {None})
    facts = msgspec.json.encode({group: finder.facts(group) for group in groups})
    with written_whole(part.kept) as out:
        _write(table.replace_schema_metadata({_FACTS: facts}), out)
    return judged


def _brought_up_to_date(part: Part, finder: Finder, redo: frozenset[str] | None) -> tuple[pa.Table, int]:
    if redo is None:
        return _judged(part.path, np.arange(part.file.rows), finder), part.file.rows
    kept = read_findings(part)
    rows = np.flatnonzero(np.isin(np.array(kept["group"].to_pylist(), dtype=object), list(redo)))
    place = np.arange(kept.num_rows)
    place[rows] = kept.num_rows + np.arange(rows.size)
    table = pa.concat_tables([kept, _judged(part.path, rows, finder)]).take(pa.array(place))
    return table, rows.size


def _judged(path: Path, rows: np.ndarray, finder: Finder) -> pa.Table:
    """These rows of a part, judged, and examined as they are written."""
    found = finder.find(rows_at(batches_of(path), rows))
    return pa.Table.from_batches((_examined(batch, finder) for batch in _in_batches(found)), FOUND_SEQUENCES)


def _examined(batch: Sequence[tuple[dict[str, Any], Any]], finder: Finder) -> pa.RecordBatch:
    rows, of_responses = zip(*batch, strict=True)
    found = pa.RecordBatch.from_pylist(rows, schema=FOUND_SEQUENCES)
    examined = list(finder.examine(found, of_responses))
    agrees = pa.array([e.text_agrees for e in examined], pa.bool_())
    gaps = pa.array([e.count_gap for e in examined], pa.int32())
    tokens = pc.list_value_length(found["output_ids"])
    added = [tokens, agrees, gaps, *gaps_and_conventions(found)]
    return pa.RecordBatch.from_arrays([*found.columns[: -len(added)], *added], schema=FOUND_SEQUENCES)


def _in_batches(rows: Iterator[tuple[dict[str, Any], Any]]) -> Iterator[list[tuple[dict[str, Any], Any]]]:
    while batch := list(islice(rows, ROWS_PER_BATCH)):
        yield batch


def _write(table: pa.Table, out: BinaryIO) -> None:
    pq.write_table(table, out, compression="zstd", use_dictionary=repeating(table.schema), write_page_checksum=True)
