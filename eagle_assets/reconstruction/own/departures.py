"""How often the target model leaves the canonical path, and what that means for ids which no token evidence proves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, lgamma, log, sqrt
from typing import Any

from eagle_assets.reconstruction.own.known_outputs import KnownOutput, parsed
from eagle_assets.reconstruction.own.share import Share
from eagle_assets.reconstruction.sequences import residual_error
from eagle_assets.serving.output import join_output
from eagle_assets.targets.target import Target

_BY_COUNT = frozenset(("count_closes", "white_space_restored"))


@dataclass(frozen=True, slots=True)
class Departures:
    """How often the model left the canonical path: of `outputs`, those whose ids are not the canonical encoding of
    their own text (`differing`), and of these the ones of the same length, which no count can show (`silent`)."""

    outputs: int = 0
    differing: int = 0
    silent: int = 0

    @property
    def among_closing(self) -> Share:
        """The silent ones among all whose count closes."""
        return Share(self.silent, self.outputs - self.differing + self.silent)


def departures(outputs: Iterable[KnownOutput], target: Target) -> Departures:
    """How often these outputs left the canonical path."""
    total = differing = silent = 0
    for known in outputs:
        total += 1
        canonical = _canonical(known, target)
        differing += canonical != known.output_ids
        silent += canonical is not None and canonical != known.output_ids and len(canonical) == len(known.output_ids)
    return Departures(total, differing, silent)


def may_be_wrong(rows: Iterable[Mapping[str, Any]], measured: Departures) -> dict[str, float]:
    """Least and greatest number of the `consistent` among rows of TOKEN_SEQUENCES that are wrong, at 95 %; nothing
    where the path was not measured. Needs the columns `verdict`, `reasons` and `evidence`.

    Of those that their count alone speaks for, as many left the canonical path without a change of count as the
    team's own outputs lead to expect: the beta-binomial prediction under Jeffreys' prior. The errors that the evidence
    states come on top, in the greatest number only: much of them is what a few closed counts cannot exclude.
    """
    if not measured.outputs:
        return {}
    consistent = by_count = 0
    errors = 0.0
    for row in rows:
        if row["verdict"] == "consistent":
            consistent += 1
            by_count += any(reason.partition(":")[0] in _BY_COUNT for reason in row["reasons"])
            errors += residual_error(row)
    share = measured.among_closing
    low, high = _quantiles(_beta_binomial(by_count, share.found + 0.5, share.of - share.found + 0.5))
    _, stated = _quantiles(_poisson(errors))
    return {"may_be_wrong_low": low, "may_be_wrong_high": min(consistent, high + stated)}


def _canonical(known: KnownOutput, target: Target) -> list[int] | None:
    """The canonical ids of an output's own text; None where it has none (half a character, a stray marker)."""
    vocabulary = target.vocabulary
    output = parsed(known, target)
    if output is None:
        return None
    try:
        return join_output(
            output.over(lambda ids: tuple(vocabulary.encode(vocabulary.decode(ids).decode()))), target.markers
        )
    except UnicodeDecodeError:
        return None


def _quantiles(probabilities: Iterable[float]) -> tuple[int, int]:
    """The numbers, from 0, up to which 2.5 % and 97.5 % of the probability lie."""
    below, low = 0.0, None
    number = 0
    for number, probability in enumerate(probabilities):
        below += probability
        if low is None and below >= 0.025:
            low = number
        if below >= 0.975:
            break
    return low or 0, number


def _beta_binomial(draws: int, a: float, b: float) -> Iterator[float]:
    """Probability of 0, 1, … `draws` hits when the rate has the distribution Beta(a, b)."""
    constant = lgamma(draws + 1) - lgamma(draws + a + b) + lgamma(a + b) - lgamma(a) - lgamma(b)
    for hits in range(draws + 1):
        misses = draws - hits
        yield exp(constant + lgamma(hits + a) + lgamma(misses + b) - lgamma(hits + 1) - lgamma(misses + 1))


def _poisson(mean: float) -> Iterator[float]:
    """Probability of 0, 1, … events. Ends where nothing is left."""
    if mean <= 0:
        yield 1.0
        return
    hits = 0
    while hits <= mean + 10 * sqrt(mean) + 10:
        yield exp(hits * log(mean) - mean - lgamma(hits + 1))
        hits += 1
