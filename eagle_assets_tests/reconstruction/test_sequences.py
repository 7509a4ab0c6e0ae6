"""What is held back so that the stated error of a dataset stays within its limit, and the audit of what is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import exchanges_in
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.roundtrip import hypotheses_by_name, serve_again
from eagle_assets.reconstruction.sequence_checks import (
    Examined,
    check_sequences,
    contradictions_below_threshold,
    counts_close,
    residual_error_below_limit,
    roundtrip_is_exact,
)
from eagle_assets.reconstruction.sequences import held_back, residual_error

GOOD = Examined("x", "P", "consistent", 10, text_agrees=True, count_gap=0, residual_error=0.01)

errors = st.floats(0, 1, allow_nan=False) | st.just(float("nan"))


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
    assert residual_error_below_limit([replace(GOOD, residual_error=error) for error in kept[::-1]], limit).passed
    assert not gone or sum(kept) + gone[0] > limit * (len(kept) + 1)


def test_an_error_that_is_not_stated_counts_as_certain() -> None:
    assert residual_error({"verdict": "consistent", "evidence": "{}"}) == 1.0


def test_good_sequences_pass_every_check() -> None:
    assert [check.passed for check in check_sequences([GOOD] * 3, 0.05)] == [True] * 4
    assert [check.passed for check in check_sequences([], 0.05)] == [True] * 4


def test_each_check_fails_for_its_own_fault_and_names_the_worst() -> None:
    untold = replace(GOOD, exchange_id="bad", text_agrees=False)
    assert roundtrip_is_exact([GOOD, untold]).worst == (
        {"exchange_id": "bad", "provider": "P", "verdict": "consistent"},
    )
    for gap in (1, -1, None):
        assert not counts_close([GOOD, replace(GOOD, count_gap=gap)]).passed
    wrong = replace(GOOD, verdict="contradicted")
    unusable = replace(GOOD, verdict="unusable")
    assert contradictions_below_threshold([GOOD, wrong, unusable]).passed
    assert not contradictions_below_threshold([GOOD, wrong, wrong, unusable, unusable]).passed
    doubtful = replace(GOOD, residual_error=0.2)
    exact = replace(GOOD, verdict="exact", residual_error=0.0)
    assert residual_error_below_limit([GOOD, doubtful], 0.2).passed
    assert not residual_error_below_limit([GOOD, doubtful, *[exact] * 50], 0.05).passed


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
