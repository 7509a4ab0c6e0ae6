"""The files of rows of an export, several at a time, each with what was generated in its training rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eagle_assets.export_options import Format
from eagle_assets.reconstruction.workers import workers
from eagle_assets.training.draft_vocabulary import Counts
from eagle_assets.training.exports.aside import Aside, FinishedFile, write_file
from eagle_assets.training.exports.planned_files import ChosenRows, PlannedFile, rows_of, write_jsonl, write_parquet

_WORTH_WORKERS = 20_000_000  # tokens; fewer are written before a worker has started


@dataclass(frozen=True)
class RowFile:
    """A file that is there; `counts` are of each id, by dataset."""

    name: str
    finished: FinishedFile
    counts: Mapping[str, Counts]


def write_row_files(
    under_way: Aside, form: Format, planned: Sequence[PlannedFile], vocabulary_size: int, on_rows: Callable[[int], None]
) -> Iterator[RowFile]:
    """Write the files that an earlier attempt has not finished, on all cores where there is much to write."""
    tasks = [_Task(under_way.folder, form, file, under_way.finished(file.name), vocabulary_size) for file in planned]
    if len(planned) > 1 and sum(file.tokens for file in planned) >= _WORTH_WORKERS:
        with workers(__name__) as pool:
            for file, written in zip(planned, pool.map(_write, tasks), strict=True):
                under_way.note(written.name, written.finished)
                on_rows(file.rows)
                yield written
        return
    for task in tasks:
        written = _write(task, on_rows)
        under_way.note(written.name, written.finished)
        yield written


@dataclass(frozen=True)
class _Task:
    folder: Path
    form: Format
    file: PlannedFile
    finished: FinishedFile | None
    vocabulary_size: int


def _write(task: _Task, on_rows: Callable[[int], None] = lambda rows: None) -> RowFile:
    counts: dict[str, Counts] = defaultdict(lambda: np.zeros(task.vocabulary_size, dtype=np.int64))
    rows = _counted(task.file, counts, on_rows)
    write = write_parquet if task.form == "huggingface" else write_jsonl
    finished = task.finished or write_file(task.folder, task.file.name, lambda path: write(path, rows))
    for _ in rows:  # of a file that was finished before, for the counts
        pass
    return RowFile(task.file.name, finished, dict(counts))


def _counted(file: PlannedFile, counts: dict[str, Counts], on_rows: Callable[[int], None]) -> Iterator[ChosenRows]:
    """The rows of a file; what was generated in training rows is counted as they come by."""
    for chosen in rows_of(file):
        if file.split == "train":
            generated = chosen.input_ids.values[chosen.loss_mask.values == 1]
            counts[chosen.dataset] += np.bincount(generated, minlength=counts[chosen.dataset].size)
        on_rows(chosen.table.num_rows)
        yield chosen
