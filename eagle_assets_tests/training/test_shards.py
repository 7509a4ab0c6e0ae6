"""Shards hold the ids of trusted sequences and nothing else, and the checks notice when they do not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_assets.lake.audit import Check
from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.targets.kimi import target_named
from eagle_assets.training.shard_checks import check_shards
from eagle_assets.training.shards import SEQUENCE_COLUMNS, shard_batches
from eagle_assets_tests.training.sequences import VOCABULARY_SIZE, anything, sequence, table


def shards_of(sequences: pa.Table, batch_size: int = 1_000) -> tuple[pa.Table, Counter[str]]:
    left_out: Counter[str] = Counter()
    batches = sequences.select(SEQUENCE_COLUMNS).to_batches(max_chunksize=batch_size)
    made = list(shard_batches(batches, "B3", VOCABULARY_SIZE, left_out))
    return pa.Table.from_batches(made, TRAINING_SHARDS), left_out


def expected_rows(sequences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rule of the shards, one token after another."""
    return [
        {
            "id": f"B3/e{i}",
            "input_ids": row["prompt_ids"] + row["output_ids"],
            "loss_mask": [0 for _ in row["prompt_ids"]] + [1 for _ in row["output_ids"]],
            "exchange_id": f"e{i}",
            "provider": "Chutes",
            "verdict": row["verdict"],
            "dataset": "B3",
        }
        for i, row in enumerate(sequences)
        if row["verdict"] in ("exact", "consistent")
        and row["prompt_ids"]
        and row["output_ids"]
        and all(0 <= token < VOCABULARY_SIZE for token in row["prompt_ids"] + row["output_ids"])
    ]


def checks_of(shards: pa.Table, sequences: pa.Table, shard_batch: int = 2, sequence_batch: int = 3) -> list[Check]:
    return check_shards(
        lambda columns: iter(shards.select(columns).to_batches(shard_batch)),
        lambda columns: iter(sequences.select(columns).to_batches(sequence_batch)),
        VOCABULARY_SIZE,
    )


@given(anything, st.integers(1, 5))
def test_rows_are_prompt_and_output_with_a_mask_over_the_output(rows: list[dict[str, Any]], batch_size: int) -> None:
    shards, left_out = shards_of(table(rows), batch_size)
    assert shards.to_pylist() == expected_rows(rows)
    assert shards.num_rows + left_out.total() == len(rows)


@given(anything)
def test_what_was_built_passes_both_checks(rows: list[dict[str, Any]]) -> None:
    sequences = table(rows)
    shards, _ = shards_of(sequences)
    trusted = checks_of(shards, sequences)[0]
    masks = checks_of(shards, sequences)[1]
    assert trusted.passed, trusted.sentence
    assert masks.passed, masks.sentence
    assert masks.numbers["generated_tokens"] == sum(sum(row["loss_mask"]) for row in shards.to_pylist())


def test_each_sequence_that_is_left_out_is_counted_by_its_reason() -> None:
    _, left_out = shards_of(
        table(
            [
                sequence("exact", [1], [2]),
                sequence("unverified", [1], [2]),
                sequence("unverified", None, None),
                sequence("contradicted", [1], [VOCABULARY_SIZE]),
                {"verdict": None, "prompt_ids": [1], "output_ids": [2]},
                sequence("exact", None, [2]),
                sequence("consistent", [], [2]),
                sequence("exact", [1], None),
                sequence("consistent", [1], []),
                sequence("exact", [1], [5, VOCABULARY_SIZE]),
                sequence("exact", [-1], [5]),
            ]
        )
    )
    assert left_out == {
        "verdict_unverified": 2,
        "verdict_contradicted": 1,
        "verdict_missing": 1,
        "prompt_ids_missing": 2,
        "output_empty": 2,
        "id_outside_vocabulary": 2,
    }


def test_a_cut_output_ends_where_it_was_cut_and_a_whole_one_keeps_its_stop_token() -> None:
    stop = target_named("moonshotai/kimi-k2.5").markers.stop
    cut, whole = [5, 6, 7], [5, 6, 7, stop]
    shards, _ = shards_of(table([sequence("exact", [1], cut), sequence("exact", [1], whole)]))
    assert shards["input_ids"].to_pylist() == [[1, 5, 6, 7], [1, 5, 6, 7, stop]]
    assert shards["loss_mask"].to_pylist() == [[0, 1, 1, 1], [0, 1, 1, 1, 1]]


def test_building_twice_gives_the_same_rows() -> None:
    sequences = table([sequence("exact", [1, 2], [3]), sequence("consistent", [4], [5, 6])])
    assert shards_of(sequences)[0].equals(shards_of(sequences, batch_size=1)[0])


