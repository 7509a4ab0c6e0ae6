"""Asks the team's own OpenAI-compatible server what is missing of a dataset: the same client and journal, no budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np

from eagle_assets.configuration import Configuration, ServerDataset, Settings, revealed
from eagle_assets.openrouter.client import CollectionSummary
from eagle_assets.openrouter.collection import Collection, Question, Watcher
from eagle_assets.openrouter.interruption import interruptible
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_reader import journal_folder
from eagle_assets.openrouter.no_ledger import NoLedger
from eagle_assets.openrouter.origin import Origin
from eagle_assets.openrouter.progress import Progress
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.transport import Server
from eagle_assets.openrouter.wanted import Wanted

UNSTREAMED = Timing(first_byte=1_800.0)  # nothing comes before the answer is whole


def ask_own_server(
    home_folder: Path,
    name: str,
    dataset: ServerDataset,
    wanted: Wanted,
    configuration: Configuration,
    settings: Settings,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    limit: int | None = None,
    timing: Timing = UNSTREAMED,
) -> CollectionSummary:
    """Send every request that the dataset's journal has no answer to, at most `limit` of them.

    An interruption is met as by `collect_missing`. Raises JournalError; what was answered is in the journal all the
    same.
    """
    key = revealed(settings.server_key)
    origin = Origin(dataset.model or configuration.target, frozenset(), frozenset(), frozenset())

    async def ask() -> CollectionSummary:
        with Journal.open(journal_folder(home_folder, name)) as journal:
            missing = np.flatnonzero(~journal.are_settled(wanted.prompt_ids, wanted.request_keys))
            asked = missing[:limit]
            questions = (Question(prompt_id, key, request, 0.0) for prompt_id, key, request, _ in wanted.read(asked))
            async with Server(dataset.base_url, key, configuration.concurrency, timing) as server:
                collection = Collection(
                    name, server, journal, NoLedger(name), origin, timing, Watcher(on_progress), None
                )
                with interruptible(collection.interrupt):
                    await collection.run(questions, asked.size, configuration.concurrency)
            notes = [str(damage) for damage in journal.damage]
            return _summary(name, dataset, collection, len(wanted), missing.size, notes)

    return asyncio.run(ask())


def _summary(
    name: str, dataset: ServerDataset, collection: Collection, prompts: int, missing: int, notes: list[str]
) -> CollectionSummary:
    reached = collection.answered + collection.refused + collection.failed
    stopped = collection.stopped
    if stopped is not None:
        stopped = f"{dataset.base_url} was asked for {name}: {stopped}"
    return CollectionSummary(
        dataset=name,
        prompts=prompts,
        already=prompts - missing,
        answered=collection.answered,
        refused=collection.refused,
        failed=collection.failed,
        beyond_budget=0,
        left=missing - reached,
        attempts=collection.attempts,
        strays=collection.strays,
        spent_usd=0.0,
        unsettled=0,
        stopped=stopped,
        fatal=stopped is not None,
        notes=tuple(notes),
    )
