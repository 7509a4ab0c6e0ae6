"""Sends probes: requests whose answers tell how a provider serves, bought within the budget and kept like all else."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from eagle_assets.configuration import PROBES, Configuration, Routing, Settings, revealed
from eagle_assets.openrouter.attempts import JournalRecord
from eagle_assets.openrouter.collection import Collection, Question, Watcher
from eagle_assets.openrouter.endpoints import Endpoint, dearest_price, worst_case_usd
from eagle_assets.openrouter.entries import Tick
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.interruption import interruptible
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_reader import journal_folder
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.openrouter.origin import Origin
from eagle_assets.openrouter.requests import request_key
from eagle_assets.openrouter.settlement import (
    settle_by_meter,
    settle_dead_reservations,
    settle_from_generation,
    watch_meter,
)
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.transport import Server

MOST_OF_THE_BUDGET = 0.01
AT_ONCE = 4  # of one provider's


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of one provider's probes, those of earlier runs included. `stopped` says why not all were asked, where
    they were not."""

    slug: str
    exchanges: tuple[Exchange, ...]
    spent_usd: float
    stopped: str | None


def ask_probes(
    home_folder: Path,
    requests: Sequence[tuple[dict[str, Any], int]],
    endpoints: Sequence[Endpoint],
    configuration: Configuration,
    settings: Settings,
    timing: Timing | None = None,
) -> list[Probed]:
    """Ask each provider of these endpoints every request, given with its prompt tokens, unless it has answered before.

    At most MOST_OF_THE_BUDGET is spent on it, ever. Raises JournalError and LedgerError.
    """
    key = revealed(settings.api_key)
    timing = timing or Timing(attempts=3)
    tick = Tick(PROBES, MOST_OF_THE_BUDGET * configuration.budget_usd)

    async def ask_all() -> list[Probed]:
        with (
            Journal.open(journal_folder(home_folder, PROBES)) as journal,
            Ledger.open(home_folder, configuration) as ledger,
        ):
            async with Server(settings.base_url, key, configuration.concurrency, timing) as server:
                await watch_meter(server, ledger)
                settle_dead_reservations(journal, ledger, PROBES)
                collections: dict[str, Collection] = {}
                asked: list[Coroutine[Any, Any, None]] = []
                for slug in sorted({endpoint.slug for endpoint in endpoints}):
                    own = [endpoint for endpoint in endpoints if endpoint.slug == slug]
                    questions = [q for q in _questions(slug, own, requests) if not _is_settled(journal, q)]
                    origin = Origin.allowed(configuration.target, Routing(), own)
                    collections[slug] = Collection(PROBES, server, journal, ledger, origin, timing, Watcher(), tick)
                    asked.append(collections[slug].run(iter(questions), len(questions), AT_ONCE))

                def interrupt() -> None:
                    for collection in collections.values():
                        collection.interrupt()

                with interruptible(interrupt):
                    await asyncio.gather(*asked)
                await settle_from_generation(server, journal, ledger, PROBES, timing, timing.generation_tries)
                await settle_by_meter(server, ledger, timing, patient=False)
            records = list(journal.read())
        return [_probed(slug, collection, records) for slug, collection in collections.items()]

    return asyncio.run(ask_all())


_NO_BUDGET = f"probes may cost {MOST_OF_THE_BUDGET:.0%} of `budget_usd`, and that is used up"


def _probed(slug: str, collection: Collection, records: Sequence[JournalRecord]) -> Probed:
    own = [record for record in records if record.prompt_id.startswith(f"{slug}: ")]
    return Probed(
        slug,
        tuple(record.exchange for record in own if record.outcome == "answered"),
        fsum(record.cost_usd or 0.0 for record in own),
        collection.stopped or (_NO_BUDGET if collection.beyond_budget else None),
    )


def _questions(
    slug: str, endpoints: Sequence[Endpoint], requests: Sequence[tuple[dict[str, Any], int]]
) -> list[Question]:
    price = dearest_price(endpoints)
    assert price is not None
    questions = []
    for number, (body, prompt_tokens) in enumerate(requests):
        request = {
            **body,
            "stream_options": {"include_usage": True},
            "usage": {"include": True},
            "provider": {"only": [slug], "allow_fallbacks": False},
        }
        worst = worst_case_usd(prompt_tokens, request["max_tokens"], price)
        questions.append(Question(f"{slug}: {number}", request_key(request), request, worst))
    return questions


def _is_settled(journal: Journal, question: Question) -> bool:
    return journal.is_settled(question.prompt_id, question.request_key)
