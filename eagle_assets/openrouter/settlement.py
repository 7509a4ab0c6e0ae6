"""Real costs found out after the exchange: what a dead process left behind, and what only `/generation` tells."""

from __future__ import annotations

import asyncio

from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_exponential

from eagle_assets.openrouter.attempts import generation_cost_usd
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.transport import Server
from eagle_assets.openrouter.values import as_dict

AT_ONCE = 8


def settle_dead_reservations(journal: Journal, ledger: Ledger, dataset: str) -> None:
    """End what an earlier process reserved and did not end: at the cost that the journal knows, else at its worst.

    The caller holds the dataset's journal, so no process that is alive has such a reservation.
    """
    dead = set(ledger.reserved(dataset))
    for record in journal.read() if dead else ():
        if record.local_id in dead:
            ledger.settle(record.local_id, record.cost_usd, record.generation_id)
            dead.remove(record.local_id)
    for reservation_id in dead:
        ledger.settle(reservation_id, None)


async def settle_from_generation(
    server: Server, journal: Journal, ledger: Ledger, dataset: str, timing: Timing, tries: int
) -> None:
    """Ask `/generation` for every unknown cost whose exchange has a name, `tries` times each; keep what it says."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def ask(generation_id: str) -> float | None:
        async with at_once:
            status, document = await server.get("generation", id=generation_id)
        data = as_dict(as_dict(document).get("data"))
        cost = generation_cost_usd(data)
        if status == 200 and cost is not None:
            journal.add_generation(generation_id, data)
            return cost
        return None

    async def settle(reservation_id: str, generation_id: str) -> None:
        retrying = AsyncRetrying(
            retry=retry_if_result(lambda cost: cost is None),
            stop=stop_after_attempt(tries),
            wait=wait_exponential(timing.generation_wait_first, timing.wait_most),
            retry_error_callback=lambda state: None,
        )
        cost: float | None = await retrying(ask, generation_id)
        if cost is not None:
            ledger.settle(reservation_id, cost)

    named = [(row.reservation_id, row.generation_id) for row in ledger.unsettled(dataset) if row.generation_id]
    await asyncio.gather(*(settle(reservation_id, generation_id) for reservation_id, generation_id in named))


async def watch_meter(server: Server, ledger: Ledger) -> None:
    """Note what the key's meter shows before the first request of this ledger leaves."""
    if not ledger.watch_meter(server.key_digest, None):
        ledger.watch_meter(server.key_digest, await server.meter_usd())


async def settle_by_meter(server: Server, ledger: Ledger, timing: Timing, *, patient: bool) -> None:
    """Bound what nobody told by what the key's meter shows: gateway errors and requests cut before they had a name.

    Where the meter shows exactly the known costs, the unknown ones are nothing. Where it shows more, it must first
    stand still for a while, with no request under way: it may lag behind. It never makes anything cheaper than that.
    """
    if not ledger.totals().all.unsettled or not ledger.watch_meter(server.key_digest, None):
        return
    shown = await server.meter_usd()
    if shown is None:
        return
    unexplained = ledger.unexplained_usd(shown)
    if unexplained != 0.0:
        if unexplained is None or not patient:
            return
        await asyncio.sleep(timing.meter_quiet)
        if await server.meter_usd() != shown:
            return
    ledger.settle_by_meter(shown)
