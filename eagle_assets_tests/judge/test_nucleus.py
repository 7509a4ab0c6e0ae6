"""From the target's probabilities to the sampler's: sound whatever the likeliest tokens leave unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.judge.nucleus import COLDEST, PLAIN, TOP, Sampling, outside_nucleus, sampled_logprobs
from eagle_assets.judge.questions import Scores

SIZE = 60


def scored(seed: int, peak: float, top: int) -> tuple[np.ndarray, Scores]:
    """A distribution over SIZE tokens at one place, and the scores of each token there with `top` likeliest known."""
    logits = np.random.default_rng(seed).normal(scale=peak, size=SIZE)
    logprobs = (logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()).astype(np.float32)
    likeliest = np.sort(logprobs)[::-1][:top]
    return logprobs, Scores(logprobs, np.tile(likeliest, (SIZE, 1)))


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    peak=st.floats(0.3, 6),
    top=st.integers(1, SIZE),
    temperature=st.floats(COLDEST, 3),
    top_p=st.floats(0.05, 1),
)
def test_no_token_that_can_be_drawn_is_called_impossible(
    seed: int, peak: float, top: int, temperature: float, top_p: float
) -> None:
    logprobs, scores = scored(seed, peak, top)
    sampling = Sampling(temperature, top_p)
    drawn = np.exp(logprobs.astype(np.float64) / temperature)
    drawn /= drawn.sum()
    likelier = np.array([drawn[drawn > p].sum() for p in drawn])
    impossible = outside_nucleus(scores, sampling, SIZE)
    assert (likelier[impossible] >= top_p).all()
    if top == SIZE:
        assert impossible[likelier >= top_p + 0.2 * (1 - top_p) + 1e-6].all() or top_p == 1.0
    assert (sampled_logprobs(scores, sampling) >= np.log(drawn) - 1e-3).all()


def test_without_settings_nothing_changes_and_nothing_more_is_asked() -> None:
    logprobs, scores = scored(1, 2.0, 4)
    assert sampled_logprobs(scores, PLAIN) is scores.tokens
    assert not outside_nucleus(scores, PLAIN, SIZE).any()
    assert PLAIN.top == 0
    assert logprobs.shape == (SIZE,)


@pytest.mark.parametrize(
    ("request_", "sampling"),
    [
        ({}, PLAIN),
        ({"temperature": 0.6, "top_p": 0.95}, Sampling(0.6, 0.95)),
        ({"temperature": 0}, Sampling(COLDEST, 1.0)),
        ({"temperature": "warm", "top_p": True}, PLAIN),
        ({"temperature": None, "top_p": 7}, PLAIN),
    ],
)
def test_settings_are_read_from_the_request(request_: dict[str, object], sampling: Sampling) -> None:
    assert Sampling.of(request_) == sampling
    assert Sampling.of(request_).top == (0 if sampling == PLAIN else TOP)
