"""What a run will cost: at most, by the worst case of each request, and probably, by what answers have cost so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

from eagle_assets.openrouter.endpoints import Price, worst_case_usd
from eagle_assets.openrouter.totals import FEE_SHARE, Amounts, in_dollars

# Tokens of an answer where none has been seen yet: a guess that is said to be one.
GUESSED_ANSWER_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """US dollars for the prompts that have no answer yet, without the fee; `basis` says what `probably_usd` rests on.

    `at_most_usd` holds for one attempt at each; a failed attempt is paid for only where the server bills it.
    """

    prompts: int
    at_most_usd: float
    probably_usd: float
    basis: str


def forecast(missing: Iterable[tuple[int, int]], dearest: Price, seen: Amounts) -> Forecast:
    """The cost of prompts given as (prompt tokens, `max_tokens`), under the dearest price that routing allows.

    `seen` is what answers of the same kind have cost; where there are none, an answer's length is guessed.
    """
    sizes = Counter(missing)  # of many prompts a lot are as long
    prompts = sizes.total()
    at_most = fsum(times * worst_case_usd(prompt, most, dearest) for (prompt, most), times in sizes.items())
    answers = seen.requests if seen.completion_tokens else 0
    if answers:
        mean = seen.spent_usd / answers
        probably = fsum(times * max(mean, worst_case_usd(prompt, 0, dearest)) for (prompt, _), times in sizes.items())
        basis = f"the mean of {answers} requests so far"
    else:
        probably = fsum(
            times * worst_case_usd(prompt, min(most, GUESSED_ANSWER_TOKENS), dearest)
            for (prompt, most), times in sizes.items()
        )
        basis = f"a guess of {GUESSED_ANSWER_TOKENS:,} tokens an answer, as none has been seen yet"
    return Forecast(prompts, at_most, min(probably, at_most), basis)


def in_words(forecast: Forecast, left_usd: float, short: Mapping[str, float]) -> str:
    """What a run will cost, in a sentence for whoever pays. `short` are datasets whose own budget is below their worst
    case, with that in dollars."""
    if not forecast.prompts:
        return "nothing is left to be bought"
    sentence = (
        f"{forecast.prompts:,} prompts to ask: {in_dollars(min(forecast.at_most_usd, left_usd))} at most, "
        f"{in_dollars(min(forecast.probably_usd, left_usd))} probably ({forecast.basis}); {in_dollars(left_usd)} of "
        f"the budget are left, and buying credit costs {FEE_SHARE:.1%} on top"
    )
    if forecast.at_most_usd > left_usd:
        sentence += "; the worst case does not fit, so the run may end before all are asked"
    elif short:
        needed = " and ".join(map(in_dollars, short.values()))
        names = " and ".join(short)
        sentence += f"; the budget of {names} may end before all of its prompts are asked, which may cost {needed}"
    return sentence
