"""How surprised the target is by the ids of an output: by single tokens, and by them rather than other ids.

The second is the sharper of the two: a right token may well be improbable, but seldom is what servers are known to
make of an output far likelier than the output itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eagle_assets.judge.nucleus import PLAIN, Sampling, outside_nucleus, sampled_logprobs
from eagle_assets.judge.questions import Floats, Question, Scores
from eagle_assets.judge.variants import (
    Variant,
    cut_otherwise,
    encoded_otherwise,
    ends,
    leading_blanks,
    tool_indexes,
)
from eagle_assets.targets.target import Target

LEAST_NATS = 4.6
"""Less than that other ids are a hundred times likelier is no alarm; nor are others tried where the tokens of a place
cost less together, as they cannot gain more."""

LEAST_LOGPROB = -100.0
"""In the place of −inf."""

LOOKAHEAD = 16
"""Tokens behind a change, or the last difference of candidates, on which it is weighed."""

MOST_VARIANTS = 12
"""Of a sequence, that are asked about."""

_CUT_FROM = 9.0  # nats of one token from which it is tried whether its bytes were cut otherwise
_MOST_CUT = 2
_BEHIND = 2  # tokens behind a place that may pay for it


@dataclass(frozen=True, slots=True)
class Trial:
    """An output before the judge."""

    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    sampling: Sampling = PLAIN

    @property
    def question(self) -> Question:
        return Question(self.prompt_ids, self.output_ids, self.sampling.top)

    def question_of(self, variant: Variant) -> Question:
        """Of what stands in the variant's place, and of a little behind it, after all that comes before."""
        before = [*self.prompt_ids, *self.output_ids[: variant.start]]
        behind = self.output_ids[variant.end : variant.end + LOOKAHEAD]
        return Question(before, [*variant.instead, *behind], self.sampling.top)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A variant, and by how many nats the target prefers it to what stands there."""

    variant: Variant
    nats: float


@dataclass(frozen=True, slots=True)
class Surprise:
    """`variants` are the likeliest first. `impossible` are the places of tokens that the sampler cannot have drawn,
    where its request `cuts` anything off."""

    variants: tuple[Weighed, ...]
    impossible: tuple[int, ...]
    log_likelihood: float
    tokens: int
    cuts: bool = False

    @property
    def nats(self) -> float:
        """By how much the likeliest variant is likelier; 0 where none is."""
        return max(0.0, self.variants[0].nats) if self.variants else 0.0


def suspicious_variants(trial: Trial, scores: Scores, target: Target) -> list[Variant]:
    """Variants that are worth asking about, at places that cost enough; the dearest places first."""
    nats = -_logprobs(scores, trial.sampling)
    sums = np.concatenate([[0.0], np.cumsum(nats, dtype=np.float64)])

    def cost(variant: Variant) -> float:
        end = min(max(variant.end, variant.start + 1) + _BEHIND, len(nats))
        return float(sums[end] - sums[variant.start])

    if sums[-1] < LEAST_NATS:
        return []
    dear = [int(place) for place in np.argsort(-nats)[:_MOST_CUT] if nats[place] >= _CUT_FROM]
    found = {
        (variant.start, variant.end, variant.instead): variant
        for variant in _all_variants(trial.output_ids, target, dear)
        if cost(variant) >= LEAST_NATS
    }
    return sorted(found.values(), key=cost, reverse=True)[:MOST_VARIANTS]


def _all_variants(ids: Sequence[int], target: Target, dear: Sequence[int]) -> Iterator[Variant]:
    yield from encoded_otherwise(ids, target)
    yield from leading_blanks(ids, target)
    yield from ends(ids, target)
    yield from tool_indexes(ids, target)
    yield from cut_otherwise(ids, dear, target.vocabulary)


def surprise(trial: Trial, scores: Scores, of_variants: Mapping[Variant, Scores], vocabulary_size: int) -> Surprise:
    """What the judge's answers about an output, and about its variants, come to."""
    logprobs = _logprobs(scores, trial.sampling)
    found = ((variant, _logprobs(answer, trial.sampling)) for variant, answer in of_variants.items())
    weighed = [Weighed(variant, _gain(variant, logprobs, instead)) for variant, instead in found]
    weighed.sort(key=lambda w: -w.nats)
    return Surprise(
        variants=tuple(weighed),
        impossible=tuple(int(p) for p in np.flatnonzero(outside_nucleus(scores, trial.sampling, vocabulary_size))),
        log_likelihood=float(logprobs.sum(dtype=np.float64)),
        tokens=len(logprobs),
        cuts=trial.sampling.top_p < 1.0,
    )


def gain(trial: Trial, variant: Variant, given: Scores, instead: Scores) -> float:
    """By how many nats the target finds a variant likelier than what stands there; over the same tokens behind the
    change on both sides."""
    return _gain(variant, _logprobs(given, trial.sampling), _logprobs(instead, trial.sampling))


def _logprobs(scores: Scores, sampling: Sampling) -> Floats:
    return np.nan_to_num(sampled_logprobs(scores, sampling), neginf=LEAST_LOGPROB)


def _gain(variant: Variant, given: Floats, instead: Floats) -> float:
    behind = len(instead) - len(variant.instead)
    mine = given[variant.start : variant.end + behind]
    return float(instead.sum(dtype=np.float64) - mine.sum(dtype=np.float64))
