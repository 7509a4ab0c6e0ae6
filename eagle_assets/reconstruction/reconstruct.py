"""Exchanges in, verdicts out: calibration over the whole, then judgement, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibration import Calibration, calibrate_observations
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.judgement import find, group_of, judge, texts_to_judge
from eagle_assets.reconstruction.observation import Observation, observe, texts_to_count
from eagle_assets.reconstruction.prompts import (
    TEMPLATE,
    Kind,
    PromptObservation,
    PromptVerdict,
    calibrate_prompts,
    judge_prompt,
    kind_of,
    observe_prompt,
    renderings,
)
from eagle_assets.reconstruction.reading import Reading, read
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.targets.kimi import kimi_vocabulary
from eagle_assets.targets.prompt import PromptError
from eagle_assets.targets.target import Target

_BATCH = 256  # exchanges read at once: memory stays flat, texts are encoded on all cores
_PROMPTS_PER_GROUP = 32  # rendered prompts of a kind that are enough to see how a provider renders them


def calibrate(exchanges: Iterable[Exchange]) -> Calibration:
    """The calibration that these exchanges lead to; only small observations of them are kept."""
    prompts: list[PromptObservation] = []
    seen = list(observations(exchanges, prompts))
    return calibrate_observations(seen, calibrate_prompts(prompts))


def reconstruct(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[Reconstruction]:
    """A verdict for each exchange, in order. Never raises for what a server sent."""
    for reading, texts, prompt in _prepared(exchanges, calibration):
        yield judge(reading, calibration, texts, prompt)


def findings(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[tuple[Reading, Reconstruction]]:
    """What is found in each exchange, in order, before it is weighed."""
    for reading, texts, prompt in _prepared(exchanges, calibration):
        yield reading, find(reading, group_of(reading, calibration), texts, prompt)


def _prepared(
    exchanges: Iterable[Exchange], calibration: Calibration
) -> Iterator[tuple[Reading, EncodedTexts, PromptVerdict]]:
    for batch in _batches(exchanges):
        readings = [read(exchange) for exchange in batch]
        texts = EncodedTexts(kimi_vocabulary(), (t for r in readings for t in texts_to_judge(r, calibration)))
        for reading in readings:
            prompt = judge_prompt(reading, _renderings(reading), calibration.prompts.of(reading))
            yield reading, texts, prompt


def observations(
    exchanges: Iterable[Exchange], prompts: list[PromptObservation] | None = None
) -> Iterator[Observation]:
    """What exchanges say of the conventions they were served under, in order; those that say nothing are left out.

    What they say of how prompts are rendered is added to `prompts`.
    """
    rendered: Counter[tuple[Target, str | None, bool, Kind]] = Counter()
    for batch in _batches(exchanges):
        pairs = [(r, r.layouts[0]) for r in map(read, batch) if not r.unusable and r.situation is not None]
        texts = EncodedTexts(kimi_vocabulary(), (t for r, layout in pairs for t in texts_to_count(r, layout)))
        for reading, layout in pairs:
            situation = reading.situation
            assert situation is not None
            kind = kind_of(reading.exchange.request)
            group = (situation.target, reading.provider, situation.streamed, kind)
            prompt = observe_prompt(reading) if rendered[group] < _PROMPTS_PER_GROUP else None
            rendered[group] += 1
            if prompt is not None and prompts is not None:
                prompts.append(prompt)
            observation = observe(reading, layout, texts, None if prompt is None else prompt.differences[TEMPLATE])
            if observation is not None:
                yield observation


def _renderings(reading: Reading) -> dict[str, list[int]] | None:
    if reading.situation is None:
        return None
    try:
        return renderings(reading.situation.target, reading.exchange.request)
    except PromptError:
        return None


def _batches(exchanges: Iterable[Exchange]) -> Iterator[Sequence[Exchange]]:
    iterator = iter(exchanges)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
