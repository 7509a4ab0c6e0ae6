"""Small token sequences that the tests of this room share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from eagle_assets.lake.audit import Check
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import TOKEN_SEQUENCES, TRAINING_SHARDS
from eagle_assets.lake.version import new_version

VOCABULARY_SIZE = 163_840

ids = st.lists(st.integers(-2, VOCABULARY_SIZE + 1), max_size=6)
verdicts = st.sampled_from(["exact", "consistent", "unverified", "contradicted", "unusable"])


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with only the keys that matter to a test; `exchange_id` counts up where it is not given."""
    return pa.Table.from_pylist([{"exchange_id": f"e{i}", **row} for i, row in enumerate(rows)], TOKEN_SEQUENCES)


def sequence(verdict: str, prompt_ids: list[int] | None, output_ids: list[int] | None) -> dict[str, Any]:
    return {"verdict": verdict, "prompt_ids": prompt_ids, "output_ids": output_ids, "provider": "Chutes"}


anything = st.lists(st.builds(sequence, verdicts, st.none() | ids, st.none() | ids), max_size=12)


def publish_shards(home: Home, dataset: str, rows: list[dict[str, Any]]) -> None:
    """Shards of a dataset with a good audit; rows need `input_ids` and `loss_mask`, the rest has a default."""
    filled = [
        {
            "id": f"{dataset}/e{number}",
            "exchange_id": f"e{number}",
            "provider": "Chutes",
            "verdict": "exact",
            "dataset": dataset,
            **row,
        }
        for number, row in enumerate(rows)
    ]
    with new_version(home, "training_shards", dataset) as version:
        version.write_rows("part.parquet", TRAINING_SHARDS, filled)
        assert version.audit([Check("of_the_test", True, "good")]).passed


def row(prompt: list[int], output: list[int], **other: Any) -> dict[str, Any]:
    """A shard row of a prompt and an output."""
    return {"input_ids": prompt + output, "loss_mask": [0] * len(prompt) + [1] * len(output), **other}
