"""Buys what is missing of a dataset: the one call that the asset makes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eagle_assets.configuration import Configuration, Settings, revealed
from eagle_assets.openrouter.collection import Collection, Question, Watcher
from eagle_assets.openrouter.endpoints import (
    Endpoint,
    Price,
    allowed_endpoints,
    dearest_price,
    default_price,
    evidence_to_ask_for,
    read_endpoints,
    worst_case_usd,
)
from eagle_assets.openrouter.entries import Tick
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.interruption import interruptible
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_reader import journal_folder
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.openrouter.origin import Origin
from eagle_assets.openrouter.progress import Progress
from eagle_assets.openrouter.settlement import (
    settle_by_meter,
    settle_dead_reservations,
    settle_from_generation,
    watch_meter,
)
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.transport import Server
from eagle_assets.openrouter.wanted import Wanted, WantedRequest


class CollectionError(Exception):
    """Nothing can be collected; one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """What a collection did. Counts are of prompts, `attempts` of attempts.

    `already` needed no asking; `refused` will never be asked again, `failed` will be; `beyond_budget` did not fit into
    the budget of the datasets file; `left` were not asked because of a limit of this run, or of a stop. `strays` are
    answers of somebody who was not asked. `stopped` is the sentence that says why it ended early; `fatal` that no
    request can succeed until someone acts on it. `spent_usd` is this run's, with what is unsettled at its worst case.
    `notes` are sentences that a person should read.
    """

    dataset: str
    prompts: int
    already: int
    answered: int
    refused: int
    failed: int
    beyond_budget: int
    left: int
    attempts: int
    strays: int
    spent_usd: float
    unsettled: int
    stopped: str | None
    fatal: bool
    notes: tuple[str, ...]


def collect_missing(
    home_folder: Path,
    dataset: str,
    wanted: Wanted,
    configuration: Configuration,
    settings: Settings,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    on_answer: Callable[[Exchange], None] | None = None,
    tick: Tick | None = None,
    limit: int | None = None,
    timing: Timing | None = None,
) -> CollectionSummary:
    """Send every request that the dataset's journal has no answer to, at most `limit` of them, within the budget.

    An interruption (Ctrl-C, SIGTERM) ends it within the grace and then takes its usual effect; a second one at once.
    Raises CollectionError, JournalError (also where another process collects this dataset) and LedgerError; what was
    bought is in the journal all the same.
    """
    if dataset not in configuration.bought:
        raise CollectionError(f"dataset {dataset} is not bought from OpenRouter; look at the datasets file")
    key = revealed(settings.api_key)
    if key is None:
        raise CollectionError("OPENROUTER_API_KEY is not set; set it, or try everything without a key by `make demo`")
    timing = timing or Timing()
    watcher = Watcher(on_progress, on_answer)

    async def collect() -> CollectionSummary:
        with (
            Journal.open(journal_folder(home_folder, dataset)) as journal,
            Ledger.open(home_folder, configuration) as ledger,
        ):
            async with Server(settings.base_url, key, configuration.concurrency, timing) as server:
                buyer = _Buyer(dataset, configuration, server, journal, ledger, timing, watcher, tick)
                return await buyer.buy(wanted, limit)

    # What is there already stays: looking through it again and again would be a fifth of all the work.
    gc.freeze()
    try:
        return asyncio.run(collect())
    finally:
        gc.unfreeze()


