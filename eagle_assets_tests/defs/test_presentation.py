"""What an asset's page shows at once."""

from __future__ import annotations

import pyarrow as pa

from eagle_assets.defs.presentation import MOST_TO_LOOK_AT, to_look_at
from eagle_assets.lake.schemas import TOKEN_SEQUENCES


def test_responses_to_look_at_are_the_contradicted_ones_first_with_their_reasons_in_words() -> None:
    verdicts = ["exact"] * 3 + ["unverified"] * 30 + ["contradicted"] * 2
    rows = [{"exchange_id": f"e{i}", "verdict": v, "reasons": ["count_mismatch"]} for i, v in enumerate(verdicts)]
    shown = to_look_at(pa.Table.from_pylist(rows, TOKEN_SEQUENCES).to_batches(max_chunksize=4))
    records = [record.data for record in shown["look at these first"].records]
    assert [record["eagle-assets show"] for record in records] == ["e33", "e34", *(f"e{i}" for i in range(3, 11))]
    assert len(records) == MOST_TO_LOOK_AT
    assert "count" in str(records[0]["why"])
    assert to_look_at(pa.Table.from_pylist(rows[:3], TOKEN_SEQUENCES).to_batches()) == {}
