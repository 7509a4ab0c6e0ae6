"""Whether a tick of a dataset's schedule has anything to do, and why not. Asks nobody and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from eagle_assets.configuration import Configuration, Settings
from eagle_assets.lake.audit import GateClosed, Published, read_record, require_current
from eagle_assets.lake.home import Home
from eagle_assets.lake.version import last_good
from eagle_assets.openrouter.journal_reader import open_journal
from eagle_assets.openrouter.ledger import LedgerError, budget_totals
from eagle_assets.openrouter.record_file import JournalError
from eagle_assets.openrouter.requests import Prompt, PromptsError, build_request, read_prompts, request_key

NEEDED = ("tokenizer_report", "provider_calibration")


def reason_to_skip(home: Home, configuration: Configuration, settings: Settings, name: str) -> str | None:
    """The sentence that says why nothing of dataset `name` can or need be collected now; None where something is due.

    Prompts that the audit of `prompts` refused, and answers whose sequences failed theirs, are not tried again and
    again: a person has to act on them.
    """
    if settings.api_key is None:
        return f"OPENROUTER_API_KEY is not set, and {name} is bought from OpenRouter"
    if home.is_locked("raw_responses", name):
        return f"{name} is being collected by another run"
    try:
        for stage in NEEDED:
            require_current(home, stage)
        missing = _missing(home, configuration, name)
        if missing:
            return _too_dear(home, configuration, name, missing)
        return _nothing_to_make(home, name, configuration.stages)
    except (GateClosed, PromptsError, JournalError, LedgerError) as error:
        return str(error)


def _missing(home: Home, configuration: Configuration, name: str) -> list[Prompt]:
    """Prompts of the file that have neither an answer nor a refusal for good."""
    dataset = configuration.bought[name]
    settled = open_journal(home.root, name).settled()
    return [
        prompt
        for prompt in read_prompts(dataset.prompts)
        if (prompt.prompt_id, request_key(build_request(prompt, dataset, configuration))) not in settled
    ]


def _too_dear(home: Home, configuration: Configuration, name: str, missing: list[Prompt]) -> str | None:
    left_usd = budget_totals(home.root, configuration).datasets[name].left_usd
    least_usd = _least_worst_case_usd(home, name, missing)
    if left_usd > least_usd:
        return None
    return (
        f"the budget is spent: {len(missing)} prompts of {name} have no answer yet, each may cost ${least_usd:.4f} or "
        f"more, and ${left_usd:.4f} is left; raise budget_usd in the datasets file"
    )


def _least_worst_case_usd(home: Home, name: str, missing: list[Prompt]) -> float:
    """What the cheapest missing request may cost, as its prompts were published; 0 where they were not yet."""
    published = last_good(home, "prompts", name)
    if published is None:
        return 0.0
    ids = {prompt.prompt_id for prompt in missing}
    rows = Published(home, published).rows(["prompt_id", "worst_case_usd"])
    return min((row["worst_case_usd"] for row in rows if row["prompt_id"] in ids), default=0.0)


def _nothing_to_make(home: Home, name: str, stages: Iterable[str]) -> str | None:
    """Why nothing is to be made of answers that are all there: they are in the shards, or an audit refused them."""
    for stage in stages:
        if read_record(home, stage, name).failed is not None:
            require_current(home, stage, name)
    try:
        require_current(home, "training_shards", name)
    except GateClosed:
        return None
    return f"nothing is missing: every prompt of {name} has an answer, and its shards are current"
