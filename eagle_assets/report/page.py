"""`eagle-assets report`: one HTML page about everything in a home, which needs no network to be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from eagle_assets import __version__
from eagle_assets.configuration import Configuration
from eagle_assets.durability import write_atomically
from eagle_assets.lake.audit import GateClosed, read_record, require_current
from eagle_assets.lake.home import Home
from eagle_assets.lake.queries import run_query
from eagle_assets.openrouter.totals import usd_per_million
from eagle_assets.reconstruction.console.reasons_in_words import VERDICT_IN_WORDS, reason_in_words
from eagle_assets.reconstruction.verdict import VERDICTS
from eagle_assets.report import pictures
from eagle_assets.report.examples import examples
from eagle_assets.report.figures import COLUMNS, Figures
from eagle_assets.report.lengths import Lengths
from eagle_assets.report.next_steps import NEXT_STEPS
from eagle_assets.report.svg import VERDICT_COLOURS
from eagle_assets.targets.kimi import target_named

WORST, TYPICAL = 6, 4
IDS_ARE_GIVEN = "the ids are given"  # as sql/queries/conventions.sql has it
TITLE = "What was bought, and what of it can be trusted"


@dataclass(frozen=True)
class Obstacle:
    """Why a dataset is not in the shards, and what to do about it; `next_steps` may be empty."""

    dataset: str
    sentence: str
    next_steps: tuple[str, ...]


def report_path(home: Home) -> Path:
    """Where the page lies that `run_statistics` links to."""
    return home.root / "report.html"


def write_report(home: Home, configuration: Configuration, path: Path | None = None) -> Path:
    """Write the page; returns its path. Raises CatalogueError where there is no catalogue."""
    path = path or report_path(home)
    write_atomically(path, report(home, configuration).encode())
    return path


def report(home: Home, configuration: Configuration) -> str:
    """The page. Raises CatalogueError."""
    overview = run_query(home, "overview")
    vocabulary = target_named(configuration.target).vocabulary
    figures = figures_of(home)
    with duckdb.connect(home.catalogue, read_only=True) as connection:
        counts = [count for (count,) in connection.sql(_FREQUENCIES).fetchall()]
        ((draft_size,),) = connection.sql("SELECT count(draft_id) FROM token_frequencies").fetchall()
        rows = connection.sql("SELECT len(input_ids) FROM training_shards").fetchall()
        worst = examples(connection, ["contradicted", "unverified"], WORST, vocabulary)
        typical = examples(connection, ["exact", "consistent"], TYPICAL, vocabulary)
    budget = run_query(home, "budget").as_objects()
    prices = run_query(home, "price_of_trust").as_objects()
    whole = next((row for row in budget if row["dataset"] == "all"), None)
    environment = Environment(
        loader=PackageLoader("eagle_assets.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"cell": _cell, "code": _with_code}
    return environment.get_template("page.html.jinja").render(
        title=TITLE,
        colours=VERDICT_COLOURS,
        meanings=VERDICT_IN_WORDS,
        home=home.root,
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        budget_usd=configuration.budget_usd,
        spent_usd=whole["spent_usd"] if whole else 0.0,
        figures=figures,
        trained_tokens=sum(row["tokens_to_learn"] or 0 for row in overview.as_objects()),
        shard_rows=len(rows),
        usd_per_million=_usd_per_million(prices),
        obstacles=obstacles(home, configuration),
        beyond_budget=[row for row in overview.as_objects() if row["beyond_budget"]],
        overview=overview,
        providers=_providers(home, prices),
        verdicts=[(verdict, figures.by_verdict[verdict], figures.tokens[verdict]) for verdict in VERDICTS],
        reasons=_reasons(home),
        calibration=run_query(home, "calibration"),
        worst=worst,
        typical=typical,
        spend=pictures.spend(_spend(budget, configuration), "Dollars spent, against the cap"),
        verdicts_picture=pictures.verdicts_by(figures.sorted_verdicts(), "Verdicts by provider"),
        differences_picture=pictures.count_differences(
            figures.differences(), "Do the servers' token counts close, under the convention that stands?"
        ),
        lengths_picture=pictures.lengths(Lengths.of([length for (length,) in rows]), "Lengths of the training rows"),
        coverage_picture=pictures.coverage(counts, draft_size, "What the draft vocabulary covers") if counts else "",
    )


def figures_of(home: Home) -> Figures:
    """The sums over every sequence that the catalogue shows."""
    with duckdb.connect(home.catalogue, read_only=True) as connection:
        batches = connection.sql(f"SELECT {', '.join(COLUMNS)} FROM all_sequences").to_arrow_reader(1_024)
        return Figures.of(batches)


def obstacles(home: Home, configuration: Configuration) -> list[Obstacle]:
    """Why datasets have no current shards: what stopped the first stage that was stopped."""
    found = (_obstacle(home, dataset, configuration.stages) for dataset in configuration.datasets)
    return [obstacle for obstacle in found if obstacle is not None]


def _obstacle(home: Home, dataset: str, stages: Iterable[str]) -> Obstacle | None:
    for stage in stages:
        try:
            require_current(home, stage, dataset)
        except GateClosed as error:
            failed = read_record(home, stage, dataset).failed
            names = [check.name for check in failed.failed_checks] if failed is not None else []
            return Obstacle(dataset, str(error), tuple(NEXT_STEPS[name] for name in names if name in NEXT_STEPS))
    return None


_BACKTICKS = re.compile(r"`([^`]+)`")
_FREQUENCIES = "SELECT count FROM token_frequencies WHERE count > 0 ORDER BY count DESC"


def _spend(budget: Sequence[dict[str, Any]], configuration: Configuration) -> list[pictures.Spend]:
    caps = {name: dataset.budget_usd for name, dataset in configuration.bought.items()}
    return [
        pictures.Spend(
            "all datasets" if row["dataset"] == "all" else row["dataset"],
            row["spent_usd"],
            row["reserved_usd"],
            configuration.budget_usd if row["dataset"] == "all" else caps.get(row["dataset"]),
        )
        for row in budget
    ]


def _usd_per_million(prices: Sequence[dict[str, Any]]) -> float | None:
    """Of what was bought: the team's own answers cost nothing."""
    bought = [row for row in prices if row["spent_usd"]]
    return usd_per_million(sum(row["spent_usd"] for row in bought), sum(row["trusted_tokens"] for row in bought))


