"""The teller: whoever hands in an entry learns what became of it, whatever the ledger does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from eagle_assets.openrouter.entries import Reservation, Settlement
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.openrouter.teller import Teller


def test_an_entry_that_cannot_be_made_fails_and_later_ones_are_made(tmp_path: Path) -> None:
    async def hand_in(teller: Teller) -> bool:
        async with asyncio.timeout(10):
            with pytest.raises(OverflowError):
                await teller.enter(Reservation("endless", "B3", float("inf"), None))
            assert await teller.enter(Reservation("good", "B3", 0.5, None))
            return await teller.enter(Settlement("good", 0.25))

    with Ledger(tmp_path / "ledger.sqlite", 1.0, {"B3": None}) as ledger:
        teller = Teller(ledger)
        assert asyncio.run(hand_in(teller))
        teller.close()
        assert ledger.totals().all.spent_usd == 0.25
