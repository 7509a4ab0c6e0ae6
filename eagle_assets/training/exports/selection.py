"""Which rows of the shards an export takes, how long, how often and in which split; decided before a byte is written.

One pass over the shards keeps about 80 bytes for each row, whatever its length.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eagle_assets.lake.audit import Published, called
from eagle_assets.reconstruction.workers import on_threads
from eagle_assets.training.exports.request import ExportError, ExportRequest, Split
from eagle_assets.training.ragged import Lengths, Ragged, Rows

ROWS_PER_BATCH = 128
KEPT, OF_VERDICT, TOO_LONG, NOTHING_GENERATED, SAME_PROMPT, SAME_SEQUENCE, OF_WEIGHT = range(7)
REASONS = (
    "kept",
    "verdict",
    "longer than max_length",
    "nothing generated within max_length",
    "prompt seen before",
    "sequence seen before",
    "weight",
)

Digests = npt.NDArray[np.uint8]  # shape (rows, 32): SHA-256


@dataclass(frozen=True)
class Selection:
    """Rows of one dataset's shards, in their order; every array has the shape (rows,) but `digests`.

    `lengths` counts the tokens of a row that are written, `generated` how many of them were generated. `copies` says
    how often a row is written and is 0 where it is left out; `left_out` counts those by reason. `digests` are of the
    ids as written.
    """

    published: Published
    lengths: Lengths
    generated: Lengths
    copies: npt.NDArray[np.int64]
    evaluation: Rows
    digests: Digests
    exact: Rows
    left_out: Counter[str]

    @property
    def dataset(self) -> str:
        return str(self.published.audit.dataset)

    def of(self, split: Split) -> Rows:
        """Which rows are written in this split."""
        return (self.copies > 0) & (self.evaluation == (split == "evaluation"))


def digest_of(ids: npt.NDArray[np.int32]) -> bytes:
    """SHA-256 of ids as little-endian 32-bit integers, end to end: what joins a trainer's row with its provenance."""
    return hashlib.sha256(ids.astype("<i4", copy=False).tobytes()).digest()


