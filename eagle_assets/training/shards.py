"""Token sequences to training shards: prompt and output in one row of ids, with a mask over what was generated.

The trainers read `input_ids` and `loss_mask` as they are: mask 1 exactly where a token was generated, not shifted.
Everything works on whole Arrow buffers; no token becomes a Python object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

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
        reasons = _reasons_to_leave_out(batch, vocabulary_size)
        left_out.update(reasons[reasons != ""].tolist())
        yield _rows(batch.filter(pa.array(reasons == "")), dataset)


def is_trusted(verdicts: pa.Array | pa.ChunkedArray) -> Rows:
    """Which verdicts let a sequence into the shards. Shape (rows,)."""
    return np.asarray(pc.is_in(verdicts, value_set=pa.array(sorted(TRUSTED), pa.string())), dtype=np.bool_)


def rows_outside_vocabulary(ids: Ragged, vocabulary_size: int) -> Rows:
    """Which rows hold an id that is not in [0, vocabulary_size). Shape (rows,)."""
    return ids.rows_with((ids.values < 0) | (ids.values >= vocabulary_size))


def _reasons_to_leave_out(batch: pa.RecordBatch, vocabulary_size: int) -> npt.NDArray[Any]:
    prompts, outputs = Ragged.from_arrow(batch["prompt_ids"]), Ragged.from_arrow(batch["output_ids"])
    verdicts = np.asarray(pc.fill_null(batch["verdict"], "missing"), dtype=np.str_)
    return np.select(
        [
            ~is_trusted(batch["verdict"]),
            prompts.lengths == 0,
            outputs.lengths == 0,
            rows_outside_vocabulary(prompts, vocabulary_size) | rows_outside_vocabulary(outputs, vocabulary_size),
        ],
        [np.strings.add("verdict_", verdicts), "prompt_ids_missing", "output_empty", "id_outside_vocabulary"],
        default="",
    )


def _rows(kept: pa.RecordBatch, dataset: str) -> pa.RecordBatch:
    prompts, outputs = Ragged.from_arrow(kept["prompt_ids"]), Ragged.from_arrow(kept["output_ids"])
    # Prompt and output of all rows alternate, so one repeat gives the mask, and the mask says where either goes.
    mask = np.repeat(
        np.tile(np.array([0, 1], dtype=np.uint8), kept.num_rows),
        np.stack([prompts.lengths, outputs.lengths], axis=1).ravel(),
    )
    ids = np.empty(mask.size, dtype=np.int32)
    ids[mask == 0] = prompts.values
    ids[mask == 1] = outputs.values
    bounds = pa.array(prompts.offsets + outputs.offsets, pa.int32())
    return pa.RecordBatch.from_arrays(
        [
            pc.binary_join_element_wise(dataset, kept["exchange_id"], "/"),
            pa.ListArray.from_arrays(bounds, pa.array(ids)),
            pa.ListArray.from_arrays(bounds, pa.array(mask)),
            kept["exchange_id"],
            kept["provider"],
            kept["verdict"],
            pa.repeat(pa.scalar(dataset), kept.num_rows),
        ],
        schema=TRAINING_SHARDS,
    )
