"""Checks of shard rows as they were written, against the token sequences that they came from.

They do not repeat how the rows were made: they look the sequence of each row up and compare what lies where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.lake.audit import Check
from eagle_assets.training.ragged import Ragged, Rows
from eagle_assets.training.shards import is_trusted, rows_outside_vocabulary

WORST = 5


def shards_hold_only_trusted_ids(shards: pa.Table, sequences: pa.Table, vocabulary_size: int) -> Check:
    """Whether each row stands for a trusted sequence of the dataset, once, and holds its prompt and output, id for id.

    `sequences` are all of the dataset, trusted or not, with at least SEQUENCE_COLUMNS.
    """
    trusted_sequences = sequences.filter(pa.array(is_trusted(sequences["verdict"])))
    matched = _match(shards, trusted_sequences)
    other_ids = ~(matched.same_ids & matched.same_verdict)
    outside = rows_outside_vocabulary(Ragged.from_arrow(shards["input_ids"]), vocabulary_size)
    faults = {
        "rows_without_trusted_sequence": shards.num_rows - matched.rows.num_rows,
        "rows_repeated": shards.num_rows - pc.count_distinct(shards["exchange_id"]).as_py(),
        "rows_with_other_ids": int(np.count_nonzero(other_ids)),
        "rows_outside_vocabulary": int(np.count_nonzero(outside)),
    }
    passed = not any(faults.values())
    found = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in faults.items() if count)
    return Check(
        name="shards_hold_only_trusted_ids",
        passed=passed,
        sentence=(
            f"{shards.num_rows} rows stand for as many of {trusted_sequences.num_rows} trusted sequences, id for id"
            if passed
            else f"of {shards.num_rows} rows: {found}"
        ),
        numbers={"rows": shards.num_rows, "trusted_sequences": trusted_sequences.num_rows, **faults},
        worst=_exchanges(matched.rows, other_ids),
    )


def masks_cover_generated_tokens(shards: pa.Table, sequences: pa.Table) -> Check:
    """Whether each mask is as long as its ids, 0 over the whole prompt and 1 over every generated token after it."""
    matched = _match(shards, sequences)
    mask = matched.loss_mask
    comparable = matched.of_right_length & (mask.lengths == matched.input_ids.lengths)
    expected = np.zeros(mask.values.size, dtype=np.uint8)
    expected[mask.last(np.where(comparable, matched.outputs.lengths, 0))] = 1
    wrong = ~comparable | mask.rows_with(mask.values != expected)
    wrong_rows = int(np.count_nonzero(wrong)) + shards.num_rows - matched.rows.num_rows
    generated = int(np.count_nonzero(mask.values == 1))
    return Check(
        name="masks_cover_generated_tokens",
        passed=wrong_rows == 0,
        sentence=(
            f"{wrong_rows} of {shards.num_rows} masks do not cover exactly what was generated"
            if wrong_rows
            else f"{generated} generated tokens of {mask.values.size} are under the masks of {shards.num_rows} rows"
        ),
        numbers={
            "rows": shards.num_rows,
            "rows_with_wrong_mask": wrong_rows,
            "tokens": matched.input_ids.values.size,
            "generated_tokens": generated,
        },
        worst=_exchanges(matched.rows, wrong),
    )


@dataclass(frozen=True)
class _Matched:
    """Shard rows whose exchange has a sequence, side by side with it."""

    rows: pa.Table
    input_ids: Ragged
    loss_mask: Ragged
    prompts: Ragged
    outputs: Ragged
    same_verdict: Rows

    @property
    def of_right_length(self) -> Rows:
        return self.input_ids.lengths == self.prompts.lengths + self.outputs.lengths

    @property
    def same_ids(self) -> Rows:
        comparable = self.of_right_length
        expected = self.input_ids.values.copy()
        for part, positions in ((self.prompts, self.input_ids.first), (self.outputs, self.input_ids.last)):
            values = part.values[np.repeat(comparable, part.lengths)]
            expected[positions(np.where(comparable, part.lengths, 0))] = values
        return comparable & ~self.input_ids.rows_with(self.input_ids.values != expected)


def _match(shards: pa.Table, sequences: pa.Table) -> _Matched:
    position = pc.index_in(shards["exchange_id"], value_set=sequences["exchange_id"].combine_chunks())
    rows = shards.filter(pc.is_valid(position))
    sequences = sequences.take(position.drop_null())
    return _Matched(
        rows=rows,
        input_ids=Ragged.from_arrow(rows["input_ids"]),
        loss_mask=Ragged.from_arrow(rows["loss_mask"]),
        prompts=Ragged.from_arrow(sequences["prompt_ids"]),
        outputs=Ragged.from_arrow(sequences["output_ids"]),
        same_verdict=np.asarray(pc.equal(rows["verdict"], sequences["verdict"]), dtype=np.bool_),
    )


def _exchanges(rows: pa.Table, faulty: Rows) -> tuple[dict[str, str], ...]:
    return tuple({"exchange_id": e.as_py()} for e in rows["exchange_id"].filter(pa.array(faulty))[:WORST])
