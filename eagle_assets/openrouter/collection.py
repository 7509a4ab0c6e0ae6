"""Asks many prompts at once: each attempt reserved, noted and settled, retried where that can help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, wait_exponential

from eagle_assets.openrouter.attempts import JournalRecord, new_local_id
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.ledger import Ledger, LedgerError
from eagle_assets.openrouter.record_file import JournalError
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.transport import Server

SYNC_SECONDS = 0.5
CANCELLED = "cancelled: the run was stopped before the answer ended"


@dataclass(frozen=True, slots=True)
class Question:
    """A request that is to be asked once, whatever number of attempts that takes."""

    prompt_id: str
    request_key: str
    request: dict[str, Any]
    worst_usd: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a collection is; counts are of prompts, but `attempts` and `in_flight` of attempts."""

    dataset: str
    total: int
    answered: int
    refused: int
    failed: int
    attempts: int
    in_flight: int
    spent_usd: float
    reserved_usd: float


class Collection:
    """The asking of one dataset's questions. `stopped` is the sentence that says why it ended early, if it did."""

    def __init__(
        self,
        dataset: str,
        server: Server,
        journal: Journal,
        ledger: Ledger,
        timing: Timing,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.answered = self.refused = self.failed = self.attempts = self.unaffordable = 0
        self.stopped: str | None = None
        self._dataset = dataset
        self._server = server
        self._journal = journal
        self._ledger = ledger
        self._timing = timing
        self._on_progress = on_progress
        self._total = 0
        self._in_flight = 0
        self._changed = asyncio.Event()
        self._syncing = asyncio.Lock()

    async def run(self, questions: Sequence[Question], concurrency: int) -> None:
        """Ask all, `concurrency` at a time. After a fatal answer nothing more is asked; what is under way ends.

        When it is cancelled, what has come of the answers under way is noted before it goes.
        """
        self._total = len(questions)
        waiting = iter(questions)
        async with self._synced_regularly(), asyncio.TaskGroup() as tasks:
            for _ in range(min(concurrency, len(questions))):
                tasks.create_task(self._work(waiting))

    async def _work(self, waiting: Iterator[Question]) -> None:
        for question in waiting:
            try:
                await self._answer(question)
            except (JournalError, LedgerError) as error:
                self._stop(str(error))
            if self.stopped is not None:
                return

    async def _answer(self, question: Question) -> None:
        attempts: list[JournalRecord] = []
        retrying = AsyncRetrying(
            retry=retry_if_result(lambda record: record is not None and record.outcome == "retry"),
            stop=stop_after_attempt(self._timing.attempts),
            wait=self._wait,
            sleep=self._sleep,
            retry_error_callback=lambda state: None,
        )
        await retrying(self._attempt, question, attempts)
        if not attempts:
            self.unaffordable += self.stopped is None
            return
        outcome = attempts[-1].outcome
        self.answered += outcome == "answered"
        self.refused += outcome == "refused"
        self.failed += outcome in ("retry", "fatal")
        if outcome == "fatal":
            self._stop(str(attempts[-1].reason))
        self._show()

    async def _attempt(self, question: Question, attempts: list[JournalRecord]) -> JournalRecord | None:
        """One attempt, added to `attempts`; None where it was not to be made."""
        local_id = new_local_id()
        if not await self._reserve(local_id, question):
            return None
        self._in_flight += 1
        self.attempts += 1
        try:
            record = await self._exchange(local_id, question)
        finally:
            self._in_flight -= 1
            self._announce()
        attempts.append(record)
        if record.outcome == "retry":
            self._show()
        return record

    async def _reserve(self, local_id: str, question: Question) -> bool:
        """Set the worst case aside. While others are under way, their ending may make room for it."""
        while self.stopped is None:
            if self._ledger.reserve(local_id, self._dataset, question.worst_usd):
                return True
            if not self._in_flight:
                return False
            await self._changed.wait()
        return False

    async def _exchange(self, local_id: str, question: Question) -> JournalRecord:
        attempt = self._journal.ask(local_id, question.prompt_id, question.request_key, question.request)
        try:
            error, never_sent = await self._server.ask(attempt, self._journal)
        except asyncio.CancelledError:
            record = self._journal.end(attempt, CANCELLED)
            self._journal.sync()
            self._ledger.settle(local_id, record.cost_usd, record.generation_id)
            raise
        record = self._journal.end(attempt, error, never_sent=never_sent)
        async with self._syncing:  # whoever waited here finds it done by the one before
            if not self._journal.is_synced:
                await asyncio.to_thread(self._journal.sync)
        self._ledger.settle(local_id, record.cost_usd, record.generation_id)
        return record

    def _stop(self, sentence: str) -> None:
        self.stopped = self.stopped or sentence
        self._announce()

    def _announce(self) -> None:
        """Wake whoever waits for room in the budget, or sleeps before another attempt, to look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but not on after a stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.stopped is None:
                    await self._changed.wait()

    def _wait(self, state: RetryCallState) -> float:
        most = self._timing.wait_most
        asked_for = retry_after(state.outcome.result(), datetime.now(UTC)) if state.outcome else None
        if asked_for is not None:
            return min(asked_for, most) * random.uniform(1.0, 1.1)
        first = self._timing.wait_first
        return wait_exponential(multiplier=first, max=most)(state) + random.uniform(0.0, first)

    def _show(self) -> None:
        if self._on_progress is not None:
            amounts = self._ledger.totals().datasets[self._dataset]
            self._on_progress(
                Progress(
                    dataset=self._dataset,
                    total=self._total,
                    answered=self.answered,
                    refused=self.refused,
                    failed=self.failed,
                    attempts=self.attempts,
                    in_flight=self._in_flight,
                    spent_usd=amounts.spent_usd,
                    reserved_usd=amounts.reserved_usd,
                )
            )

    @asynccontextmanager
    async def _synced_regularly(self) -> AsyncIterator[None]:
        """While this is open, what is noted is durable within a second."""

        async def sync_for_ever() -> None:
            while True:
                await asyncio.sleep(SYNC_SECONDS)
                async with self._syncing:
                    await asyncio.to_thread(self._journal.sync)

        task = asyncio.create_task(sync_for_ever())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def retry_after(record: JournalRecord, now: datetime) -> float | None:
    """Seconds that the server asks to wait, from its Retry-After header (RFC 9110: seconds, or a date)."""
    value = next((v.strip() for name, v in record.headers if name.lower() == "retry-after"), "")
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return None
