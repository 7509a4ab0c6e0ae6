"""Which conventions still stand when all of a provider's responses are seen, and which of its counts prove nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, STOP_NOT_COUNTED, VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets_tests.reconstruction.served_exchanges import K2_5, TOOL, Truth, exchanges, output_of, some_outputs
from eagle_assets_tests.serving.outputs import THINKING

ARGUMENTS = '{"q": "a b"}'


def with_call(number: int, content: str, streamed: bool) -> Truth:
    """A thought, a content and a call. A content of white space is none to a parser: it is lost, and the count has a
    token more."""
    ids = output_of(f"Look up number {number}.", content, [("functions.look_up:0", ARGUMENTS)])
    return Truth(ids, Situation(K2_5, True, (TOOL,), 0, streamed))


def mixed(served: list[Exchange]) -> list[Exchange]:
    """The exchanges as if they had come in another order: a provider that changed in mid-file is another matter."""
    return [replace(exchange, order=float(7 * place % len(served))) for place, exchange in enumerate(served)]


def wrongly_trusted(truths: Sequence[Truth], served: list[Exchange]) -> list[Reconstruction]:
    found = zip(truths, reconstruct(served, calibrate(served)), strict=True)
    return [said for truth, said in found if said.trusted and said.output_ids != truth.ids]


def of_model(calibration: Calibration) -> GroupCalibration:
    (group,) = (group for (model, _, _), group in calibration.groups.items() if model)
    return group


@pytest.mark.parametrize("streamed", [False, True], ids=["bodies", "streams"])
def test_lost_white_space_is_no_second_deployment(streamed: bool) -> None:
    """Counts with a token more would close for a server that puts no blanks in. It would have shown texts without."""
    calls = [with_call(number, "\n\n" if number % 2 else "", streamed) for number in range(28)]
    truths = [*some_outputs(60, 1, streamed, calls=False), *calls]
    served = mixed(exchanges(truths, BLANKS_ROUND_ADDED_TOKENS))
    calibration = calibrate(served)
    assert not calibration.earlier
    assert len(of_model(calibration).survivors) == 1
    assert not wrongly_trusted(truths, served)


def test_a_deployment_that_counts_otherwise_stands_and_nothing_of_it_is_trusted_wrongly() -> None:
    truths = some_outputs(90, 1)
    served = mixed([*exchanges(truths[:60], VERBATIM), *exchanges(truths[60:], STOP_NOT_COUNTED)])
    standing = of_model(calibrate(served)).survivors
    assert [survivor.hypothesis.counting.stop_counted for survivor in standing] == [True, False]
    assert not wrongly_trusted(truths, served)


def test_a_count_that_closes_under_a_rival_alone_is_no_proof() -> None:
    """It may close by chance: under the likeliest convention, where white space was lost."""
    truths = some_outputs(90, 1)
    served = mixed([*exchanges(truths[:60], STOP_NOT_COUNTED), *exchanges(truths[60:], VERBATIM)])
    found = list(reconstruct(served, calibrate(served)))
    assert [said for said in found[60:] if "rival_conventions" in said.reasons]
    assert not wrongly_trusted(truths, served)


def test_white_space_that_comes_with_the_questions_of_a_part_is_kept() -> None:
    """Contents end with line breaks in the last part alone, reasonings with some all along: nothing changed."""
    truths = [
        Truth(output_of("So it is." + "\n" * (n % 9 == 0), f"It is {n}." + "\n" * (n > 90)), THINKING)
        for n in range(120)
    ]
    served = [replace(e, order=float(place)) for place, e in enumerate(exchanges(truths, VERBATIM))]
    assert of_model(calibrate(served)).kept.everything >= {"reasoning_end", "message_end"}


def test_what_a_provider_keeps_since_it_changed_says_nothing_of_what_came_before() -> None:
    truths = [Truth(output_of("Oi! So it is.", f"It is {n}." + "\n" * (n % 6 == 0)), THINKING) for n in range(200)]
    trimmed = exchanges(truths[:182], replace(VERBATIM, content_strip="both"))
    served = [*trimmed, *exchanges(truths[182:], BLANKS_ROUND_ADDED_TOKENS)]
    served = [replace(exchange, order=float(place)) for place, exchange in enumerate(served)]
    calibration = calibrate(served)
    assert calibration.earlier
    (written,) = calibration.written.values()
    measured = written["message_end"].usual.nothing.measured
    assert 0 < measured <= len(truths) - 182
    assert not wrongly_trusted(truths, served)
