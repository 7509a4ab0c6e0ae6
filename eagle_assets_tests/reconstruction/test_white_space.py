"""White space that a server takes away: how likely it was written, told by what is written where it is kept."""

from __future__ import annotations

from random import Random

import pytest

from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.losses import EdgeRates, Rate, Rates
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets_tests.reconstruction.served_exchanges import K2_5, SENTENCES, Truth, document, exchanges, output_of

THINKING = Situation(K2_5, True)


def answer(reasoning: str, content: str) -> Truth:
    return Truth(output_of(reasoning, content), THINKING)


def some_answers(count: int, seed: int) -> list[Truth]:
    """Answers of which every fifth begins and ends its texts with tabs, line ends of Windows and the like."""
    rng = Random(seed)
    truths = []
    for number in range(count):
        white = [rng.choice(("\t", "\r\n", "\n\n", " \n", "\t\n")) if number % 5 == 0 else "" for _ in range(4)]
        reasoning, content = rng.choice(SENTENCES), rng.choice(SENTENCES)
        truths.append(answer(white[0] + reasoning + white[1], white[2] + content + white[3]))
    return truths


def verdict_on(truth: Truth) -> Reconstruction:
    kept = exchanges(some_answers(100, 1), VERBATIM, "Elsewhere")
    stripped = exchanges(some_answers(100, 2), BLANKS_ROUND_ADDED_TOKENS)
    line = exchange_of(document(truth, BLANKS_ROUND_ADDED_TOKENS))
    (result,) = reconstruct([line], calibrate([*kept, *stripped]))
    return result


def test_usual_white_space_elsewhere_speaks_for_usual_white_space() -> None:
    result = verdict_on(answer("Two and two are four.", "Four."))
    assert (result.verdict, result.evidence["residual_error"] < 0.05) == ("consistent", True)


@pytest.mark.parametrize("lost", ["", "\n\n"])
def test_unusual_white_space_elsewhere_makes_a_loss_likely(lost: str) -> None:
    result = verdict_on(answer("\tTwo and two are four." + lost, "\r\nFour.\t"))
    assert result.verdict == "unverified"
    assert result.reasons[0] == "white_space_may_be_lost: reasoning end"


def test_a_loss_without_a_trace_is_held_against_nothing_written() -> None:
    rates = EdgeRates((Rate(0, 99), Rate(20, 99), Rate(0, 99)), Rate(20, 99))
    group = GroupCalibration(
        model="m",
        provider="p",
        streamed=False,
        survivors=(),
        counted=(0, 0),
        closed=(0, 0),
        measured=(0, 0),
        kept=frozenset(),
        losses={"reasoning_end": Rates(rates, rates)},
        tool_ids_kept=False,
    )
    known = Calibration(written={"m": {"reasoning_end": Rates(usual=rates)}})
    # Three in five responses end otherwise, which would have shown: of the rest, half lost a line break.
    assert known.loss_error(group, "m", "reasoning_end", (1,), unusual=False) == pytest.approx(0.5)
    assert known.loss_error(group, "m", "reasoning_end", (), unusual=False) == 0
