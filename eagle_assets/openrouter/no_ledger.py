"""What stands in the place of the ledger where nothing is paid."""

from __future__ import annotations

from collections.abc import Sequence

from eagle_assets.openrouter.entries import Reservation, Settlement
from eagle_assets.openrouter.totals import Totals, totals_of


class NoLedger:
    """Lets everything through, and has spent nothing."""

    def __init__(self, dataset: str) -> None:
        self._dataset = dataset

    def apply(self, entries: Sequence[Reservation | Settlement]) -> list[bool]:
        return [True] * len(entries)

    def totals(self) -> Totals:
        return totals_of([], 0.0, {self._dataset: None})
