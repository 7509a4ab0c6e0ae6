"""Token frequencies shard by shard: what was counted in a published file is kept beside it and never counted again."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eagle_assets.durability import write_atomically
from eagle_assets.lake.audit import Published
from eagle_assets.lake.code import digest_of_code
from eagle_assets.lake.kept import Part, forget_others, parts_of
from eagle_assets.lake.parquet import batches_of
from eagle_assets.training.draft_vocabulary import Counts, count_generated_tokens

_CODE = ("training/draft_vocabulary.py", "training/part_counts.py", "training/ragged.py")
_KEPT = "token_counts"


def count_in_parts(shards: Published, vocabulary_size: int) -> Counts:
    """How often each id was generated in the shards of a dataset; only new files are read. Shape (vocabulary_size,)."""
    parts = parts_of(shards, _KEPT, digest_of_code(_CODE))
    counts = np.zeros(vocabulary_size, dtype=np.int64)
    for part in parts:
        counts += _of_part(part, vocabulary_size)
    forget_others(shards.home, _KEPT, str(shards.audit.dataset), parts)
    return counts


def _of_part(part: Part, vocabulary_size: int) -> Counts:
    try:
        return _read(part, vocabulary_size)
    except (OSError, pa.ArrowInvalid, _Damaged):
        counts = count_generated_tokens(batches_of(part.path, ["input_ids", "loss_mask"]), vocabulary_size)
        _keep(part, counts)
        return counts


class _Damaged(Exception):
    """What is kept is not what was counted."""


def _read(part: Part, vocabulary_size: int) -> Counts:
    kept = pq.read_table(part.kept, page_checksum_verification=True)
    counts = np.zeros(vocabulary_size, dtype=np.int64)
    counts[kept["token_id"].to_numpy()] = kept["count"].to_numpy()
    if counts.sum() != part.file.counts.get("generated_tokens"):
        raise _Damaged
    return counts


def _keep(part: Part, counts: Counts) -> None:
    ids = np.flatnonzero(counts)
    data = io.BytesIO()
    table = pa.table({"token_id": ids.astype(np.int32), "count": counts[ids]})
    pq.write_table(table, data, compression="zstd", write_page_checksum=True)
    write_atomically(part.kept, data.getvalue())