SEQUENCES = [
    sequence("exact", [1, 2], [3, 4, 5]),
    sequence("unverified", [1, 2], [3, 4]),
    sequence("consistent", [7], [8, 8]),
    sequence("exact", [9, 9, 9], [1]),
]


def spoilt(row: int, **changes: Any) -> pa.Table:
    rows = shards_of(table(SEQUENCES))[0].to_pylist()
    rows[row].update(changes)
    return pa.Table.from_pylist(rows, TRAINING_SHARDS)


@pytest.mark.parametrize(
    ("row", "changes", "fault"),
    [
        (0, {"input_ids": [1, 2, 3, 4, 6]}, "rows_with_other_ids"),
        (0, {"input_ids": [1, 2, 3, 5, 4]}, "rows_with_other_ids"),
        (0, {"input_ids": [2, 1, 3, 4, 5]}, "rows_with_other_ids"),
        (1, {"input_ids": [7, 8]}, "rows_with_other_ids"),
        (1, {"input_ids": [7, 8, 8, 8]}, "rows_with_other_ids"),
        (1, {"input_ids": []}, "rows_with_other_ids"),
        (2, {"verdict": "consistent"}, "rows_with_other_ids"),
        (2, {"input_ids": [9, 9, 9, VOCABULARY_SIZE]}, "rows_outside_vocabulary"),
        (0, {"exchange_id": "e1"}, "rows_without_trusted_sequence"),
        (0, {"exchange_id": "stranger"}, "rows_without_trusted_sequence"),
        (0, {"exchange_id": "e3", "input_ids": [9, 9, 9, 1], "loss_mask": [0, 0, 0, 1]}, "rows_repeated"),
    ],
)
def test_a_spoilt_row_fails_the_check_of_ids(row: int, changes: dict[str, Any], fault: str) -> None:
    check = checks_of(spoilt(row, **changes), table(SEQUENCES))[0]
    assert not check.passed
    assert check.numbers[fault] == 1


@pytest.mark.parametrize(
    ("row", "mask"),
    [
        (0, [0, 0, 0, 1, 1]),  # shifted, as for a trainer that wants the next token
        (0, [0, 1, 1, 1, 1]),
        (0, [1, 1, 0, 0, 0]),
        (0, [0, 0, 0, 0, 0]),
        (0, [0, 0, 1, 1, 2]),
        (1, [0, 1]),
        (1, [0, 1, 1, 1]),
        (2, []),
    ],
)
def test_a_spoilt_mask_fails_the_check_of_masks_for_that_row_alone(row: int, mask: list[int]) -> None:
    shards = spoilt(row, loss_mask=mask)
    check = checks_of(shards, table(SEQUENCES))[1]
    assert not check.passed
    assert check.numbers["rows_with_wrong_mask"] == 1
    assert check.worst == ({"exchange_id": shards["exchange_id"][row].as_py()},)


def test_a_mask_without_its_sequence_is_a_wrong_mask() -> None:
    assert not checks_of(spoilt(0, exchange_id="stranger"), table(SEQUENCES))[1].passed


def test_no_trusted_sequence_gives_no_rows_and_passes() -> None:
    sequences = table([sequence("unusable", None, None)])
    shards, left_out = shards_of(sequences)
    assert (shards.num_rows, left_out) == (0, {"verdict_unusable": 1})
    assert checks_of(shards, sequences)[0].passed
    assert checks_of(shards, sequences)[1].passed


def test_ids_are_the_shards_own_integers() -> None:
    shards, _ = shards_of(table([sequence("exact", [163_606], [163_607])]))
    assert shards.schema.equals(TRAINING_SHARDS)
    assert np.asarray(shards["input_ids"][0].values).tolist() == [163_606, 163_607]


@given(anything, st.integers(1, 5), st.integers(1, 5))
def test_how_rows_come_in_batches_makes_no_difference(rows: list[dict[str, Any]], one: int, other: int) -> None:
    sequences = table(rows)
    shards, _ = shards_of(sequences)
    assert checks_of(shards, sequences, one, other) == checks_of(shards, sequences, 100, 100)


def test_rows_in_another_order_fail_the_check_of_ids() -> None:
    shards = shards_of(table(SEQUENCES))[0]
    check = checks_of(shards.take([1, 0, 2]), table(SEQUENCES))[0]
    assert not check.passed
    assert check.numbers["rows_out_of_order"] == 1


def test_every_row_of_another_dataset_is_a_stranger() -> None:
    shards = shards_of(table(SEQUENCES))[0]
    only, masks = checks_of(shards, table([{**s, "exchange_id": f"other{n}"} for n, s in enumerate(SEQUENCES)]))
    assert only.numbers["rows_without_trusted_sequence"] == masks.numbers["rows_with_wrong_mask"] == shards.num_rows
