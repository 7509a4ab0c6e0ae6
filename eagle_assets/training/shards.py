"""Token sequences to training shards: prompt and output in one row of ids, with a mask over what was generated.

The trainers read `input_ids` and `loss_mask` as they are: mask 1 exactly where a token was generated, not shifted.
Everything works on whole Arrow buffers; no token becomes a Python object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.reconstruction.verdict import TRUSTED
from eagle_assets.training.ragged import Ragged, Rows

SEQUENCE_COLUMNS = ["exchange_id", "provider", "verdict", "prompt_ids", "output_ids"]


def shard_batches(
    sequences: Iterable[pa.RecordBatch],
    dataset: str,
    vocabulary_size: int,
    left_out: Counter[str],
) -> Iterator[pa.RecordBatch]:
    """Shard rows (schema TRAINING_SHARDS) of one dataset's trusted sequences, in their order, a batch for each batch.

    `sequences` has a row for each exchange and at least SEQUENCE_COLUMNS. A row is left out, and counted in
    `left_out` under the first reason that holds, if its verdict is not trusted (`verdict_unverified`, …), if it has no
    prompt ids (`prompt_ids_missing`), if nothing was generated (`output_empty`), or if an id does not lie in
    [0, vocabulary_size) (`id_outside_vocabulary`). Nothing is added to an output or taken away: one that was cut keeps
    ending without a stop token. The `id` of a row is `dataset/exchange_id`.
    """
    for batch in sequences:
        prompts, outputs = Ragged.from_arrow(batch["prompt_ids"]), Ragged.from_arrow(batch["output_ids"])
        reasons = _reasons_to_leave_out(batch["verdict"], prompts, outputs, vocabulary_size)
        left_out.update(reasons[reasons != ""].tolist())
        yield _rows(batch, prompts, outputs, np.flatnonzero(reasons == ""), dataset)


def is_trusted(verdicts: pa.Array | pa.ChunkedArray) -> Rows:
    """Which verdicts let a sequence into the shards. Shape (rows,)."""
    return np.asarray(pc.is_in(verdicts, value_set=pa.array(sorted(TRUSTED), pa.string())), dtype=np.bool_)


def rows_outside_vocabulary(ids: Ragged, vocabulary_size: int) -> Rows:
    """Which rows hold an id that is not in [0, vocabulary_size). Shape (rows,)."""
    return ids.rows_with((ids.values < 0) | (ids.values >= vocabulary_size))


def _reasons_to_leave_out(
    verdicts: pa.Array, prompts: Ragged, outputs: Ragged, vocabulary_size: int
) -> npt.NDArray[np.str_]:
    return np.select(
        [
            ~is_trusted(verdicts),
            prompts.lengths == 0,
            outputs.lengths == 0,
            rows_outside_vocabulary(prompts, vocabulary_size) | rows_outside_vocabulary(outputs, vocabulary_size),
        ],
        [
            np.strings.add("verdict_", np.asarray(pc.fill_null(verdicts, "missing"), dtype=np.str_)),
            "prompt_ids_missing",
            "output_empty",
            "id_outside_vocabulary",
        ],
        default="",
    )


def _rows(
    batch: pa.RecordBatch, prompts: Ragged, outputs: Ragged, kept: npt.NDArray[np.int64], dataset: str
) -> pa.RecordBatch:
    of_prompts, of_outputs = prompts.rows(), outputs.rows()
    ids = [ids for row in kept.tolist() for ids in (of_prompts[row], of_outputs[row])]
    lengths = np.stack([prompts.lengths[kept], outputs.lengths[kept]], axis=1)
    mask = np.repeat(np.tile(np.array([0, 1], dtype=np.uint8), kept.size), lengths.ravel())
    bounds = pa.array(np.concatenate([[0], np.cumsum(lengths.sum(axis=1))]), pa.int32())
    exchange_ids, providers, verdicts = (
        batch[name].take(pa.array(kept)) for name in ("exchange_id", "provider", "verdict")
    )
    return pa.RecordBatch.from_arrays(
        [
            pc.binary_join_element_wise(dataset, exchange_ids, "/"),
            pa.ListArray.from_arrays(bounds, pa.array(np.concatenate([np.zeros(0, np.int32), *ids]))),
            pa.ListArray.from_arrays(bounds, pa.array(mask)),
            exchange_ids,
            providers,
            verdicts,
            pa.repeat(pa.scalar(dataset), kept.size),
        ],
        schema=TRAINING_SHARDS,
    )
