"""What was spent, what it bought, and what the rest will cost: the ledger, the lake and the prompts put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow.compute as pc

from eagle_assets.configuration import Configuration
from eagle_assets.defs.endpoints import price_to_reckon_with
from eagle_assets.lake.audit import GateClosed, Published, read_record
from eagle_assets.lake.home import Home
from eagle_assets.openrouter.forecast import Forecast, forecast
from eagle_assets.openrouter.journal_reader import open_journal
from eagle_assets.openrouter.ledger import budget_totals
from eagle_assets.openrouter.requests import PromptsError, build_request, read_prompts, request_key
from eagle_assets.openrouter.totals import Amounts, Totals, sum_of
from eagle_assets.reconstruction.verdict import TRUSTED
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import PromptError, prompt_ids


@dataclass(frozen=True)
class Spending:
    """`trusted_tokens` counts output tokens that may be trained on, by (dataset, provider); `rest` is what the prompts
    without an answer will cost, by dataset, `asked_again` how many of them have one to another request, and `unknown`
    why that cannot be said."""

    totals: Totals
    trusted_tokens: dict[tuple[str, str], int]
    rest: dict[str, Forecast]
    asked_again: dict[str, int]
    unknown: dict[str, str]


def spending(home: Home, configuration: Configuration, datasets: Sequence[str] | None = None) -> Spending:
    """The spending of a home; forecasts for these datasets, or all that are bought. Asks nobody and changes nothing.

    Raises LedgerError and JournalError.
    """
    totals = budget_totals(home.root, configuration)
    price = price_to_reckon_with(published_now(home, "provider_calibration"), configuration.routing)
    rest: dict[str, Forecast] = {}
    asked_again: dict[str, int] = {}
    unknown: dict[str, str] = {}
    for name in configuration.bought if datasets is None else datasets:
        try:
            missing = _missing(home, name, configuration)
            rest[name] = forecast(missing.sizes, price, seen_so_far(totals, name, configuration))
            asked_again[name] = missing.asked_again
        except (PromptsError, PromptError, GateClosed) as error:
            unknown[name] = str(error)
    trusted: dict[tuple[str, str], int] = {}
    for name in configuration.bought:
        trusted |= {
            (name, provider): tokens
            for provider, tokens in _trusted_tokens(home, name, configuration.verdict_stage).items()
        }
    return Spending(totals, trusted, rest, asked_again, unknown)


def published_now(home: Home, stage: str, dataset: str | None = None) -> Published | None:
    """The last good version of a stage, whatever has become of it since; for what is shown, not for what is used."""
    audit = read_record(home, stage, dataset).published
    return Published(home, audit) if audit is not None else None


def seen_so_far(totals: Totals, name: str, configuration: Configuration) -> Amounts:
    """What answers of this dataset have cost, or, where it has none, those of all datasets: probes are no measure."""
    if totals.datasets[name].completion_tokens:
        return totals.datasets[name]
    return sum_of(totals.datasets[other] for other in configuration.bought)


class _Missing(NamedTuple):
    """Prompt tokens and `max_tokens` of each prompt that has no answer to its request yet; `asked_again` of them have
    one to another."""

    sizes: list[tuple[int, int]]
    asked_again: int


def _missing(home: Home, name: str, configuration: Configuration) -> _Missing:
    dataset = configuration.bought[name]
    published = published_now(home, "prompts", name)
    counted = {}
    if published is not None:
        counted = {row["prompt_id"]: row["prompt_tokens"] for row in published.rows(["prompt_id", "prompt_tokens"])}
    settled = open_journal(home.root, name).settled()
    asked_before = {prompt_id for prompt_id, _ in settled}
    target = target_named(configuration.target)
    sizes, asked_again = [], 0
    for prompt in read_prompts(dataset.prompts):
        request = build_request(prompt, dataset, configuration)
        if (prompt.prompt_id, request_key(request)) not in settled:
            tokens = counted.get(prompt.prompt_id)
            sizes.append((len(prompt_ids(target, request)) if tokens is None else tokens, request["max_tokens"]))
            asked_again += prompt.prompt_id in asked_before
    return _Missing(sizes, asked_again)


def _trusted_tokens(home: Home, name: str, stage: str) -> dict[str, int]:
    """As `all_sequences` of the catalogue has them: by the sequences themselves where no judge has seen any yet."""
    published = published_now(home, stage, name) or published_now(home, "token_sequences", name)
    tokens: dict[str, int] = {}
    for batch in published.batches(["provider", "verdict", "output_ids"]) if published is not None else ():
        lengths = pc.fill_null(pc.list_value_length(batch["output_ids"]), 0).to_pylist()
        for provider, verdict, length in zip(
            batch["provider"].to_pylist(), batch["verdict"].to_pylist(), lengths, strict=True
        ):
            if verdict in TRUSTED:
                tokens[provider or ""] = tokens.get(provider or "", 0) + length
    return tokens
