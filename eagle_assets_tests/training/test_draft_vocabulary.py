"""The draft vocabulary against the rule of TRAINERS, written independently with a Python counter."""

from __future__ import annotations

import zipfile
from collections import Counter
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.targets.target import Markers
from eagle_assets.training.draft_vocabulary import (
    DraftVocabulary,
    NothingToCount,
    choose_draft_vocabulary,
    count_generated_tokens,
    coverage_curve,
    mapping_is_consistent,
    token_frequencies,
    write_draft_vocabulary,
)

SIZE = 60  # of a target vocabulary small enough that hypothesis meets every edge
MARKERS = Markers(
    stop=52,
    think_begin=53,
    think_end=54,
    section_begin=55,
    section_end=56,
    call_begin=57,
    argument_begin=58,
    call_end=59,
)

rows = st.lists(st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, 1)), max_size=30), max_size=6)


def batches(rows: list[list[tuple[int, int]]]) -> list[pa.RecordBatch]:
    table = pa.Table.from_pylist(
        [{"input_ids": [i for i, _ in row], "loss_mask": [m for _, m in row]} for row in rows], TRAINING_SHARDS
    )
    return table.to_batches(max_chunksize=2)


def chosen_by_the_rule(counter: Counter[int], size: int) -> list[int]:
    """The markers, then the most frequent ids, ties to the lower id, filled with the lowest unused ones; sorted."""
    chosen = list(astuple(MARKERS))
    by_frequency = sorted(counter, key=lambda token: (-counter[token], token))
    for token in [*by_frequency, *range(SIZE)]:
        if len(chosen) < size and token not in chosen:
            chosen.append(token)
    return sorted(chosen)


@given(rows, st.integers(8, SIZE))
def test_the_mapping_follows_the_rule(rows: list[list[tuple[int, int]]], size: int) -> None:
    counter = Counter(token for row in rows for token, mask in row if mask)
    counts = count_generated_tokens(batches(rows), SIZE)
    assert counts.tolist() == [counter[token] for token in range(SIZE)]
    if not counter:
        with pytest.raises(NothingToCount):
            choose_draft_vocabulary(counts, MARKERS, size)
        return
    draft = choose_draft_vocabulary(counts, MARKERS, size)
    expected = chosen_by_the_rule(counter, size)
    assert draft.token_ids.tolist() == expected
    assert draft.d2t.tolist() == [token - i for i, token in enumerate(expected)]
    assert draft.t2d.tolist() == [token in expected for token in range(SIZE)]
    assert draft.coverage == pytest.approx(sum(counter[token] for token in expected) / counter.total())
    assert mapping_is_consistent(draft.d2t, draft.t2d, counts, MARKERS).passed


@given(rows.filter(lambda rows: any(mask for row in rows for _, mask in row)), st.integers(8, SIZE - 1), st.data())
def test_a_mapping_with_one_wrong_id_fails_its_check(
    rows: list[list[tuple[int, int]]], size: int, data: st.DataObject
) -> None:
    counts = count_generated_tokens(batches(rows), SIZE)
    draft = choose_draft_vocabulary(counts, MARKERS, size)
    wrong = draft.d2t.copy()
    wrong[data.draw(st.integers(0, size - 1))] += data.draw(st.sampled_from([-SIZE, -1, 1, SIZE]))
    assert not mapping_is_consistent(wrong, draft.t2d, counts, MARKERS).passed
    turned = draft.t2d.copy()
    turned[data.draw(st.integers(0, SIZE - 1))] ^= True
    assert not mapping_is_consistent(draft.d2t, turned, counts, MARKERS).passed


def as_mapping(token_ids: list[int]) -> DraftVocabulary:
    t2d = np.isin(np.arange(SIZE), token_ids)
    return DraftVocabulary(np.array(token_ids) - np.arange(len(token_ids)), t2d, 0.0)


def test_a_mapping_without_a_marker_or_with_a_rarer_id_fails_its_check() -> None:
    counts = np.zeros(SIZE, dtype=np.int64)
    counts[[3, 4]] = [5, 6]
    markers = list(astuple(MARKERS))
    for token_ids, passes in (([4, *markers], True), ([3, *markers], False), ([3, 4, *markers[1:]], False)):
        draft = as_mapping(token_ids)
        assert mapping_is_consistent(draft.d2t, draft.t2d, counts, MARKERS).passed is passes


def test_a_marker_that_was_never_generated_is_in_and_takes_the_place_of_the_rarest() -> None:
    counts = np.arange(SIZE, dtype=np.int64)[::-1].copy()
    counts[list(astuple(MARKERS))] = 0
    draft = choose_draft_vocabulary(counts, MARKERS, size=10)
    assert draft.token_ids.tolist() == [0, 1, *astuple(MARKERS)]


@pytest.mark.parametrize("size", [0, 7, SIZE + 1])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="8 to 60"):
        choose_draft_vocabulary(np.ones(SIZE, dtype=np.int64), MARKERS, size)


@given(rows.filter(lambda rows: any(mask for row in rows for _, mask in row)), st.integers(8, SIZE))
def test_the_curve_is_the_coverage_that_each_size_would_have(rows: list[list[tuple[int, int]]], size: int) -> None:
    counts = count_generated_tokens(batches(rows), SIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eagle_assets.training.draft_vocabulary.CURVE_SIZES", (size,))
        curve = coverage_curve(counts, MARKERS)
    assert curve[size] == pytest.approx(choose_draft_vocabulary(counts, MARKERS, size).coverage)
    assert curve[SIZE] == pytest.approx(1)


def test_files_are_what_the_trainers_load(tmp_path: Path) -> None:
    counts = count_generated_tokens(batches([[(3, 1), (3, 1), (4, 0), (5, 1)]]), SIZE)
    draft = choose_draft_vocabulary(counts, MARKERS, size=9)
    d2t_path, t2d_path, mapping_path, frequencies_path = write_draft_vocabulary(draft, counts, tmp_path)
    d2t, t2d = np.load(d2t_path), np.load(t2d_path)
    assert (d2t.dtype, t2d.dtype, t2d.shape) == (np.int64, np.bool_, (SIZE,))
    assert mapping_is_consistent(d2t, t2d, counts, MARKERS).passed
    with zipfile.ZipFile(mapping_path) as mapping:
        assert mapping.read("archive/data/0") == d2t.tobytes()
        assert mapping.read("archive/data/1") == t2d.tobytes()
    frequencies = pq.read_table(frequencies_path).to_pylist()
    assert frequencies[:2] == [{"token": 3, "count": 2, "draft_id": 0}, {"token": 5, "count": 1, "draft_id": None}]
    assert [row["token"] for row in frequencies[2:]] == list(astuple(MARKERS))
    assert [row["draft_id"] for row in frequencies[2:]] == list(range(1, 9))


def test_at_full_size_ties_go_to_the_lower_id_and_gaps_are_filled() -> None:
    size, vocabulary_size = 32_000, 163_840
    generator = np.random.default_rng(0)
    markers = Markers(*range(163_586, 163_594))
    tokens = (generator.zipf(1.2, 200_000) * 7_919) % vocabulary_size
    counts = np.bincount(tokens, minlength=vocabulary_size)
    draft = choose_draft_vocabulary(counts, markers, size)
    counter = Counter(tokens.tolist())
    expected = set(astuple(markers))
    for token in [*sorted(counter, key=lambda t: (-counter[t], t)), *range(vocabulary_size)]:
        if len(expected) == size:
            break
        expected.add(token)
    assert draft.token_ids.tolist() == sorted(expected)
    assert token_frequencies(counts, draft)["count"].to_numpy().sum() == tokens.size