def _providers(home: Home, prices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Provider by provider: how it serves, how its counts close, what is trusted, what speaks against the rest."""
    conventions: dict[str, dict[str, Any]] = {}
    for row in run_query(home, "conventions").as_objects():
        conventions.setdefault(row["provider"], row)
    by_provider = {row["provider"]: row for row in prices}
    found = []
    for row in run_query(home, "providers").as_objects():
        convention, price = conventions.get(row["provider"], {}), by_provider.get(row["provider"], {})
        sentences = []
        if convention:
            closed = f"the counts of {convention['closed']} of {convention['answers']} close"
            is_given = convention["convention"] == IDS_ARE_GIVEN
            read_as = "Its server gives the ids" if is_given else f"They are read as `{convention['convention']}`"
            sentences.append(f"{read_as}; {closed}.")
        if price.get("spent_usd") and price["usd_per_million_trusted"] is not None:
            sentences.append(f"A million trusted tokens cost ${price['usd_per_million_trusted']:,.2f}.")
        if reason := row["most_frequent_reason"]:
            sentences.append(f"What speaks most often against the others: {reason_in_words(reason)}.")
        found.append({**row, "sentences": sentences})
    return found


def _reasons(home: Home) -> list[dict[str, Any]]:
    """Reasons of distrust in words, summed over providers, most frequent first."""
    sums: dict[tuple[str, str], int] = {}
    for row in run_query(home, "reasons_of_distrust").as_objects():
        key = row["verdict"], row["reason"]
        sums[key] = sums.get(key, 0) + row["sequences"]
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return [
        {"verdict": verdict, "words": reason_in_words(reason), "code": reason.partition(":")[0], "responses": number}
        for (verdict, reason), number in ordered
    ]


def _with_code(words: str) -> Markup:
    """Text in which what stands between backticks is code."""
    return Markup(_BACKTICKS.sub(r"<code>\1</code>", str(escape(words))))


def _cell(value: Any) -> str:
    """A value of a table as text."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)
