"""Verdicts held against the truth that the sandbox kept to itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from eagle_assets.lake.home import Home

TRUTH = """
read_json($truth, format = 'newline_delimited', columns = {exchange_id: 'VARCHAR', true_ids: 'INTEGER[]'})
"""
"""The table that is the file `$truth`."""

_SCORE = f"""
SELECT
    verdict,
    count(*),
    count(*) FILTER (output_ids = true_ids),
    count(*) FILTER (output_ids <> true_ids)
FROM all_sequences
JOIN {TRUTH} USING (exchange_id)
GROUP BY verdict
"""


@dataclass(frozen=True)
class VerdictScore:
    """Responses of one verdict whose true ids are known; those neither right nor wrong were given no ids."""

    verdict: str
    responses: int
    right: int
    wrong: int


def score(home: Home, truth_file: Path) -> dict[str, VerdictScore]:
    """Scores by verdict. `truth_file` holds `exchange_id, true_ids` of each answer as JSON lines."""
    with duckdb.connect(home.catalogue, read_only=True) as connection:
        rows = connection.execute(_SCORE, {"truth": str(truth_file)}).fetchall()
    return {verdict: VerdictScore(verdict, *counts) for verdict, *counts in rows}


def false_exact(scores: Mapping[str, VerdictScore]) -> int:
    """Responses called `exact` that were not given their true ids."""
    return scores["exact"].responses - scores["exact"].right if "exact" in scores else 0
