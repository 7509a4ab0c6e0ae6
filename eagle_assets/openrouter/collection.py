"""Asks many prompts at once: each attempt reserved, noted and settled, retried where that can help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, wait_exponential

from eagle_assets.openrouter.attempts import Attempt, JournalRecord, new_local_id
from eagle_assets.openrouter.decisions import Outcome, error_code
from eagle_assets.openrouter.entries import Reservation, Settlement, Tick
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.ledger import Ledger, LedgerError
from eagle_assets.openrouter.no_ledger import NoLedger
from eagle_assets.openrouter.origin import Origin, too_many
from eagle_assets.openrouter.outcome import error_details
from eagle_assets.openrouter.pace import Pace
from eagle_assets.openrouter.progress import Progress, ProviderProgress
from eagle_assets.openrouter.record_file import JournalError
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.teller import Teller
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.totals import Amounts
from eagle_assets.openrouter.transport import Server, Trouble

SYNC_SECONDS = 0.5
SHOW_SECONDS = 0.25
ROOM_SECONDS = 0.25
CANCELLED = "cancelled: the run was stopped before the answer ended"
INTERRUPTED = "interrupted: what was in flight is recorded; run it again to go on"
OVERLOADED = frozenset({408, 429, 503, 524, 529})


@dataclass(frozen=True, slots=True)
class Question:
    """A request that is to be asked once, whatever number of attempts that takes."""

    prompt_id: str
    request_key: str
    request: dict[str, Any]
    worst_usd: float


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one attempt, without its body. `provider` is who answered, or who is to blame."""

    outcome: Outcome
    reason: str | None
    provider: str | None
    overloaded: bool
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who looks on: `on_progress` gets the state now and then, `on_answer` each answer's exchange as it ends."""

    on_progress: Callable[[Progress], None] | None = None
    on_answer: Callable[[Exchange], None] | None = None


