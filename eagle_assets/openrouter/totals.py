"""The ledger's sums as amounts: spent, reserved, left and unsettled, in all, by dataset and by provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from math import fsum

# What OpenRouter takes on top when credit is bought (FACTS 3). Caps and costs are of the credit itself.
FEE_SHARE = 0.055

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Sum:
    """Rows of the ledger that agree in the first four, summed up; what is not known is "" or 0."""

    dataset: str
    tick: str
    provider: str
    state: str  # reserved | unsettled | settled
    usd: float
    requests: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Amounts:
    """US dollars. `spent_usd` counts what is unsettled at its worst case; `unsettled` counts those requests, and
    `requests` all that have ended. `fee_usd` is what buying the spent credit costs on top. Tokens are the servers'."""

    spent_usd: float
    reserved_usd: float
    left_usd: float
    unsettled_usd: float
    unsettled: int
    fee_usd: float
    requests: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole budget, and each dataset's part of it: what is left to a dataset is never more than is left in all.

    `providers` has what each dataset spent at each provider, by (dataset, provider); "" is where none answered.
    """

    budget_usd: float
    all: Amounts
    datasets: dict[str, Amounts]
    providers: dict[tuple[str, str], Amounts]


def totals_of(sums: Iterable[Sum], budget_usd: float, dataset_budgets: Mapping[str, float | None]) -> Totals:
    """Totals under a budget for all and one for each dataset, or None."""
    sums = list(sums)
    everything = _amounts(sums, budget_usd)
    datasets, providers = {}, {}
    for name in sorted({*dataset_budgets, *(s.dataset for s in sums)}):
        own = [s for s in sums if s.dataset == name]
        datasets[name] = _amounts(own, dataset_budgets.get(name), at_most=everything.left_usd)
        for provider in sorted({s.provider for s in own if s.state != "reserved"}):
            of_provider = [s for s in own if s.provider == provider and s.state != "reserved"]
            providers[name, provider] = _amounts(of_provider, None, at_most=datasets[name].left_usd)
    return Totals(budget_usd, everything, datasets, providers)


def in_dollars(usd: float) -> str:
    """An amount for a sentence: to the cent, and small ones to a hundredth of that."""
    return f"${usd:,.2f}" if usd == 0 or usd >= 0.1 else f"${usd:.4f}"


def usd_per_million(usd: float, tokens: float) -> float | None:
    """What a million of the tokens cost that were paid for so; None where there are none."""
    return _MILLION * usd / tokens if tokens else None


def sum_of(amounts: Iterable[Amounts]) -> Amounts:
    """Several amounts as one."""
    rows = [astuple(each) for each in amounts]
    return Amounts(*(sum(column) for column in zip(*rows, strict=True))) if rows else Amounts(0, 0, 0, 0, 0, 0, 0, 0, 0)


def _amounts(sums: list[Sum], cap_usd: float | None, at_most: float = float("inf")) -> Amounts:
    usd = {state: fsum(s.usd for s in sums if s.state == state) for state in ("reserved", "unsettled", "settled")}
    left = at_most if cap_usd is None else min(at_most, cap_usd - fsum(usd.values()))
    spent = round(usd["settled"] + usd["unsettled"], 9)
    ended = [s for s in sums if s.state != "reserved"]
    return Amounts(
        spent_usd=spent,
        reserved_usd=round(usd["reserved"], 9),
        left_usd=max(0.0, round(left, 9)),
        unsettled_usd=round(usd["unsettled"], 9),
        unsettled=sum(s.requests for s in sums if s.state == "unsettled"),
        fee_usd=round(FEE_SHARE * spent, 9),
        requests=sum(s.requests for s in ended),
        prompt_tokens=sum(s.prompt_tokens for s in ended),
        completion_tokens=sum(s.completion_tokens for s in ended),
    )
