"""Token frequencies are counted once for each file of shards, and again where what is kept of it is damaged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eagle_assets.lake.audit import Check, Published, require
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.lake.version import new_version
from eagle_assets.training.draft_vocabulary import Counts
from eagle_assets.training.part_counts import count_in_parts

SIZE = 60
FIRST, SECOND = [[3, 3, 7], [59]], [[3, 0]]


def publish(home: Home, *parts: list[list[int]]) -> Published:
    """Shards in as many files as there are parts; the first id of each row is of its prompt."""
    with new_version(home, "training_shards", "B3") as version:
        for number, rows in enumerate(parts):
            name = f"part-{number:05d}.parquet"
            shards = [{"input_ids": [1, *row], "loss_mask": [0, *(1 for _ in row)]} for row in rows]
            version.write_batches(name, TRAINING_SHARDS, [pa.Table.from_pylist(shards, TRAINING_SHARDS)])
            version.tell(name, repr(rows), {"generated_tokens": sum(map(len, rows))})
        assert version.audit([Check("fine", True, "it is")]).passed
    return require(home, "training_shards", "B3")


def counted(*parts: list[list[int]]) -> list[int]:
    counter = Counter(token for rows in parts for row in rows for token in row)
    return [counter[token] for token in range(SIZE)]


def spoil(path: Path) -> None:
    path.write_bytes(b"no Parquet")


def count(shards: Published) -> Counts:
    return count_in_parts(shards, SIZE)


def test_only_new_files_are_read(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert count(publish(home, FIRST)).tolist() == counted(FIRST)
    grown = publish(home, FIRST, SECOND)
    spoil(grown.paths[0])  # whoever reads it now fails
    assert count(grown).tolist() == counted(FIRST, SECOND)
    fewer = publish(home, SECOND)
    assert count(fewer).tolist() == counted(SECOND)
    assert len(list(home.kept("token_counts", "B3").iterdir())) == 1


@pytest.mark.parametrize("damage", ["no Parquet", "other counts"])
def test_what_is_kept_and_damaged_is_counted_again(tmp_path: Path, damage: str) -> None:
    home = Home(tmp_path)
    shards = publish(home, FIRST)
    count(shards)
    (kept,) = home.kept("token_counts", "B3").iterdir()
    if damage == "no Parquet":
        spoil(kept)
    else:
        table = pq.read_table(kept)
        more = pa.array(table["count"].to_numpy() + 1)
        pq.write_table(table.set_column(1, "count", more), kept)
    assert count(shards).tolist() == counted(FIRST)
    assert np.array_equal(count(shards), counted(FIRST))