@dataclass(frozen=True)
class _Buyer:
    dataset: str
    configuration: Configuration
    server: Server
    journal: Journal
    ledger: Ledger
    timing: Timing
    watcher: Watcher
    tick: Tick | None

    async def buy(self, wanted: Wanted, limit: int | None) -> CollectionSummary:
        notes = [str(damage) for damage in self.journal.damage]
        if possibly_paid := sum(record.possibly_paid for record in self.journal.recovered):
            notes.append(f"{possibly_paid} requests of an interrupted run were possibly paid; they count as spent")
        await watch_meter(self.server, self.ledger)
        settle_dead_reservations(self.journal, self.ledger, self.dataset)
        await self._settle(tries=1, patient=False)

        missing = np.flatnonzero(~self.journal.are_settled(wanted.prompt_ids, wanted.request_keys))
        asked = missing[:limit]
        before = self._spent_usd()
        endpoints: Sequence[Endpoint] = ()
        if asked.size:
            endpoints, price, note = await self._endpoints()
            notes += note
        origin = Origin.allowed(self.configuration.target, self.configuration.routing, endpoints)
        collection = Collection(
            self.dataset, self.server, self.journal, self.ledger, origin, self.timing, self.watcher, self.tick
        )
        if asked.size:
            evidence = evidence_to_ask_for(endpoints, self.configuration.routing)
            questions = _questions(wanted.read(asked), evidence, price)
            with interruptible(collection.interrupt):
                await self._run(collection, questions, asked.size)
        reached = collection.answered + collection.refused + collection.failed
        ended, beyond = self._end_of_budget(collection.beyond_budget)
        if collection.strays:
            notes.append(f"{collection.strays} answers are not from whom they were asked; they are never trained on")
        return CollectionSummary(
            dataset=self.dataset,
            prompts=len(wanted),
            already=len(wanted) - missing.size,
            answered=collection.answered,
            refused=collection.refused,
            failed=collection.failed,
            beyond_budget=beyond,
            left=missing.size - reached - beyond,
            attempts=collection.attempts,
            strays=collection.strays,
            spent_usd=self._spent_usd() - before,
            unsettled=len(self.ledger.unsettled(self.dataset)),
            stopped=collection.stopped or ended,
            fatal=collection.stopped is not None,
            notes=tuple(notes),
        )

    async def _run(self, collection: Collection, questions: Iterator[Question], total: int) -> None:
        """Ask; and ask again what found no room, as long as settled costs make some."""
        while True:
            attempts = collection.attempts
            await collection.run(questions, total, self.configuration.concurrency)
            await collection.unless_stopped(self._settle(tries=self.timing.generation_tries, patient=True))
            if collection.stopped is not None:
                await self._settle(tries=1, patient=False)
                return
            if not collection.beyond_budget or collection.attempts == attempts:
                return
            questions, collection.beyond_budget = iter(collection.beyond_budget), []

    async def _settle(self, tries: int, patient: bool) -> None:
        """Find out what is not known: exchanges with a name one by one, then the rest by the key's meter."""
        await settle_from_generation(self.server, self.journal, self.ledger, self.dataset, self.timing, tries)
        await settle_by_meter(self.server, self.ledger, self.timing, patient=patient)

    async def _endpoints(self) -> tuple[Sequence[Endpoint], Price, list[str]]:
        """The endpoints that routing allows, the dearest price among them, and what a person should know about it."""
        routing = self.configuration.routing
        status, document = await self.server.get(f"models/{self.configuration.target}/endpoints")
        endpoints = read_endpoints(document)
        if status != 200 or not endpoints:
            price = default_price(routing)
            sentence = (
                f"the prices of {self.configuration.target} could not be had (status {status}): each request is "
                f"reckoned at ${price.prompt_per_million:g} and ${price.completion_per_million:g} a million tokens"
            )
            return (), price, [sentence]
        allowed = allowed_endpoints(endpoints, routing)
        dearest = dearest_price(allowed)
        if dearest is None:
            raise CollectionError(
                f"`routing` in the datasets file leaves no provider of {self.configuration.target}; there are: "
                + ", ".join(sorted({e.slug for e in endpoints}))
            )
        return allowed, dearest, []

    def _spent_usd(self) -> float:
        return self.ledger.totals().datasets[self.dataset].spent_usd

    def _end_of_budget(self, beyond: Sequence[Question]) -> tuple[str | None, int]:
        """Why these questions found no room, and how many of them the datasets file has no budget for: where only this
        run may spend no more, the next one asks them."""
        if not beyond:
            return None, 0
        left = self.ledger.totals().datasets[self.dataset].left_usd
        if self.tick is not None and left >= min(question.worst_usd for question in beyond):
            return (
                f"the ${self.tick.budget_usd:.4f} of this run end here: {len(beyond)} prompts are for the next one",
                0,
            )
        return (
            f"the budget ends here: {len(beyond)} prompts of {self.dataset} might cost more than the ${left:.4f} that "
            "is left; raise `budget_usd` in the datasets file, or lower `max_tokens`"
        ), len(beyond)


def _questions(wanted: Iterable[WantedRequest], evidence: Mapping[str, Any], price: Price) -> Iterator[Question]:
    for prompt_id, key, request, prompt_tokens in wanted:
        worst = worst_case_usd(prompt_tokens, request["max_tokens"], price)
        yield Question(prompt_id, key, {**evidence, **request}, worst)
