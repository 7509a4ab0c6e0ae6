"""The team's own outputs say what the model writes, where a provider's answers no longer show it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.refutation import calibrate_observations
from eagle_assets.reconstruction.own.as_generated import as_generated
from eagle_assets.reconstruction.own.known_outputs import KnownOutput
from eagle_assets.reconstruction.reconstruct import reconstruct, seen_in
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.conventions import VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets.targets.prompt import prompt_ids
from eagle_assets_tests.reconstruction.served_exchanges import K2_5, TOOL, Truth, exchanges, output_of

MODEL = K2_5.name
PROMPT = prompt_ids(K2_5, {"model": MODEL, "messages": [{"role": "user", "content": "Add."}]})


def truths(content: str, number: int, calls: Sequence[int] = ()) -> list[Truth]:
    called = [(f"functions.look_up:{index}", '{"q": "a"}') for index in calls]
    situation = Situation(K2_5, thinking=True, tools=(TOOL,) if calls else ())
    return [Truth(output_of("So we add.", f"{content}{n}.", called), situation) for n in range(number)]


PLAIN, BLANK = truths("The sum is ", 200), truths(" The sum is ", 200)


def own(outputs: Sequence[Truth]) -> list[Observation]:
    return as_generated([KnownOutput(PROMPT, truth.ids) for truth in outputs], K2_5)


def test_own_outputs_show_what_is_written_at_the_ends_of_texts() -> None:
    rates = calibrate_observations([], own=own(PLAIN[:60] + BLANK[:20])).written[MODEL]
    blank = rates["content_start"].usual.losable[0]
    assert (blank.lost, blank.measured) == (20, 80)
    assert rates["reasoning_start"].usual.nothing.lost == 80


def test_own_outputs_show_how_the_model_numbers_its_calls() -> None:
    shifts = calibrate_observations([], own=own(truths("", 9, (0, 1, 2)) + truths("", 3, (0, 2, 4)))).index_shifts
    assert [(rate.lost, rate.measured) for rate in shifts.values()] == [(3, 12)]


@pytest.mark.parametrize(("of_the_model", "least", "most"), [([], 0.5, 1.0), (PLAIN, 0.0, 0.05), (BLANK, 0.9, 1.0)])
def test_what_a_provider_may_have_trimmed_is_as_likely_as_the_model_writes_it(
    of_the_model: list[Truth], least: float, most: float
) -> None:
    for found in answers_of_one_that_trims(own(of_the_model)):
        assert least <= float(found.evidence["residual_error"]) <= most


def answers_of_one_that_trims(of_the_model: list[Observation]) -> list[Reconstruction]:
    """Answers without white space at any end: there was none, or it was taken away."""
    made = exchanges(PLAIN[:40], VERBATIM, "Trimmer")
    seen = [found.observation for found in seen_in(made) if found.observation is not None]
    return list(reconstruct(made, calibrate_observations(seen, own=of_the_model)))
