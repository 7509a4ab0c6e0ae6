"""How many requests may be in flight, with a clock of the test's own."""

from __future__ import annotations

import asyncio

from eagle_assets.openrouter.pace import Pace


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_grows_while_all_goes_well_and_never_above_the_most() -> None:
    async def run() -> None:
        pace = Pace(20)
        for _ in range(50):
            permits = [await pace.admit() for _ in range(int(pace.window.size))]
            assert pace.in_flight == len(permits) <= 20
            for permit in permits:
                pace.release(permit, "A", overloaded=False, failed=False)
        assert pace.window.size == 20

    asyncio.run(run())


def test_trouble_halves_it_once_and_then_it_grows_by_one_a_round() -> None:
    async def run() -> None:
        clock = Clock()
        pace = Pace(64, clock)
        pace.window.size = 32.0
        permits = [await pace.admit() for _ in range(32)]
        clock.now += 1
        for permit in permits:
            pace.release(permit, None, overloaded=True, failed=True)
        assert pace.window.size == 16
        clock.now += 1
        for permit in [await pace.admit() for _ in range(16)]:
            pace.release(permit, None, overloaded=False, failed=False)
        assert 16.9 < pace.window.size < 17.1

    asyncio.run(run())


def test_one_provider_s_trouble_slows_the_whole_by_its_share() -> None:
    async def run() -> None:
        clock = Clock()
        pace = Pace(64, clock)
        pace.window.size = 40.0
        for provider in ["A"] * 29 + ["B"]:
            pace.release(await pace.admit(), provider, overloaded=False, failed=True)
        clock.now += 1
        for provider in ["B", "B"]:
            pace.release(await pace.admit(), provider, overloaded=True, failed=True, rest=5.0)
        assert 38 < pace.window.size < 40
        assert pace.providers["B"].window.size < pace.providers["A"].window.size
        assert (pace.providers["B"].attempts, pace.providers["B"].failures) == (3, 3)

    asyncio.run(run())


def test_what_a_provider_turned_away_waits_until_it_has_rested() -> None:
    async def run() -> None:
        pace = Pace(8)
        pace.release(await pace.admit(), "B", overloaded=True, failed=True, rest=0.2)
        again = asyncio.create_task(pace.admit("B"))
        other = await pace.admit()
        await asyncio.sleep(0.05)
        assert not again.done()
        pace.release(other, "A", overloaded=False, failed=False)
        permit = await again
        assert pace.now() >= pace.providers["B"].rests_until
        pace.release(permit, "B", overloaded=False, failed=False)
        assert pace.in_flight == 0

    asyncio.run(run())


def test_whoever_stops_waiting_leaves_room_to_others() -> None:
    async def run() -> None:
        pace = Pace(1)
        first = await pace.admit()
        impatient, patient = asyncio.create_task(pace.admit()), asyncio.create_task(pace.admit())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        pace.release(first, None, overloaded=False, failed=False)
        pace.release(await patient, None, overloaded=False, failed=False)
        assert pace.in_flight == 0

    asyncio.run(run())