class Collection:
    """The asking of one dataset's questions. `stopped` is the sentence that says why it ended early, if it did;
    `beyond_budget` are the questions whose worst case found no room."""

    def __init__(
        self,
        dataset: str,
        server: Server,
        journal: Journal,
        ledger: Ledger | NoLedger,
        origin: Origin,
        timing: Timing,
        watcher: Watcher,
        tick: Tick | None = None,
    ) -> None:
        self.answered = self.refused = self.failed = self.attempts = self.strays = 0
        self.beyond_budget: list[Question] = []
        self.stopped: str | None = None
        self._dataset, self._tick = dataset, tick
        self._server, self._journal, self._ledger = server, journal, ledger
        self._origin, self._timing, self._watcher = origin, timing, watcher
        self._pace = Pace(1)
        self._total = 0
        self._failures_in_a_row = 0
        self._answers, self._stray = 0, ""
        self._in_flight = 0
        self._changed = asyncio.Event()
        self._began, self._shown_at = monotonic(), float("-inf")
        self._patience = _Patience(timing.room_wait)
        self._group: asyncio.Task[Any] | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._grace_is_over = False

    async def run(self, questions: Iterator[Question], total: int, concurrency: int) -> None:
        """Ask all, at most `concurrency` at a time. After a stop nothing more is asked; what is under way ends.

        When it is cancelled, what has come of the answers under way is noted before it goes.
        """
        self._total = total
        self._pace = Pace(concurrency)
        self._teller = Teller(self._ledger)
        self._group = asyncio.current_task()
        try:
            async with self._synced_regularly(), asyncio.TaskGroup() as tasks:
                for _ in range(min(concurrency, total)):
                    tasks.create_task(self._work(questions))
        except asyncio.CancelledError:
            if not self._grace_is_over or self._group is None or self._group.uncancel():
                raise
        finally:
            self._group = None
            if self._grace is not None:
                self._grace.cancel()
            self._teller.close()
            self._show(now=True)

    def interrupt(self) -> None:
        """Ask nothing more; what is in flight may end within the grace, then it is recorded as it is."""
        self._stop(INTERRUPTED)
        if self._group is not None:
            self._grace = asyncio.get_running_loop().call_later(self._timing.grace, self._end_grace)

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do other work for the dataset, which a stop breaks off where it is."""
        stop = asyncio.create_task(self._until_stopped())
        task = asyncio.create_task(work)
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def _end_grace(self) -> None:
        self._grace_is_over = True
        if self._group is not None:
            self._group.cancel()

    async def _work(self, questions: Iterator[Question]) -> None:
        for question in questions:
            try:
                await self._answer(question)
            except (JournalError, LedgerError) as error:
                self._stop(str(error))
            if self.stopped is not None:
                return

    async def _answer(self, question: Question) -> None:
        attempts: list[Ended] = []
        ended = await self._attempt(question, attempts)
        if ended is not None and ended.outcome == "retry":
            ended = await self._try_again(question, attempts)
        if ended is None and self.stopped is None:
            self.beyond_budget.append(question)
            return
        if not attempts:
            return
        last = attempts[-1]
        self.answered += last.outcome == "answered"
        self.refused += last.outcome == "refused"
        self.failed += last.outcome in ("retry", "fatal")
        if last.outcome == "fatal":
            self._stop(str(last.reason))
        self._show()

    async def _try_again(self, question: Question, attempts: list[Ended]) -> Ended | None:
        """The attempts after the first, which has failed; None where the next one was not to be made."""
        made = iter(attempts[:1])

        async def attempt() -> Ended | None:
            return next(made, None) or await self._attempt(question, attempts)

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda ended: ended is not None and ended.outcome == "retry"),
            stop=stop_after_attempt(self._timing.attempts),
            wait=self._wait,
            sleep=self._sleep,
            retry_error_callback=lambda _: attempts[-1],
        )
        last: Ended | None = await retrying(attempt)
        return last

    async def _attempt(self, question: Question, attempts: list[Ended]) -> Ended | None:
        """One attempt, added to `attempts`; None where it was not to be made."""
        local_id = new_local_id()
        permit = await self._pace.admit(attempts[-1].provider if attempts else None)
        ended: Ended | None = None
        try:
            if not await self._reserve(local_id, question):
                return None
            self._in_flight += 1
            self.attempts += 1
            try:
                ended = await self._exchange(local_id, question)
            finally:
                self._in_flight -= 1
                self._announce()
        finally:
            self._pace.release(
                permit,
                ended.provider if ended else None,
                overloaded=ended is not None and ended.overloaded,
                failed=ended is None or ended.outcome != "answered",
                rest=ended.retry_after if ended else None,
            )
        attempts.append(ended)
        self._count_failures(ended)
        self._show()
        return ended

    async def _reserve(self, local_id: str, question: Question) -> bool:
        """Set the worst case aside. While others are under way, here or elsewhere, their ending may make room."""
        reservation = Reservation(local_id, self._dataset, question.worst_usd, self._tick)
        while self.stopped is None:
            changed = self._changed
            if await self._teller.enter(reservation):
                if self.stopped is None:
                    return True
                await self._teller.enter(Settlement(local_id, 0.0))  # it never left
                return False
            if self._in_flight:
                await changed.wait()
            elif self._patience.is_over(self._ledger.totals().all):
                return False
            else:
                await asyncio.sleep(ROOM_SECONDS)
        return False

    async def _exchange(self, local_id: str, question: Question) -> Ended:
        attempt = self._journal.ask(local_id, question.prompt_id, question.request_key, question.request)
        try:
            trouble = await self._server.ask(attempt, self._journal)
        except asyncio.CancelledError:
            record, response = self._journal.conclude(attempt, CANCELLED)
            self._teller.enter_at_once(_settlement(record, response))
            self._journal.sync()
            raise
        return await self._end(attempt, trouble)

    async def _end(self, attempt: Attempt, trouble: Trouble | None) -> Ended:
        record, response = self._journal.conclude(
            attempt,
            trouble.sentence if trouble else None,
            never_sent=trouble is not None and trouble.never_sent,
            overlong=trouble is not None and trouble.overlong,
        )
        blamed = error_details(record.exchange.body).provider if response.error else None
        if record.outcome == "answered":
            self._look_at_origin(response)
            if self._watcher.on_answer is not None:
                self._watcher.on_answer(record.exchange)
        await self._teller.enter(_settlement(record, response))
        return Ended(
            record.outcome,
            record.reason,
            response.provider or blamed,
            overloaded=(trouble is not None and trouble.timed_out)
            or error_code(record.exchange.status, response) in OVERLOADED,
            retry_after=retry_after(record, datetime.now(UTC)),
        )

    def _look_at_origin(self, response: Response) -> None:
        stray = self._origin.stray(response.model, response.provider)
        self._answers += 1
        if stray is not None:
            self.strays, self._stray = self.strays + 1, stray
        if too_many(self.strays, self._answers):
            self._stop(
                f"{self.strays} of {self._answers} answers are not from whom they were asked, the last from "
                f"{self._stray}: they are kept and never trained on; look at `routing` in the datasets file, and at "
                "the provider's page, before more is bought"
            )

    def _count_failures(self, ended: Ended) -> None:
        self._failures_in_a_row = self._failures_in_a_row + 1 if ended.outcome == "retry" else 0
        if self._failures_in_a_row >= self._timing.failures_in_a_row:
            self._stop(
                f"the last {self._failures_in_a_row} attempts all failed, with no answer between them ({ended.reason}):"
                " run it again when the server is well"
            )

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
                await self._until_stopped()

    async def _until_stopped(self) -> None:
        while self.stopped is None:
            await self._changed.wait()

    def _wait(self, state: RetryCallState) -> float:
        ended: Ended | None = state.outcome.result() if state.outcome else None
        most = self._timing.wait_most
        if ended is not None and ended.retry_after is not None:
            return min(ended.retry_after, most) * random.uniform(1.0, 1.1)
        first = self._timing.wait_first
        return wait_exponential(multiplier=first, max=most)(state) + random.uniform(0.0, first)

    def _show(self, now: bool = False) -> None:
        if self._watcher.on_progress is None or (not now and monotonic() - self._shown_at < SHOW_SECONDS):
            return
        self._shown_at = monotonic()
        amounts = self._ledger.totals().datasets[self._dataset]
        self._watcher.on_progress(
            Progress(
                dataset=self._dataset,
                total=self._total,
                answered=self.answered,
                refused=self.refused,
                failed=self.failed,
                beyond_budget=len(self.beyond_budget),
                attempts=self.attempts,
                strays=self.strays,
                in_flight=self._in_flight,
                window=int(self._pace.window.size),
                spent_usd=amounts.spent_usd,
                reserved_usd=amounts.reserved_usd,
                left_usd=amounts.left_usd,
                seconds=monotonic() - self._began,
                providers={n: ProviderProgress(p.attempts, p.failures) for n, p in self._pace.providers.items()},
            )
        )

    @asynccontextmanager
    async def _synced_regularly(self) -> AsyncIterator[None]:
        """While this is open, what is noted is durable within a second."""

        async def sync_for_ever() -> None:
            while True:
                await asyncio.sleep(SYNC_SECONDS)
                try:
                    await asyncio.to_thread(self._journal.sync)
                except JournalError as error:
                    self._stop(str(error))
                    return

        task = asyncio.create_task(sync_for_ever())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _settlement(record: JournalRecord, response: Response) -> Settlement:
    return Settlement(
        record.local_id,
        record.cost_usd,
        record.generation_id,
        response.provider,
        response.prompt_tokens or 0,
        response.completion_tokens or 0,
    )


class _Patience:
    """With what others reserved: as long as something changes, and `seconds` more."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: Amounts | None = None
        self._since = monotonic()

    def is_over(self, amounts: Amounts) -> bool:
        if amounts != self._seen:
            self._seen, self._since = amounts, monotonic()
        return not amounts.reserved_usd or monotonic() - self._since >= self._seconds


def retry_after(record: JournalRecord, now: datetime) -> float | None:
    """Seconds that the server asks to wait, from its Retry-After header (RFC 9110: seconds, or a date)."""
    value = next((v.strip() for name, v in record.headers if name.lower() == "retry-after"), "")
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return None
