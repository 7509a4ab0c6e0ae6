"""The ledger's totals as they are shown: for programs, and for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from eagle_assets.openrouter.totals import Amounts, Totals


def totals_as_json(totals: Totals) -> dict[str, Any]:
    """`budget_usd`, and `spent_usd`, `reserved_usd`, `left_usd`, `unsettled_usd`, `unsettled`, also by dataset."""
    return {
        "budget_usd": totals.budget_usd,
        **asdict(totals.all),
        "datasets": {name: asdict(amounts) for name, amounts in totals.datasets.items()},
    }


def totals_as_table(totals: Totals) -> Table:
    """A row for each dataset and one for all. What is unsettled counts as spent, at its worst case."""
    table = Table(title=f"Budget: ${totals.budget_usd:.2f}", show_footer=True)
    for number, (heading, footer) in enumerate(zip(_HEADINGS, _cells("all", totals.all), strict=True)):
        table.add_column(heading, footer, justify="right" if number else "left")
    for name, amounts in totals.datasets.items():
        table.add_row(*_cells(name, amounts))
    return table


_HEADINGS = ("dataset", "spent $", "reserved $", "left $", "of spent: unsettled $")


def _cells(name: str, amounts: Amounts) -> tuple[str, ...]:
    unsettled = ""
    if amounts.unsettled:
        unsettled = f"{amounts.unsettled_usd:.4f} ({amounts.unsettled} request{'s' * (amounts.unsettled > 1)})"
    return name, f"{amounts.spent_usd:.4f}", f"{amounts.reserved_usd:.4f}", f"{amounts.left_usd:.4f}", unsettled
