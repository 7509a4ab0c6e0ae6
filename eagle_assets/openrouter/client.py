"""Buys what is missing of a dataset: the one call that the asset makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_assets.configuration import Configuration, OpenRouterDataset, Settings
from eagle_assets.openrouter.collection import Collection, Progress, Question
from eagle_assets.openrouter.endpoints import (
    Price,
    allowed_endpoints,
    dearest_price,
    default_price,
    read_endpoints,
    worst_case_usd,
)
from eagle_assets.openrouter.journal import Journal, journal_folder
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.openrouter.requests import Prompt, build_request, request_key
from eagle_assets.openrouter.settlement import settle_dead_reservations, settle_from_generation
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.transport import Server


class CollectionError(Exception):
    """Nothing can be collected; one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """What a collection did. Counts are of prompts, `attempts` of attempts.

    `already` needed no asking; `refused` will never be asked again, `failed` will be; `unaffordable` did not fit into
    the budget; `left` were not asked because of `limit` or a stop. `stopped` is the sentence that says why it ended
    early; `fatal` that no request can succeed until someone acts on it. `spent_usd` is this run's, with what is
    unsettled at its worst case. `notes` are sentences that a person should read.
    """

    dataset: str
    prompts: int
    already: int
    answered: int
    refused: int
    failed: int
    unaffordable: int
    left: int
    attempts: int
    spent_usd: float
    unsettled: int
    stopped: str | None
    fatal: bool
    notes: tuple[str, ...]


def collect_missing(
    home_folder: Path,
    dataset: str,
    prompts: Sequence[Prompt],
    configuration: Configuration,
    settings: Settings,
    prompt_token_counts: Mapping[str, int],
    on_progress: Callable[[Progress], None] | None = None,
    *,
    limit: int | None = None,
    timing: Timing | None = None,
) -> CollectionSummary:
    """Ask every prompt that the dataset's journal has no answer to, at most `limit` of them, within the budget.

    `prompt_token_counts` has the tokens of each prompt by its id. Raises CollectionError, JournalError (also where
    another process collects this dataset) and LedgerError; what was bought is in the journal all the same.
    """
    source = configuration.bought.get(dataset)
    if source is None:
        raise CollectionError(f"dataset {dataset} is not bought from OpenRouter; look at the datasets file")
    if settings.api_key is None or not settings.api_key.get_secret_value().strip():
        raise CollectionError("OPENROUTER_API_KEY is not set; set it, or try everything without a key by `make demo`")
    key = settings.api_key.get_secret_value().strip()
    timing = timing or Timing()

    async def collect() -> CollectionSummary:
        with (
            Journal.open(journal_folder(home_folder, dataset)) as journal,
            Ledger.open(home_folder, configuration) as ledger,
        ):
            async with Server(settings.base_url, key, configuration.concurrency, timing) as server:
                buyer = _Buyer(dataset, source, configuration, server, journal, ledger, timing)
                return await buyer.buy(prompts, prompt_token_counts, limit, on_progress)

    return asyncio.run(collect())


@dataclass(frozen=True)
class _Buyer:
    dataset: str
    source: OpenRouterDataset
    configuration: Configuration
    server: Server
    journal: Journal
    ledger: Ledger
    timing: Timing

    async def buy(
        self,
        prompts: Sequence[Prompt],
        token_counts: Mapping[str, int],
        limit: int | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> CollectionSummary:
        notes = [str(damage) for damage in self.journal.damage]
        if possibly_paid := sum(record.possibly_paid for record in self.journal.recovered):
            notes.append(f"{possibly_paid} requests of an interrupted run were possibly paid; they count as spent")
        settle_dead_reservations(self.journal, self.ledger, self.dataset)
        await self._settle(tries=1)

        requests = [build_request(prompt, self.source, self.configuration) for prompt in prompts]
        keyed = [(prompt, request, request_key(request)) for prompt, request in zip(prompts, requests, strict=True)]
        missing = [row for row in keyed if not self.journal.is_settled(row[0].prompt_id, row[2])]
        asked = missing[:limit]
        collection = Collection(self.dataset, self.server, self.journal, self.ledger, self.timing, on_progress)
        before = self._spent_usd()
        if asked:
            price, note = await self._price()
            notes += note
            await collection.run(
                [
                    Question(
                        prompt.prompt_id,
                        key,
                        request,
                        worst_case_usd(token_counts[prompt.prompt_id], request["max_tokens"], price),
                    )
                    for prompt, request, key in asked
                ],
                self.configuration.concurrency,
            )
            await self._settle(tries=1 if collection.stopped else self.timing.generation_tries)
        reached = collection.answered + collection.refused + collection.failed
        return CollectionSummary(
            dataset=self.dataset,
            prompts=len(prompts),
            already=len(keyed) - len(missing),
            answered=collection.answered,
            refused=collection.refused,
            failed=collection.failed,
            unaffordable=collection.unaffordable,
            left=len(missing) - reached - collection.unaffordable,
            attempts=collection.attempts,
            spent_usd=self._spent_usd() - before,
            unsettled=len(self.ledger.unsettled(self.dataset)),
            stopped=collection.stopped or self._budget_sentence(collection.unaffordable),
            fatal=collection.stopped is not None,
            notes=tuple(notes),
        )

    async def _settle(self, tries: int) -> None:
        await settle_from_generation(self.server, self.journal, self.ledger, self.dataset, self.timing, tries)

    async def _price(self) -> tuple[Price, list[str]]:
        """The dearest price that routing allows, and what a person should know about it."""
        routing = self.configuration.routing
        status, document = await self.server.get(f"models/{self.configuration.target}/endpoints")
        endpoints = read_endpoints(document)
        if status != 200 or not endpoints:
            price = default_price(routing)
            return price, [
                f"the prices of {self.configuration.target} could not be had (status {status}): each request is "
                f"reckoned at ${price.prompt * 1e6:g} and ${price.completion * 1e6:g} a million tokens"
            ]
        price_or_none = dearest_price(allowed_endpoints(endpoints, routing))
        if price_or_none is None:
            raise CollectionError(
                f"`routing` in the datasets file leaves no provider of {self.configuration.target}; there are: "
                + ", ".join(sorted({e.slug for e in endpoints}))
            )
        return price_or_none, []

    def _spent_usd(self) -> float:
        return self.ledger.totals().datasets[self.dataset].spent_usd

    def _budget_sentence(self, unaffordable: int) -> str | None:
        if not unaffordable:
            return None
        left = self.ledger.totals().datasets[self.dataset].left_usd
        return (
            f"the budget ends here: {unaffordable} prompts of {self.dataset} might cost more than the ${left:.4f} that "
            "is left; raise `budget_usd` in the datasets file, or lower `max_tokens`"
        )
