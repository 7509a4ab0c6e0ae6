"""From the target's own probabilities to those of the sampler that a request asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eagle_assets.judge.questions import Floats, Scores

TOP = 8
"""Likeliest tokens to ask for where a request samples otherwise than plainly; what they cover bounds the nucleus."""

COLDEST = 0.05
"""Temperatures below are taken for this one: a greedy server's ties and roundings are not the target's."""

NUCLEUS_MARGIN = 0.2
"""Share of what `top_p` leaves over by which a token must lie beyond it: servers differ in the last digits."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the tokens of a response were drawn, as far as its request says; else plainly, from all tokens."""

    temperature: float = 1.0
    top_p: float = 1.0

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Sampling:
        temperature, top_p = _number(request.get("temperature"), 1.0), _number(request.get("top_p"), 1.0)
        return cls(max(COLDEST, temperature), min(1.0, top_p) or 1.0)

    @property
    def top(self) -> int:
        """How many likeliest tokens of each place have to be known."""
        return 0 if self == PLAIN else TOP


PLAIN = Sampling()


def sampled_logprobs(scores: Scores, sampling: Sampling) -> Floats:
    """Log-probability of each token under the sampler's temperature, never less than it is; shape (tokens,).

    Only the likeliest tokens are known, so the sum over all is at least that over these.
    """
    if sampling.temperature == 1.0:
        return scores.tokens
    scaled = scores.tokens / sampling.temperature
    known = np.concatenate([scores.top / sampling.temperature, scaled[:, None]], axis=1)
    best = np.max(known, axis=1)
    # The token may be one of the likeliest: then it is counted once.
    is_in_top = (scores.top == scores.tokens[:, None]).any(axis=1)
    sums = np.exp(known - best[:, None]).sum(axis=1) - np.where(is_in_top, np.exp(scaled - best), 0.0)
    return np.asarray(np.minimum(scaled - best - np.log(sums), 0.0), dtype=np.float32)


def outside_nucleus(scores: Scores, sampling: Sampling, vocabulary_size: int) -> np.ndarray:
    """Whether each token cannot have been drawn: tokens that are likelier than it fill `top_p` by themselves.

    Proved from below, by the likeliest tokens that are known; False where these do not suffice.
    """
    if sampling.top_p == 1.0 or not scores.top.shape[1]:
        return np.zeros(len(scores.tokens), dtype=bool)
    power = 1 / sampling.temperature
    probabilities = np.sort(np.exp(scores.top.astype(np.float64)), axis=1)
    rest = np.clip(1.0 - probabilities.sum(axis=1), 0.0, 1.0)
    others = vocabulary_size - probabilities.shape[1]
    least = probabilities[:, 0]
    # What is left over, spread so that it weighs most under this temperature.
    most_of_rest = rest * least ** (power - 1) if power >= 1 else others ** (1 - power) * rest**power
    weights = probabilities**power
    likelier = np.where(probabilities > np.exp(scores.tokens.astype(np.float64))[:, None], weights, 0.0).sum(axis=1)
    share = likelier / np.maximum(weights.sum(axis=1) + most_of_rest, 1e-300)
    return np.asarray(share >= sampling.top_p + NUCLEUS_MARGIN * (1 - sampling.top_p))


def _number(value: object, default: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    return default
