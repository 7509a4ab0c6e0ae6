"""What is stored of the datasets as the judge reads it: part by part, and of what there is much, a sample.

A sample is drawn by names alone: it is the same whenever it is drawn, and what comes later changes little of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eagle_assets.judge.samples import lot
from eagle_assets.lake.audit import File, Published
from eagle_assets.lake.kept import Part, parts_of
from eagle_assets.lake.parquet import batches_of, rows_at
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.parts.findings import FINDINGS, BoughtFinder, find_in_parts, found_by
from eagle_assets.reconstruction.verdict import Candidate, Exposure, Reconstruction
from eagle_assets.targets.target import Target

HELD = "judged_findings"
"""What is found in a part of responses in the light of what the judge decided."""

"""The same before it, as `token_sequences` keeps it."""

BATCH = 128

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A file of sequences, and the file of the responses that they came from, row by row; `held` is where what is found
    in these is kept."""

    sequences: Path
    sequences_file: File
    held: Part

    @property
    def name(self) -> str:
        return self.sequences_file.written_as

    @property
    def responses(self) -> Path:
        return self.held.path

    def columns(self, *names: str) -> pa.Table:
        """Small columns of the sequences, whole."""
        return pq.read_table(self.sequences, columns=list(names))


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset: its sequences and its responses. `is_bought`: its ids are read from texts, and may be read anew."""

    sequences: Published
    responses: Published
    is_bought: bool

    def parts(self) -> list[StoredPart]:
        """Its parts in order. What `token_sequences` found is what is held first."""
        held, found = (parts_of(self.responses, kept, found_by()) for kept in (HELD, FINDINGS))
        for mine, before in zip(held, found, strict=True):
            if before.kept.is_file() and not mine.kept.exists():
                os.link(before.kept, mine.kept)  # neither is ever changed in its place
        files = zip(self.sequences.audit.files, self.sequences.paths, held, strict=True)
        return [StoredPart(path, file, part) for file, path, part in files]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Some rows of a part, in order."""

    part: StoredPart
    places: Places

    def sequences(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        return rows_at(batches_of(self.part.sequences, columns, BATCH), self.places)

    def responses(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        return rows_at(batches_of(self.part.responses, columns, BATCH), self.places)

    def held(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """What was found in the responses, in the light of what the judge decided: rows of FOUND_SEQUENCES."""
        return rows_at(batches_of(self.part.held.kept, columns, BATCH), self.places)


def drawn(
    parts: Iterable[StoredPart], columns: Sequence[str], group_of: Callable[[Mapping[str, Any]], Hashable], most: int
) -> list[Drawn]:
    """At most so many rows of each group, drawn by the names of their exchanges. `group_of` is given these columns of a
    row; a row of the group None is left out. In memory is a number for each row."""
    numbers: dict[Hashable, int] = {None: 0}
    seen: list[tuple[StoredPart, npt.NDArray[np.uint64], Places]] = []
    for part in parts:
        rows = part.columns("exchange_id", *columns).to_pylist()
        lots = np.array([lot(row["exchange_id"]) for row in rows], dtype=np.uint64)
        groups = np.array([numbers.setdefault(group_of(row), len(numbers)) for row in rows], dtype=np.int64)
        seen.append((part, lots, groups))
    last = np.full(len(numbers), np.iinfo(np.uint64).max, dtype=np.uint64)
    all_lots = np.concatenate([lots for _, lots, _ in seen]) if seen else np.zeros(0, np.uint64)
    all_groups = np.concatenate([groups for _, _, groups in seen]) if seen else np.zeros(0, np.int64)
    for number in range(1, len(numbers)):
        of_group = all_lots[all_groups == number]
        if of_group.size > most:
            last[number] = np.partition(of_group, most - 1)[most - 1]
    found = (Drawn(part, np.flatnonzero((groups > 0) & (lots <= last[groups]))) for part, lots, groups in seen)
    return [one for one in found if one.places.size]


def reconstruction_of(row: Mapping[str, Any]) -> Reconstruction:
    """What a row of TOKEN_SEQUENCES says, or one of FOUND_SEQUENCES, which knows its exposure too."""
    exposure = row.get("exposure")
    return Reconstruction(
        exchange_id=row["exchange_id"],
        verdict=row["verdict"],
        output_ids=row["output_ids"],
        prompt_ids=row["prompt_ids"],
        reasons=tuple(row["reasons"]),
        evidence=msgspec.json.decode(row["evidence"]),
        candidates=tuple(Candidate(**candidate) for candidate in msgspec.json.decode(row["candidates"])),
        provider=row["provider"],
        model=row["model"],
        exposure=msgspec.json.decode(exposure, type=Exposure) if exposure is not None else None,
    )


def bring_up_to_date(parts: Sequence[StoredPart], target: Target, calibration: Calibration) -> None:
    """Find again what is held of bought responses where what was decided of their provider makes a difference."""
    for _ in find_in_parts([part.held for part in parts], BoughtFinder(target.name, calibration)):
        pass
