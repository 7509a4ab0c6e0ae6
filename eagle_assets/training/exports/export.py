"""From published shards to a folder that a trainer takes as it is."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eagle_assets.lake.audit import GateClosed, Published, require, require_all
from eagle_assets.lake.home import Home
from eagle_assets.targets.target import Target
from eagle_assets.training.draft_vocabulary import Counts
from eagle_assets.training.exports.aside import Aside, FinishedFile, aside, place_aside
from eagle_assets.training.exports.manifest import MANIFEST, is_complete, manifest_of
from eagle_assets.training.exports.pages import page
from eagle_assets.training.exports.planned_files import PlannedFile, planned_files_of
from eagle_assets.training.exports.request import ExportError, ExportRequest
from eagle_assets.training.exports.row_files import write_row_files
from eagle_assets.training.exports.selection import Selection, select
from eagle_assets.training.exports.vocabulary_files import ExportVocabulary

SPARE_BYTES = 10_000_000  # for the vocabulary files, the manifest and the page
PROVENANCE = "provenance.parquet"
PROVENANCE_ROWS = pa.schema(
    [
        ("input_ids_sha256", pa.string()),
        ("id", pa.string()),
        ("dataset", pa.string()),
        ("exchange_id", pa.string()),
        ("provider", pa.string()),
        ("verdict", pa.string()),
        ("split", pa.string()),
        ("copies", pa.int32()),
        ("tokens", pa.int32()),
        ("generated_tokens", pa.int32()),
    ]
)

OnRows = Callable[[str, int, int], None]  # what is being done, rows since the last call, rows in all


@dataclass(frozen=True)
class Exported:
    """An export that is there. `was_there` says that nothing had to be done; `notes` are sentences for the user."""

    folder: Path
    manifest: dict[str, Any]
    was_there: bool
    notes: tuple[str, ...]


def export(
    home: Home, target: Target, request: ExportRequest, on_rows: OnRows = lambda doing, rows, total: None
) -> Exported:
    """Write what is asked for; an attempt that was killed goes on where it was.

    The folder appears whole, with its manifest, or not at all. Raises ExportError.
    """
    folder = request.folder.expanduser().absolute()
    markers, ids = len(astuple(target.markers)), target.vocabulary.size
    if not markers <= request.draft_size <= ids:
        raise ExportError(f"a draft vocabulary has {markers} to {ids} ids, not {request.draft_size}")
    try:
        shards, notes = shards_to_export(home, target, request)
        plan = request.plan(target, shards)
        if os.path.lexists(folder) and not folder.is_dir():
            raise ExportError(f"{folder} is no folder; name a new one")
        if folder.is_dir() and any(folder.iterdir()):
            if not is_complete(folder, plan):
                raise ExportError(f"{folder} is not empty; name a new folder, or empty this one")
            manifest = msgspec.json.decode((folder / MANIFEST).read_bytes())
            return Exported(folder, manifest, True, tuple(notes))
        selections, left_out = _selected(shards, target, request, on_rows)
        planned = planned_files_of(selections, request.format, request.shard_bytes)
        if request.eval_share and not any(file.split == "evaluation" for file in planned):
            raise ExportError(f"no prompt falls into an evaluation share of {request.eval_share:g}; give a larger one")
        folder.parent.mkdir(parents=True, exist_ok=True)
        require_space(folder.parent, sum(file.bytes_at_most for file in planned) + SPARE_BYTES - _bytes_there(folder))
        with aside(folder, plan) as under_way:
            manifest = _write(under_way, request, plan, target, selections, planned, on_rows)
            under_way.publish(folder)
    except GateClosed as error:
        raise ExportError(str(error)) from None
    except FileNotFoundError as error:
        raise ExportError(
            f"{error.filename or error} is not there any more: a run may have published its successor meanwhile; "
            "export again"
        ) from None
    except OSError as error:
        raise ExportError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from None
    return Exported(folder, manifest, False, (*notes, *left_out))


def require_space(folder: Path, needed: int) -> None:
    """Raises ExportError where the disk of `folder` has fewer free bytes than `needed`."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ExportError(
            f"the export takes up to {needed / 1e9:,.1f} GB and {folder} has {free / 1e9:,.1f} GB free; make room, "
            "choose another disk, or export fewer datasets"
        )


def _bytes_there(folder: Path) -> int:
    return sum(path.stat().st_size for path in place_aside(folder).rglob("*") if path.is_file())


