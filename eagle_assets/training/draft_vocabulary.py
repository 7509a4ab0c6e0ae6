"""The draft vocabulary: the ids that a drafter can propose, chosen by how often the target model generated them.

The rule is speculators' (`build_vocab_mappings_from_distribution`): the N most frequent generated ids, ties to the
lower id, filled with the lowest unused ids, then sorted. The markers of the output grammar are always among them: a
drafter that cannot propose the stop token stalls at every end. SpecForge loads the same mapping.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eagle_assets.export_options import DEFAULT_DRAFT_SIZE
from eagle_assets.lake.audit import Check
from eagle_assets.lake.schemas import TOKEN_FREQUENCIES
from eagle_assets.targets.target import Markers
from eagle_assets.training.exports.torch_file import write_arrays
from eagle_assets.training.ragged import Ragged

CURVE_SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)

Counts = npt.NDArray[np.int64]


class NothingToCount(Exception):
    """No trusted sequence holds a generated token, so there is no draft vocabulary; the message says what to do."""


@dataclass(frozen=True)
class DraftVocabulary:
    """`d2t` (draft size,): target id − draft id; `t2d` (vocabulary size,): whether the target id is among the draft's.

    `coverage` is the share of generated tokens whose id is among the draft's.
    """

    d2t: npt.NDArray[np.int64]
    t2d: npt.NDArray[np.bool_]
    coverage: float

    @property
    def token_ids(self) -> npt.NDArray[np.int64]:
        """Target ids in order of draft id, ascending. Shape (draft size,)."""
        return self.d2t + np.arange(self.d2t.size)


def count_generated_tokens(shards: Iterable[pa.RecordBatch], vocabulary_size: int) -> Counts:
    """How often each id was generated in shard rows (`input_ids, loss_mask`). Shape (vocabulary_size,)."""
    counts = np.zeros(vocabulary_size, dtype=np.int64)
    for batch in shards:
        ids, mask = Ragged.from_arrow(batch["input_ids"]), Ragged.from_arrow(batch["loss_mask"])
        counts += np.bincount(ids.values[mask.values == 1], minlength=vocabulary_size)
    return counts


def choose_draft_vocabulary(counts: Counts, markers: Markers, size: int = DEFAULT_DRAFT_SIZE) -> DraftVocabulary:
    """The draft vocabulary of `size` ids for these counts.

    Raises NothingToCount where all counts are 0, ValueError where `size` is below the number of markers or above
    that of the target's ids.
    """
    always = np.array(astuple(markers))
    if not always.size <= size <= counts.size:
        raise ValueError(f"a draft vocabulary has {always.size} to {counts.size} ids, not {size}")
    if not counts.any():
        raise NothingToCount(
            "no sequence of any dataset is trusted so far: `eagle-assets query reasons_of_distrust` says why"
        )
    rank = counts.copy()
    rank[always] = np.iinfo(np.int64).max
    token_ids = np.sort(np.argsort(-rank, kind="stable")[:size])
    t2d = np.zeros(counts.size, dtype=np.bool_)
    t2d[token_ids] = True
    return DraftVocabulary(
        d2t=token_ids - np.arange(size), t2d=t2d, coverage=float(counts[token_ids].sum() / counts.sum())
    )


def coverage_curve(counts: Counts, markers: Markers) -> dict[int, float]:
    """The share of generated tokens that draft vocabularies of 1,000, 2,000, … ids cover, up to all ids.

    `counts` (vocabulary size,) must hold a generated token.
    """
    always = np.array(astuple(markers))
    rank = counts.copy()
    rank[always] = np.iinfo(np.int64).max
    covered = np.cumsum(counts[np.argsort(-rank, kind="stable")]) / counts.sum()
    sizes = [size for size in CURVE_SIZES if always.size <= size < counts.size] + [counts.size]
    return {size: float(covered[size - 1]) for size in sizes}


def token_frequencies(counts: Counts, draft: DraftVocabulary) -> pa.Table:
    """A row for each id that was generated or is among the draft's, in order of id (schema TOKEN_FREQUENCIES)."""
    draft_ids = np.cumsum(draft.t2d, dtype=np.int32) - 1
    rows = np.flatnonzero(draft.t2d | (counts > 0))
    return pa.table(
        [
            pa.array(rows, pa.int32()),
            pa.array(counts[rows]),
            pa.array(draft_ids[rows], pa.int32(), mask=~draft.t2d[rows]),
        ],
        schema=TOKEN_FREQUENCIES,
    )


def write_draft_vocabulary(draft: DraftVocabulary, counts: Counts, folder: Path) -> list[Path]:
    """Write the mapping and the counts; returns the paths.

    `d2t.npy` and `t2d.npy` as speculators loads them, `vocab_mapping.pt` as SpecForge does, and
    `token_frequencies.parquet`.
    """
    paths = [folder / name for name in ("d2t.npy", "t2d.npy", "vocab_mapping.pt", "token_frequencies.parquet")]
    np.save(paths[0], draft.d2t)
    np.save(paths[1], draft.t2d)
    write_arrays(paths[2], {"d2t": draft.d2t, "t2d": draft.t2d})
    pq.write_table(token_frequencies(counts, draft), paths[3], compression="zstd")
    return paths


def mapping_is_consistent(
    d2t: npt.NDArray[np.int64], t2d: npt.NDArray[np.bool_], counts: Counts, markers: Markers
) -> Check:
    """Whether `d2t` and `t2d` name the same ids, each once, every marker among them, and none more frequent left out.

    `counts` (vocabulary size,) are those of the shards; all three are taken as they were read back from the disk.
    """
    token_ids = d2t + np.arange(d2t.size)
    if t2d.shape == counts.shape and np.array_equal(np.flatnonzero(t2d), token_ids):
        by_count = t2d.copy()
        by_count[list(astuple(markers))] = False
        least = counts[by_count].min(initial=np.iinfo(np.int64).max)
        missing = int(np.count_nonzero(~t2d[list(astuple(markers))]))
        passed_over = int(np.count_nonzero(counts[~t2d] > least))
        faults = [f"{missing} markers are missing"] * (missing > 0)
        faults += [f"{passed_over} ids are more frequent than one that was taken"] * (passed_over > 0)
        covered = int(counts[t2d].sum())
    else:
        faults, covered = [f"d2t and t2d do not name the same ids in ascending order below {counts.size}"], 0
    total = int(counts.sum())
    coverage = covered / total if total else 0.0
    return Check(
        name="mapping_is_consistent",
        passed=not faults,
        sentence="; ".join(faults)
        or f"{d2t.size} draft ids cover {coverage:.2%} of {total} generated tokens; d2t and t2d agree",
        numbers={
            "draft_ids": d2t.size,
            "generated_tokens": total,
            "distinct_generated_ids": int(np.count_nonzero(counts)),
            "coverage": coverage,
        },
    )
