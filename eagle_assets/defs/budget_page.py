"""`eagle-assets budget`: the spending as it is shown, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from math import fsum
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from eagle_assets.configuration import PROBES
from eagle_assets.defs.spending import Spending
from eagle_assets.openrouter.forecast import Forecast, in_words
from eagle_assets.openrouter.probing import MOST_OF_THE_BUDGET
from eagle_assets.openrouter.totals import FEE_SHARE, Amounts, in_dollars, usd_per_million


def as_json(spending: Spending) -> dict[str, Any]:
    """`spent_usd`, `reserved_usd`, `left_usd` and the rest of the amounts, in all and by dataset and provider.

    The fee for buying credit is in none of them but `fee_usd`. `usd_per_million_trusted_tokens` is null where nothing
    is trusted yet; `rest`, which ends at what is left to the dataset, is null where it cannot be said, and
    `rest_unknown` then says why.
    """
    totals = spending.totals
    return {
        "budget_usd": totals.budget_usd,
        "fee_share": FEE_SHARE,
        **_with_trusted(totals.all, fsum(spending.trusted_tokens.values())),
        "rest": _rest(_sum_of(spending)),
        "datasets": {
            name: {
                **_with_trusted(amounts, _trusted(spending, name)),
                "rest": _rest(_payable(spending, name)),
                "rest_unknown": spending.unknown.get(name),
                "providers": {
                    provider: _with_trusted(of_provider, spending.trusted_tokens.get((name, provider), 0))
                    for (dataset, provider), of_provider in totals.providers.items()
                    if dataset == name
                },
            }
            for name, amounts in totals.datasets.items()
        },
    }


def as_page(spending: Spending) -> Iterator[RenderableType]:
    """A table with a row for each dataset and its providers, and what the rest will cost in a sentence."""
    totals = spending.totals
    table = Table(title=f"Budget: {in_dollars(totals.budget_usd)}", show_footer=True)
    cells = _cells("all", totals.all, fsum(spending.trusted_tokens.values()), _sum_of(spending))
    for number, (heading, footer) in enumerate(zip(_HEADINGS, cells, strict=True)):
        table.add_column(heading, footer, justify="right" if number else "left")
    for name, amounts in totals.datasets.items():
        table.add_row(*_cells(name, amounts, _trusted(spending, name), _payable(spending, name)))
        for (dataset, provider), of_provider in totals.providers.items():
            if dataset == name and (provider or of_provider.spent_usd):
                trusted = spending.trusted_tokens.get((name, provider), 0)
                table.add_row(*_cells(f"  {provider or 'no answer'}", of_provider, trusted, None), style="dim")
    yield table
    yield Text(
        f"Buying the ${totals.all.spent_usd:.4f} of credit that is spent cost ${totals.all.fee_usd:.4f} more "
        f"({FEE_SHARE:.1%}). What is unsettled is counted as spent, at its worst case. What is left to a dataset is of "
        "its own budget, or else of the whole one, and its rest costs no more than that."
    )
    if spending.rest:
        yield Text(f"The rest: {_rest_in_words(spending)}.")
    yield from map(Text, _unknown_in_words(spending))


def before_a_run(spending: Spending) -> str:
    """What a run over the datasets of `spending.rest` will cost, in a sentence."""
    said = _rest_in_words(spending)
    if again := sum(spending.asked_again.values()):
        said += (
            f"; {again:,} of these prompts have an answer to another request, which is kept: their messages, params or "
            "`max_tokens` changed since"
        )
    probes = spending.totals.datasets.get(PROBES)
    if probes is None or not probes.requests:
        most_usd = MOST_OF_THE_BUDGET * spending.totals.budget_usd
        said += f"; asking each provider a few probes first costs {in_dollars(most_usd)} at most"
    return "; ".join((said, *_unknown_in_words(spending)))


_HEADINGS = (
    "dataset",
    "spent $",
    "of it unsettled $",
    "reserved $",
    "left $",
    "prompt tokens",
    "answer tokens",
    "trusted",
    "$ a million trusted",
    "rest at most $",
    "probably $",
)


def _cells(name: str, amounts: Amounts, trusted: float, rest: Forecast | None) -> tuple[str, ...]:
    unsettled = ""
    if amounts.unsettled:
        unsettled = f"{amounts.unsettled_usd:.4f} ({amounts.unsettled} request{'s' * (amounts.unsettled > 1)})"
    price = usd_per_million(amounts.spent_usd, trusted)
    is_provider = name.startswith(" ")
    return (
        name,
        f"{amounts.spent_usd:.4f}",
        unsettled,
        "" if is_provider else f"{amounts.reserved_usd:.4f}",
        "" if is_provider else f"{amounts.left_usd:.4f}",
        f"{amounts.prompt_tokens:,}",
        f"{amounts.completion_tokens:,}",
        f"{trusted:,.0f}",
        f"{price:.2f}" if price is not None else "",
        f"{rest.at_most_usd:.4f}" if rest is not None else "",
        f"{rest.probably_usd:.4f}" if rest is not None else "",
    )


def _with_trusted(amounts: Amounts, trusted: float) -> dict[str, Any]:
    return {
        **asdict(amounts),
        "trusted_tokens": int(trusted),
        "usd_per_million_trusted_tokens": usd_per_million(amounts.spent_usd, trusted),
    }


def _trusted(spending: Spending, dataset: str) -> float:
    return fsum(tokens for (name, _), tokens in spending.trusted_tokens.items() if name == dataset)


def _unknown_in_words(spending: Spending) -> Iterator[str]:
    return (f"{name}: the rest cannot be reckoned: {reason}" for name, reason in spending.unknown.items())


def _rest_in_words(spending: Spending) -> str:
    amounts = spending.totals.datasets
    short = {n: rest.at_most_usd for n, rest in spending.rest.items() if rest.at_most_usd > amounts[n].left_usd}
    return in_words(_sum_of(spending), spending.totals.all.left_usd, short)


def _payable(spending: Spending, name: str) -> Forecast | None:
    """What the rest of a dataset may cost, which ends at its own budget; None where it is not known."""
    rest, left = spending.rest.get(name), spending.totals.datasets[name].left_usd
    if rest is None:
        return None
    return replace(rest, at_most_usd=min(rest.at_most_usd, left), probably_usd=min(rest.probably_usd, left))


def _sum_of(spending: Spending) -> Forecast:
    """All datasets together."""
    forecasts = [payable for name in spending.rest if (payable := _payable(spending, name)) is not None]
    bases = list(dict.fromkeys(f.basis for f in forecasts if f.prompts))
    return Forecast(
        sum(f.prompts for f in forecasts),
        fsum(f.at_most_usd for f in forecasts),
        fsum(f.probably_usd for f in forecasts),
        bases[0] if len(bases) == 1 else "the mean of what was asked so far, dataset by dataset",
    )


def _rest(forecast: Forecast | None) -> dict[str, Any] | None:
    return asdict(forecast) if forecast is not None else None
