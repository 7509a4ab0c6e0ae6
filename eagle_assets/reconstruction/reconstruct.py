"""Exchanges in, verdicts out: what each says to calibration, what all say together, then a verdict for each."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from msgspec import structs

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations
from eagle_assets.reconstruction.calibrating.inversion import likeliest_texts
from eagle_assets.reconstruction.calibrating.observation import Observation, observe
from eagle_assets.reconstruction.calibrating.refutation import calibrate_observations
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import Reading, reading_of
from eagle_assets.reconstruction.judgement import find, group_of, judge
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
from eagle_assets.reconstruction.search.deployments import SampleKind, Samples, sample_kind, with_servers
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.reconstruction.weighing import Weights
from eagle_assets.targets.kimi import kimi_vocabulary
from eagle_assets.targets.prompt import PromptError

_EXCHANGES_AT_ONCE, _BYTES_AT_ONCE = 64, 2**20
_PROMPTS_PER_GROUP = 32  # rendered prompts of a kind that are enough to see how a provider renders them


class Seen(NamedTuple):
    """What an exchange says to calibration; None where it says nothing.

    `body` is a digest of its body, by which one that stands in a file twice is known, under whatever name.
    `group` is (model, provider, streamed, kind of prompt); only its first few exchanges have their prompt rendered.
    `sample` is what gives the exchange itself, with its kind, where it is one of the first few of that.
    """

    body: bytes
    group: tuple[str, str | None, bool, Kind]
    observation: Observation | None
    prompt: PromptObservation | None
    sample: tuple[SampleKind, Callable[[], Exchange]] | None


def calibrate(exchanges: Iterable[Exchange], arbitrations: Arbitrations = MappingProxyType({})) -> Calibration:
    """The calibration that these exchanges lead to; only small observations of them are kept."""
    return calibrate_seen(seen_in(exchanges), arbitrations)


def calibrate_seen(seen: Iterable[Seen], arbitrations: Arbitrations = MappingProxyType({})) -> Calibration:
    """The calibration that all that was seen leads to, in the order of the exchanges, however it was divided.

    What has the body of an exchange before it is that exchange again, and no evidence of its own.
    """
    known: set[bytes] = set()
    of_group: Counter[tuple[str, str | None, bool, Kind]] = Counter()
    observed, prompts, samples = [], [], Samples()
    for body, group, observation, prompt, sample in seen:
        if body in known:
            continue
        known.add(body)
        if sample is not None and samples.wants(sample[0]):
            samples.add(sample[0], sample[1]())
        of_group[group] += 1
        if prompt is not None and of_group[group] <= _PROMPTS_PER_GROUP:
            prompts.append(prompt)
        elif observation is not None and observation.prompt_offset is not None:
            observation = structs.replace(observation, prompt_offset=None)
        if observation is not None:
            observed.append(observation)
    return with_servers(calibrate_observations(observed, calibrate_prompts(prompts), arbitrations), samples)


def seen_in(exchanges: Iterable[Exchange]) -> Iterator[Seen]:
    """What each usable exchange says, in order."""
    of_group: Counter[tuple[str, str | None, bool, Kind]] = Counter()
    samples = Samples()
    for readings in _read_in_batches(exchanges):
        usable = [reading for reading in readings if not reading.unusable and reading.situation is not None]
        texts = EncodedTexts(kimi_vocabulary())
        texts.encode(text for reading in usable for text in reading.layouts[0].output.segments())
        for reading in usable:
            group = (
                reading.target_name,
                reading.provider,
                reading.response.streamed,
                kind_of(reading.exchange.request),
            )
            of_group[group] += 1
            observation, prompt = observed_in(reading, of_group[group] <= _PROMPTS_PER_GROUP, texts)
            sample, sampled = None, sample_kind(reading)
            if sampled is not None and samples.wants(sampled):
                samples.add(sampled, reading.exchange)
                sample = (sampled, partial(_itself, reading.exchange))
            yield Seen(_digest(reading.exchange.body), group, observation, prompt, sample)


def observed_in(
    reading: Reading, is_rendered: bool, texts: EncodedTexts
) -> tuple[Observation | None, PromptObservation | None]:
    """What a usable response says of its convention, and, where its prompt is to be rendered, what that says."""
    prompt = observe_prompt(reading) if is_rendered else None
    offset = None if prompt is None else prompt.differences[TEMPLATE]
    return observe(reading, reading.layouts[0], texts, offset), prompt


def reconstruct(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[Reconstruction]:
    """A verdict for each exchange, in order; holds one batch. Never raises for what a server sent."""
    return reconstruct_weighed(exchanges, Weights(calibration))


def reconstruct_weighed(exchanges: Iterable[Exchange], weights: Weights) -> Iterator[Reconstruction]:
    """The same, with what earlier exchanges under the same calibration left of weights."""
    for readings, prompts, texts in _made_ready(exchanges, weights.calibration):
        for reading, prompt in zip(readings, prompts, strict=True):
            yield judge(reading, weights, texts, prompt)


def findings(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[tuple[Reading, Reconstruction]]:
    """What is found in each exchange, in order, before it is weighed; holds one batch."""
    for readings, prompts, texts in _made_ready(exchanges, calibration):
        for reading, prompt in zip(readings, prompts, strict=True):
            yield reading, find(reading, group_of(reading, calibration), texts, prompt)


def _made_ready(
    exchanges: Iterable[Exchange], calibration: Calibration
) -> Iterator[tuple[list[Reading], list[PromptVerdict], EncodedTexts]]:
    """Batches of exchanges, read, with the verdicts on their prompts and their likeliest texts encoded."""
    for readings in _read_in_batches(exchanges):
        texts = EncodedTexts(kimi_vocabulary())
        texts.encode(text for reading in readings for text in likeliest_texts(reading, group_of(reading, calibration)))
        yield readings, [judged_prompt(reading, calibration) for reading in readings], texts


def _read_in_batches(exchanges: Iterable[Exchange]) -> Iterator[list[Reading]]:
    """Exchanges read, a batch at a time, one step for all of it before the next.

    Each step for itself finds its own in the processor's caches, from which the encoder's tables drive all the rest.
    """
    for batch in _batches(exchanges):
        responses = list(map(read_response, batch))
        yield list(map(reading_of, batch, responses))


def _batches(exchanges: Iterable[Exchange]) -> Iterator[list[Exchange]]:
    batch: list[Exchange] = []
    size = 0
    for exchange in exchanges:
        batch.append(exchange)
        size += len(exchange.body)
        if len(batch) == _EXCHANGES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=12).digest()


def _itself(exchange: Exchange) -> Exchange:
    return exchange


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
