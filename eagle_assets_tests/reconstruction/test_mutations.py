"""Damaged exchanges: nothing raises, nothing takes long, and no ids are proved that the evidence denies."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets_tests.reconstruction.mutations import DAMAGES, cases_of_truth, damaged, own_cases, run, wrong_exact

TRUTH = Path(__file__).parents[3] / "shared" / "truth"
CASES = own_cases(20) + (cases_of_truth(TRUTH)[::8] if TRUTH.is_dir() else [])


def test_damaged_lines_neither_crash_nor_prove_anything_wrong() -> None:
    report = run(CASES, 2000, seed=1)
    assert report.lines == 2000
    assert not [finding for finding in report.findings if finding.kind in ("crash", "false exact")]
    # The damage leaves every verdict in place somewhere, so that the run says something.
    assert set(report.verdicts) == {"exact", "consistent", "unverified", "contradicted", "unusable"}


def test_each_damage_changes_lines() -> None:
    rng = Random(1)
    for damage in DAMAGES:
        assert any(damage(dict(case.document), rng) for case in CASES[:200])
    line, what = damaged(CASES[0], rng)
    assert what
    assert b"\n" not in line


@pytest.mark.parametrize(("at", "kind"), [(0, "false exact"), (None, None)])
def test_wrong_ids_that_are_called_exact_are_found(at: int | None, kind: str | None) -> None:
    case = CASES[0]
    exchange: Exchange = exchange_of(case.document)
    ids = list(case.true_ids)
    if at is not None:
        ids[at] += 1
    assert wrong_exact(Reconstruction("x", "exact", ids), exchange, case) == kind
    assert wrong_exact(Reconstruction("x", "consistent", ids), exchange, case) is None