def select(
    shards: Iterable[Published],
    request: ExportRequest,
    vocabulary_size: int,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> list[Selection]:
    """Apply the request to every row. Raises ExportError where a row is not what a trainer can take."""
    candidates = [_candidates(published, request, vocabulary_size, on_rows) for published in shards]
    if request.dedup is not None:
        _drop_repeated(candidates, request.dedup)
    return [candidate.selection(request) for candidate in candidates]


@dataclass
class _Candidates:
    """A dataset's rows while they are being chosen; `reasons` are places in REASONS."""

    published: Published
    lengths: Lengths
    generated: Lengths
    prompts: Digests
    digests: Digests
    exact: Rows
    reasons: npt.NDArray[np.uint8]

    def selection(self, request: ExportRequest) -> Selection:
        kept = self.reasons == KEPT
        evaluation = _fraction(self.prompts) < request.eval_share
        weight = request.weights.get(str(self.published.audit.dataset), 1.0)
        copies = np.where(evaluation, 1, np.floor(weight) + (_fraction(self.digests) < weight % 1)).astype(np.int64)
        reasons = np.where(kept & (copies == 0), OF_WEIGHT, self.reasons)
        counts = np.bincount(reasons, minlength=len(REASONS)).tolist()
        return Selection(
            self.published,
            self.lengths,
            self.generated,
            np.where(kept, copies, 0),
            evaluation,
            self.digests,
            self.exact,
            Counter({REASONS[reason]: n for reason, n in enumerate(counts) if n and reason != KEPT}),
        )


def _candidates(
    published: Published, request: ExportRequest, vocabulary_size: int, on_rows: Callable[[int], None]
) -> _Candidates:
    parts: list[tuple[Any, ...]] = []
    batches = published.batches(["id", "input_ids", "loss_mask", "verdict"], ROWS_PER_BATCH)
    for part in on_threads(lambda batch: _examined(batch, published, request, vocabulary_size), batches):
        parts.append(part)
        on_rows(part[0].size)
    if not parts:
        length, digest = np.zeros(0, np.int64), np.zeros((0, 32), np.uint8)
        parts = [(length, length, digest, digest, np.zeros(0, np.bool_), np.zeros(0, np.uint8))]
    return _Candidates(published, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _examined(
    batch: pa.RecordBatch, published: Published, request: ExportRequest, vocabulary_size: int
) -> tuple[Lengths, Lengths, Digests, Digests, Rows, npt.NDArray[np.uint8]]:
    ids, mask = Ragged.from_arrow(batch["input_ids"]), Ragged.from_arrow(batch["loss_mask"])
    _refuse_what_trainers_cannot_take(batch, ids, mask, published, vocabulary_size)
    whole = ids.lengths
    lengths = np.minimum(whole, request.max_length) if request.max_length is not None else whole
    so_far = np.concatenate([[0], np.cumsum(mask.values, dtype=np.int64)])
    begin = mask.offsets[:-1]
    generated = so_far[begin + lengths] - so_far[begin]
    first_generated = np.searchsorted(so_far, so_far[begin], side="right") - 1 - begin
    verdicts = np.asarray(batch["verdict"], dtype=np.str_)
    reasons = np.select(
        [~np.isin(verdicts, request.verdicts), (lengths < whole) & (not request.cut), generated == 0],
        [OF_VERDICT, TOO_LONG, NOTHING_GENERATED],
        default=KEPT,
    ).astype(np.uint8)
    return lengths, generated, _digests(ids, first_generated), _digests(ids, lengths), verdicts == "exact", reasons


def _digests(ids: Ragged, lengths: Lengths) -> Digests:
    """Of the first `lengths[r]` ids of each row r."""
    begins = ids.offsets[:-1].tolist()
    data = b"".join(digest_of(ids.values[b : b + n]) for b, n in zip(begins, lengths.tolist(), strict=True))
    return np.frombuffer(data, np.uint8).reshape(-1, 32)


def _refuse_what_trainers_cannot_take(
    batch: pa.RecordBatch, ids: Ragged, mask: Ragged, published: Published, vocabulary_size: int
) -> None:
    """The audit of the shards has seen to all of this; no trainer does, so it is worth a second look."""
    uneven = ids.lengths != mask.lengths
    wrong = uneven | ids.rows_with((ids.values < 0) | (ids.values >= vocabulary_size))
    wrong |= mask.rows_with(mask.values > 1) | ~mask.rows_with(mask.values == 1)
    if wrong.any():
        row = batch["id"][int(np.flatnonzero(wrong)[0])].as_py()
        raise ExportError(
            f"row {row} cannot train (an id outside the vocabulary of {vocabulary_size}, or a mask that is not "
            f"of 0 and 1 with at least one 1); materialise {called('training_shards', published.audit.dataset)} again"
        )


def _drop_repeated(candidates: list[_Candidates], by: str) -> None:
    """Leave out every row whose prompt, or whole sequence, an earlier row has that is kept."""
    digests = np.concatenate([c.prompts if by == "prompt" else c.digests for c in candidates])
    kept = np.flatnonzero(np.concatenate([c.reasons == KEPT for c in candidates]))
    keys = digests[kept, :16].copy().view("<u8")
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: of equal rows the earliest comes first
    same = (keys[order][1:] == keys[order][:-1]).all(axis=1)
    repeated = np.zeros(digests.shape[0], dtype=np.bool_)
    repeated[kept[order[1:][same]]] = True
    begin = 0
    for candidate in candidates:
        end = begin + candidate.reasons.size
        candidate.reasons[repeated[begin:end]] = SAME_PROMPT if by == "prompt" else SAME_SEQUENCE
        begin = end


def _fraction(digests: Digests) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each digest, spread evenly and always the same. Shape (rows,)."""
    return (digests[:, 24:].copy().view(">u8")[:, 0] >> np.uint64(11)) / 2.0**53
