"""Small token sequences that the tests of this room share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from eagle_assets.lake.schemas import TOKEN_SEQUENCES

VOCABULARY_SIZE = 163_840

ids = st.lists(st.integers(-2, VOCABULARY_SIZE + 1), max_size=6)
verdicts = st.sampled_from(["exact", "consistent", "unverified", "contradicted", "unusable"])


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with only the keys that matter to a test; `exchange_id` counts up where it is not given."""
    return pa.Table.from_pylist([{"exchange_id": f"e{i}", **row} for i, row in enumerate(rows)], TOKEN_SEQUENCES)


def sequence(verdict: str, prompt_ids: list[int] | None, output_ids: list[int] | None) -> dict[str, Any]:
    return {"verdict": verdict, "prompt_ids": prompt_ids, "output_ids": output_ids, "provider": "Chutes"}


anything = st.lists(st.builds(sequence, verdicts, st.none() | ids, st.none() | ids), max_size=12)