def shards_to_export(home: Home, target: Target, request: ExportRequest) -> tuple[list[Published], list[str]]:
    """The shards that a request takes, and a sentence for each dataset that is left out. Raises ExportError and
    GateClosed."""
    there = home.audited_datasets("training_shards")
    if not there:
        raise ExportError(
            f"{home.root} holds no training shards: `eagle-assets run` makes them; those of `make demo` lie elsewhere: "
            "EAGLE_ASSETS_HOME=data/demo"
        )
    if unknown := [name for name in (*request.datasets, *request.weights) if name not in there]:
        raise ExportError(f"there are no training shards of {unknown[0]}; there are of {', '.join(there)}")
    if strange := [name for name in request.weights if request.datasets and name not in request.datasets]:
        raise ExportError(f"{strange[0]} has a weight and is not among the datasets to export; name it there too")
    refused: list[str] = []
    dropped = [name for name in there if request.of_file is not None and name not in request.of_file]
    if request.datasets:
        shards = [require(home, "training_shards", name) for name in dict.fromkeys(request.datasets)]
    else:
        if len(dropped) == len(there):
            raise ExportError(
                f"the datasets file names none of the datasets with training shards ({', '.join(there)}); set "
                "EAGLE_ASSETS_DATASETS to the file that does, or name those that are to be exported"
            )
        shards, refused = require_all(home, "training_shards", [name for name in there if name not in dropped])
        refused += [f"{name} is not in the datasets file any more; name it to export it too" for name in dropped]
        if not shards:
            raise ExportError(f"no dataset can be exported: {'; '.join(refused)}")
    for published in shards:
        if published.audit.vocabulary not in (None, target.vocabulary.sha256):
            raise ExportError(
                f"the shards of {published.audit.dataset} are of another vocabulary than {target.name}; "
                "set `target` in the datasets file to their model"
            )
    return shards, [f"left out: {sentence}" for sentence in refused]


def _selected(
    shards: Sequence[Published], target: Target, request: ExportRequest, on_rows: OnRows
) -> tuple[list[Selection], list[str]]:
    total = sum(published.audit.rows for published in shards)
    selections = select(shards, request, target.vocabulary.size, lambda rows: on_rows("choosing rows", rows, total))
    empty = {s.dataset: _why_empty(s) for s in selections if not s.copies.any()}
    if request.datasets and empty:
        raise ExportError(next(iter(empty.values())))
    taken = [selection for selection in selections if selection.dataset not in empty]
    if not any(selection.of("train").any() for selection in taken):
        raise ExportError(
            "; ".join(empty.values()) or "every row falls into the evaluation split; give a smaller share"
        )
    return taken, [f"left out: {sentence}" for sentence in empty.values()]


def _why_empty(selection: Selection) -> str:
    if not selection.copies.size:
        return f"{selection.dataset} has no trusted sequence, so there is nothing to train on; look at its verdicts"
    reasons = ", ".join(f"{count} {reason}" for reason, count in selection.left_out.most_common())
    return f"no sequence of {selection.dataset} is left under these options ({reasons})"


def _write(
    under_way: Aside,
    request: ExportRequest,
    plan: str,
    target: Target,
    selections: Sequence[Selection],
    planned: Sequence[PlannedFile],
    on_rows: OnRows,
) -> dict[str, Any]:
    total = sum(file.rows for file in planned)
    counts: dict[str, Counts] = defaultdict(lambda: np.zeros(target.vocabulary.size, dtype=np.int64))
    files: dict[str, FinishedFile] = {}
    written = write_row_files(
        under_way, request.format, planned, target.vocabulary.size, lambda rows: on_rows("writing", rows, total)
    )
    for file in written:
        files[file.name] = file.finished
        for dataset, counted in file.counts.items():
            counts[dataset] += counted
    vocabulary = ExportVocabulary.choose(counts, target.markers, request.draft_size)
    for name, writer in vocabulary.writers(request.format).items():
        files[name] = under_way.write(name, writer)
    if request.format != "huggingface":
        files[PROVENANCE] = under_way.write(PROVENANCE, lambda path: _write_provenance(path, selections))
    manifest = manifest_of(request, plan, target, selections, planned, {}, vocabulary)
    text = page(request.format, manifest, planned)
    files["README.md"] = under_way.write("README.md", lambda path: path.write_text(text, encoding="utf-8"))
    manifest = manifest_of(request, plan, target, selections, planned, files, vocabulary)
    encoded = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    under_way.write(MANIFEST, lambda path: path.write_bytes(encoded))
    return manifest


def _write_provenance(path: Path, selections: Iterable[Selection]) -> None:
    with pq.ParquetWriter(path, PROVENANCE_ROWS, compression="zstd") as writer:
        for selection in selections:
            first = 0
            for batch in selection.published.batches(["id", "dataset", "exchange_id", "provider", "verdict"]):
                rows = first + np.flatnonzero(selection.copies[first : first + batch.num_rows])
                taken = batch.take(pa.array(rows - first))
                split = np.where(selection.evaluation[rows], "evaluation", "train")
                columns = {
                    "input_ids_sha256": [digest.tobytes().hex() for digest in selection.digests[rows]],
                    **{name: taken[name] for name in taken.schema.names},
                    "split": split,
                    "copies": selection.copies[rows],
                    "tokens": selection.lengths[rows],
                    "generated_tokens": selection.generated[rows],
                }
                arrays = [pa.array(columns[field.name], field.type) for field in PROVENANCE_ROWS]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=PROVENANCE_ROWS))
                first += batch.num_rows
