"""What is held back so that the stated error of a dataset stays within its limit, and the audit of what is left."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import exchanges_in
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.roundtrip import hypotheses_by_name, serve_again
from eagle_assets.reconstruction.sequence_checks import EXAMINED, Examination, examined_again
from eagle_assets.reconstruction.sequences import held_back, residual_error

GOOD = {
    "exchange_id": "x",
    "provider": "P",
    "verdict": "consistent",
    "tokens": 10,
    "text_agrees": True,
    "count_gap": 0,
    "error": 0.01,
}

errors = st.floats(0, 1, allow_nan=False) | st.just(float("nan"))


def examined(rows: list[dict[str, Any]]) -> Examination:
    examination = Examination()
    examination.add(pa.Table.from_pylist(rows, EXAMINED))
    return examination


@given(rows=st.lists(errors, max_size=30), limit=st.floats(0.001, 0.5))
@example(rows=[0.0786, 0.0357, 0.0357], limit=0.05)
def test_as_few_as_can_be_are_held_back_and_the_rest_is_within_the_limit(rows: list[float], limit: float) -> None:
    held = held_back(np.array(rows, dtype=np.float64), limit)
    consistent = [(error, bool(gone)) for error, gone in zip(rows, held, strict=True) if error == error]
    kept = sorted(error for error, gone in consistent if not gone)
    gone = sorted(error for error, gone in consistent if gone)
    assert sum(held) == len(gone)
    assert sum(kept) <= limit * len(kept) + 1e-9
    assert not gone or not kept or kept[-1] <= gone[0]
    left = examined([{**GOOD, "error": error} for error in kept[::-1]])
    assert left.residual_error_below_limit(limit).passed
    assert not gone or sum(kept) + gone[0] > limit * (len(kept) + 1)


def test_an_error_that_is_not_stated_counts_as_certain() -> None:
    assert residual_error({"verdict": "consistent", "evidence": "{}"}) == 1.0


def test_good_sequences_pass_every_check() -> None:
    assert [check.passed for check in examined([GOOD] * 3).checks(0.05)] == [True] * 4
    assert [check.passed for check in examined([]).checks(0.05)] == [True] * 4


def test_each_check_fails_for_its_own_fault_and_names_the_worst() -> None:
    untold = {**GOOD, "exchange_id": "bad", "text_agrees": False}
    assert examined([GOOD, untold]).roundtrip_is_exact().worst == (
        {"exchange_id": "bad", "provider": "P", "verdict": "consistent"},
    )
    for gap in (1, -1, None):
        assert not examined([GOOD, {**GOOD, "count_gap": gap}]).counts_close().passed
    wrong = {**GOOD, "verdict": "contradicted"}
    unusable = {**GOOD, "verdict": "unusable"}
    assert examined([GOOD, wrong, unusable]).contradictions_below_threshold().passed
    assert not examined([GOOD, wrong, wrong, unusable, unusable]).contradictions_below_threshold().passed
    doubtful = {**GOOD, "error": 0.2}
    exact = {**GOOD, "verdict": "exact", "error": 0.0}
    assert examined([GOOD, doubtful]).residual_error_below_limit(0.2).passed
    assert not examined([GOOD, doubtful, *[exact] * 50]).residual_error_below_limit(0.05).passed


def test_files_add_up_to_what_all_rows_together_say() -> None:
    """However rows lie in files: counts, sums, and the worst of all of them."""
    rows = [
        {**GOOD, "exchange_id": f"e{i}", "provider": f"P{i % 3}", "verdict": verdict, "error": error, "count_gap": gap}
        for i, (verdict, error, gap) in enumerate(
            product(("exact", "consistent", "contradicted", "unusable"), (0.1, 0.4, 0.2, 0.4), (0, 1, None))
        )
    ]
    together = examined(rows)
    apart = Examination()
    for begin in range(0, len(rows), 5):
        apart.add(pa.Table.from_pylist(rows[begin : begin + 5], EXAMINED))
    assert apart.checks(0.05) == together.checks(0.05)
    assert apart.counts() == together.counts()
    assert (apart.rows, apart.trusted_tokens) == (48, 240)
    assert [row["error"] for row in together.residual_error_below_limit(0.05).worst] == [0.4] * 6 + [0.2] * 3 + [0.1]


def test_what_does_not_hold_the_ids_that_were_examined_agrees_with_nothing() -> None:
    named = {
        "exchange_id": ["x"],
        "provider": ["P"],
        "verdict": ["consistent"],
        "evidence": ['{"residual_error": 0.01}'],
    }
    sequences = pa.table(named)
    found = pa.table({"exchange_id": ["x"], "tokens": [10], "text_agrees": [True], "count_gap": [0]})
    assert examined_again(sequences, found, as_found=True).to_pylist() == [GOOD]
    assert examined_again(sequences, found, as_found=False).to_pylist() == [{**GOOD, "text_agrees": False}]
    with pytest.raises(ValueError, match="other exchanges"):
        examined_again(sequences, found.set_column(0, "exchange_id", pa.array(["y"])), as_found=True)


SHARED = Path(__file__).parents[3] / "shared"
FILES = sorted(SHARED.glob("recorded/*.jsonl")) + sorted(SHARED.glob("truth/exchanges_server[vsiy]*.jsonl"))

if FILES:

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_trusted_sequences_served_again_give_what_was_received(path: Path) -> None:
        exchanges: list[Exchange] = list(exchanges_in([path]))
        calibration = calibrate(exchanges)
        hypotheses = hypotheses_by_name(calibration)
        for exchange, said in zip(exchanges, reconstruct(exchanges, calibration), strict=True):
            if said.trusted and said.output_ids is not None:
                convention = None if "ids_from" in said.evidence else said.evidence["convention"]
                servers = said.evidence.get("servers", ())
                again = serve_again(read(exchange), said.output_ids, convention, hypotheses, servers)
                assert (again.text_agrees, again.count_gap) == (True, 0), exchange.exchange_id
                wrong = [*said.output_ids, said.output_ids[-1]]
                less = serve_again(read(exchange), wrong, convention, hypotheses, servers)
                assert not (less.text_agrees and less.count_gap == 0), exchange.exchange_id
