"""The ledger behind an event loop: entries of many requests go into one transaction, off the loop's thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from eagle_assets.openrouter.entries import Reservation, Settlement
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.openrouter.no_ledger import NoLedger


class Teller:
    """Enters reservations and settlements in the order in which they are handed in, as many at once as wait.

    Each call returns once its entry is durable, and raises what the ledger does where it could not be made.
    """

    def __init__(self, ledger: Ledger | NoLedger) -> None:
        self._ledger = ledger
        self._waiting: list[tuple[Reservation | Settlement, asyncio.Future[bool]]] = []
        self._thread = ThreadPoolExecutor(1, "ledger")
        self._at_work: asyncio.Task[None] | None = None

    async def enter(self, entry: Reservation | Settlement) -> bool:
        """False for a reservation that would go over a cap, else True."""
        loop = asyncio.get_running_loop()
        entered: asyncio.Future[bool] = loop.create_future()
        self._waiting.append((entry, entered))
        if self._at_work is None:
            self._at_work = loop.create_task(self._work())
        # Shielded: an entry that is on its way is made, whatever becomes of who asked for it.
        return await asyncio.shield(entered)

    def enter_at_once(self, entry: Reservation | Settlement) -> None:
        """For whoever is being cancelled and may not wait."""
        self._ledger.apply([entry])

    def close(self) -> None:
        """Wait for the entries that are being made."""
        self._thread.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            entries = [entry for entry, _ in batch]
            try:
                results = await loop.run_in_executor(self._thread, self._ledger.apply, entries)
            except Exception as error:  # whatever it is, whoever waits must learn of it
                for _, entered in batch:
                    _end(entered, error)
            else:
                for (_, entered), result in zip(batch, results, strict=True):
                    _end(entered, result)
        self._at_work = None


def _end(entered: asyncio.Future[bool], result: bool | Exception) -> None:
    with suppress(asyncio.InvalidStateError):
        if isinstance(result, bool):
            entered.set_result(result)
        else:
            entered.set_exception(result)
            entered.exception()  # it may be that nobody waits any more
