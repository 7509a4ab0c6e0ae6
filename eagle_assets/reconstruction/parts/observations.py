"""Calibration on what is stored: of each part of `raw_responses` the observations of a few responses are kept.

Which responses these are depends on their names alone, so that a part has to be looked at once: of a group that has
doubled, every second one falls out of the sample, and none comes in.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs

from eagle_assets.durability import write_atomically
from eagle_assets.lake.kept import Part
from eagle_assets.lake.parquet import batches_of
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.values import as_dict
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.refutation import calibrate_observations
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.prompts import PromptObservation, calibrate_prompts, kind_of
from eagle_assets.reconstruction.reconstruct import observed_in
from eagle_assets.reconstruction.search.deployments import Samples, sample_kind, with_servers
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.reconstruction.workers import WORTH_WORKERS, workers

MOST_OF_A_GROUP = 1_000
"""Responses of a group that are looked at: between half as many and so many of a large one. Of most such samples 512
are measured (`settled`), so that rates stand still until the group has doubled."""

MOST_PROMPTS_OF_A_GROUP = 64
"""Rendered prompts of a group that are enough to see how a provider renders them."""

_KEYS = ["exchange_id", "provider", "request"]


class Sampled(msgspec.Struct, frozen=True):
    """One response of a sample. `place` is what its name is to the sample: a number like a throw of dice.

    The `exchange` itself is there where its prompt is and it can tell servers apart.
    """

    place: int
    group: str
    exchange_id: str
    order: float
    observation: Observation | None
    prompt: PromptObservation | None = None
    exchange: Exchange | None = None


class PartObservations(msgspec.Struct, frozen=True):
    """A part: how many responses of each group it holds, and what was seen in those whose places are multiples of the
    group's stride, in the prompts of those whose places are multiples of that of `rendered`."""

    sizes: dict[str, int]
    strides: dict[str, int] = {}
    rendered: dict[str, int] = {}
    seen: tuple[Sampled, ...] = ()

    def holds(self, strides: Mapping[str, int], rendered: Mapping[str, int]) -> bool:
        """Whether it is enough for these strides: powers of two, so that what is seen for one is for twice it too."""
        return all(
            group in mine and mine[group] <= wanted[group]
            for mine, wanted in ((self.strides, strides), (self.rendered, rendered))
            for group in self.sizes
        )


@dataclass(frozen=True, slots=True)
class _Task:
    """A part, what is known of it, and the strides for which it is to be known."""

    part: Part
    known: PartObservations
    strides: dict[str, int]
    rendered: dict[str, int]


def calibrate_parts(
    parts: Sequence[Part], decided: Arbitrations = MappingProxyType({}), own: Iterable[Observation] = ()
) -> Calibration:
    """The calibration that the responses of all parts lead to, some hundreds of each group looked at; the
    team's `own` outputs say what the model's habits are.

    What was seen in a part is kept beside it. The order of the parts does not matter.
    """
    new = [part.file.rows for part in parts if not part.kept.is_file()]
    with workers("eagle_assets.reconstruction.loaded", len(new) > 1 and sum(new) >= WORTH_WORKERS) as pool:
        known = list(pool.map(_known, parts))
        sizes: Counter[str] = Counter()
        for of_part in known:
            sizes.update(of_part.sizes)
        strides = {group: _stride(size, MOST_OF_A_GROUP) for group, size in sizes.items()}
        rendered = {group: _stride(size, MOST_PROMPTS_OF_A_GROUP) for group, size in sizes.items()}
        tasks = (_Task(*of_part, strides, rendered) for of_part in zip(parts, known, strict=True))
        seen = [
            one
            for observed in pool.map(_observed, tasks)
            for one in observed.seen
            if one.place % strides[one.group] == 0
        ]
    seen = [one if one.place % rendered[one.group] == 0 else _without_prompt(one) for one in seen]
    seen.sort(key=lambda one: (one.order, one.exchange_id))
    prompts = calibrate_prompts(one.prompt for one in seen if one.prompt is not None)
    observations = (one.observation for one in seen if one.observation is not None)
    calibration = calibrate_observations(observations, prompts, decided, own)
    return with_servers(calibration, _samples(seen))


def _samples(seen: Iterable[Sampled]) -> Samples:
    samples = Samples()
    for one in seen:
        if one.exchange is not None and (kind := sample_kind(read(one.exchange))) is not None:
            samples.add(kind, one.exchange)
    return samples


def _known(part: Part) -> PartObservations:
    """What is kept of a part, or else only how many responses of each group it holds."""
    try:
        return msgspec.msgpack.decode(part.kept.read_bytes(), type=PartObservations)
    except (OSError, msgspec.DecodeError):
        return PartObservations(_sizes(part.path))


def _observed(task: _Task) -> PartObservations:
    known, strides, rendered = task.known, task.strides, task.rendered
    if known.holds(strides, rendered):
        return known
    observed = PartObservations(known.sizes, strides, rendered, tuple(_observe(task.part.path, strides, rendered)))
    write_atomically(task.part.kept, msgspec.msgpack.encode(observed))
    return observed


def _stride(size: int, most: int) -> int:
    """A power of two, so that a larger group's sample is a part of what its sample was before."""
    return 1 << (max(0, size - 1) // most).bit_length()


def _sizes(path: Path) -> dict[str, int]:
    return dict(Counter(_group(row) for batch in batches_of(path, _KEYS) for row in batch.to_pylist()))


def _group(row: Mapping[str, Any]) -> str:
    """Provider, model, kind of prompt, streamed or not: as far as can be told without reading the body."""
    request = as_dict(msgspec.json.decode(row["request"]))
    return f"{row['provider']} {request.get('model')} {kind_of(request)} {bool(request.get('stream'))}"


def _place(exchange_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(exchange_id.encode(), digest_size=7).digest())


def _observe(path: Path, strides: Mapping[str, int], rendered: Mapping[str, int]) -> Iterator[Sampled]:
    for batch in batches_of(path):
        keys = [(row, _place(row["exchange_id"]), _group(row)) for row in batch.select(_KEYS).to_pylist()]
        taken = [number for number, (_, place, group) in enumerate(keys) if place % strides[group] == 0]
        rows = batch.take(pa.array(taken, pa.int64())).to_pylist()
        for number, row in zip(taken, rows, strict=True):
            reading = read(exchange_of_row(row))
            if reading.unusable or reading.situation is None:
                continue
            _, place, group = keys[number]
            is_rendered = place % rendered[group] == 0
            observation, prompt = observed_in(reading, is_rendered, EncodedTexts(reading.situation.target.vocabulary))
            exchange = reading.exchange if is_rendered and sample_kind(reading) is not None else None
            yield Sampled(place, group, row["exchange_id"], reading.exchange.order, observation, prompt, exchange)


def _without_prompt(one: Sampled) -> Sampled:
    observation = None if one.observation is None else structs.replace(one.observation, prompt_offset=None)
    return Sampled(one.place, one.group, one.exchange_id, one.order, observation)
