"""Exchanges in, verdicts out: what each says to calibration, what all say together, then a verdict for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibration import Calibration, calibrate_observations
from eagle_assets.reconstruction.decisions import Arbitrations
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.judgement import find, group_of, judge
from eagle_assets.reconstruction.observation import Observation, observe
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
from eagle_assets.reconstruction.search.deployments import SampleKind, Samples, sample_kind, with_servers
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.targets.kimi import kimi_vocabulary
from eagle_assets.targets.prompt import PromptError

_PROMPTS_PER_GROUP = 32  # rendered prompts of a kind that are enough to see how a provider renders them


class Seen(NamedTuple):
    """What an exchange says to calibration; None where it says nothing.

    `group` is (model, provider, streamed, kind of prompt); only its first few exchanges have their prompt rendered.
    `sample` is the exchange itself with its kind, where it is one of the first few of that.
    """

    group: tuple[str, str | None, bool, Kind]
    observation: Observation | None
    prompt: PromptObservation | None
    sample: tuple[SampleKind, Exchange] | None


def calibrate(exchanges: Iterable[Exchange], arbitrations: Arbitrations = MappingProxyType({})) -> Calibration:
    """The calibration that these exchanges lead to; only small observations of them are kept."""
    return calibrate_seen(seen_in(exchanges), arbitrations)


def calibrate_seen(seen: Iterable[Seen], arbitrations: Arbitrations = MappingProxyType({})) -> Calibration:
    """The calibration that all that was seen leads to, in the order of the exchanges, however it was divided."""
    of_group: Counter[tuple[str, str | None, bool, Kind]] = Counter()
    observed, prompts, samples = [], [], Samples()
    for group, observation, prompt, sample in seen:
        if sample is not None:
            samples.add(*sample)
        of_group[group] += 1
        if prompt is not None and of_group[group] <= _PROMPTS_PER_GROUP:
            prompts.append(prompt)
        elif observation is not None and observation.prompt_offset is not None:
            observation = replace(observation, prompt_offset=None)
        if observation is not None:
            observed.append(observation)
    return with_servers(calibrate_observations(observed, calibrate_prompts(prompts), arbitrations), samples)


def seen_in(exchanges: Iterable[Exchange]) -> Iterator[Seen]:
    """What each usable exchange says, in order."""
    of_group: Counter[tuple[str, str | None, bool, Kind]] = Counter()
    samples = Samples()
    for reading in map(read, exchanges):
        situation = reading.situation
        if reading.unusable or situation is None:
            continue
        group = (situation.target.name, reading.provider, situation.streamed, kind_of(reading.exchange.request))
        of_group[group] += 1
        observation, prompt = observed_in(reading, of_group[group] <= _PROMPTS_PER_GROUP)
        sampled = sample_kind(reading)
        is_one = sampled is not None and samples.add(sampled, reading.exchange)
        yield Seen(group, observation, prompt, (sampled, reading.exchange) if is_one and sampled else None)


def observed_in(reading: Reading, is_rendered: bool) -> tuple[Observation | None, PromptObservation | None]:
    """What a usable response says of its convention, and, where its prompt is to be rendered, what that says."""
    prompt = observe_prompt(reading) if is_rendered else None
    offset = None if prompt is None else prompt.differences[TEMPLATE]
    return observe(reading, reading.layouts[0], EncodedTexts(kimi_vocabulary()), offset), prompt


def reconstruct(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[Reconstruction]:
    """A verdict for each exchange, in order. Never raises for what a server sent."""
    for reading in map(read, exchanges):
        yield judge(reading, calibration, EncodedTexts(kimi_vocabulary()), judged_prompt(reading, calibration))


def findings(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[tuple[Reading, Reconstruction]]:
    """What is found in each exchange, in order, before it is weighed."""
    for reading in map(read, exchanges):
        texts, prompt = EncodedTexts(kimi_vocabulary()), judged_prompt(reading, calibration)
        yield reading, find(reading, group_of(reading, calibration), texts, prompt)


def judged_prompt(reading: Reading, calibration: Calibration) -> PromptVerdict:
    """The verdict on the prompt of an exchange."""
    return judge_prompt(reading, _renderings(reading), calibration.prompts.of(reading))


def _renderings(reading: Reading) -> dict[str, list[int]] | None:
    if reading.situation is None:
        return None
    try:
        return renderings(reading.situation.target, reading.exchange.request)
    except PromptError:
        return None
