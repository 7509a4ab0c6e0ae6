"""Responses that read as several sequences of ids, one for each convention that still stands for their provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibration import Calibration, GroupKey
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.inversion import find_inversions
from eagle_assets.reconstruction.judgement import group_of
from eagle_assets.reconstruction.reading import read
from eagle_assets.reconstruction.reconstruct import judged_prompt
from eagle_assets.targets.kimi import kimi_vocabulary


@dataclass(frozen=True, slots=True)
class Reading:
    """What a response reads as under a convention; `closes` says whether its count agrees."""

    output_ids: tuple[int, ...]
    closes: bool


@dataclass(frozen=True, slots=True)
class Contest:
    """What a response reads as under each convention that stands, by its name; None where the convention cannot have
    shown it. They are not all the same."""

    exchange_id: str
    group: GroupKey
    prompt_ids: tuple[int, ...]
    readings: Mapping[str, Reading | None]


def contests(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[Contest]:
    """The contests among these exchanges, in order.

    Left out are responses whose prompt is not known, and those of a provider that changed its convention: it is not
    one thing that could be decided.
    """
    for reading in map(read, exchanges):
        group = group_of(reading, calibration)
        if reading.unusable or reading.situation is None or group is None or len(group.survivors) == 1:
            continue
        key = (group.model, group.provider, group.streamed)
        prompt_ids = None if key in calibration.earlier else judged_prompt(reading, calibration).ids
        if prompt_ids is None:
            continue
        texts = EncodedTexts(kimi_vocabulary())
        readings: dict[str, Reading | None] = {s.hypothesis.name: None for s in group.survivors}
        for inversion in find_inversions(reading, group, texts):
            known = readings[inversion.hypothesis.name]
            if known is None or (inversion.closes and not known.closes):
                ids = tuple(inversion.ids(texts, reading.situation))
                readings[inversion.hypothesis.name] = Reading(ids, inversion.closes)
        if len(set(readings.values())) > 1:
            yield Contest(reading.exchange.exchange_id, key, tuple(prompt_ids), readings)
