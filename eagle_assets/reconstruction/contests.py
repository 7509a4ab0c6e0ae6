"""Responses that read as several sequences of ids, one for each convention that still stands for their provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.calibrating.inversion import find_inversions
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.judgement import group_of
from eagle_assets.reconstruction.reconstruct import judged_prompt
from eagle_assets.serving.served import Situation
from eagle_assets.targets.kimi import kimi_vocabulary


@dataclass(frozen=True, slots=True)
class ReadAs:
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
    readings: Mapping[str, ReadAs | None]


def is_contested(group: GroupCalibration) -> bool:
    """Whether more than one convention may be the group's."""
    return len(_rivals(group)) > 1


def _rivals(group: GroupCalibration) -> list[Hypothesis]:
    return [way for survivor in group.survivors for way in survivor.hypothesis.ways_to_settle()]


def _as_settled(ids: tuple[int, ...], rival: Hypothesis, situation: Situation) -> tuple[int, ...]:
    """The ids that a convention leads to, by those of the one that left its section end open."""
    if rival.counting.section_end_generated is not False:
        return ids
    return tuple(token for token in ids if token != situation.target.markers.section_end)


def contests(exchanges: Iterable[Exchange], calibration: Calibration) -> Iterator[Contest]:
    """The contests among these exchanges, in order.

    Left out are responses whose prompt is not known, and those of a provider that changed its convention: it is not
    one thing that could be decided.
    """
    for reading in map(read, exchanges):
        group = group_of(reading, calibration)
        if reading.unusable or reading.situation is None or group is None or not is_contested(group):
            continue
        key = (group.model, group.provider, group.streamed)
        prompt_ids = None if key in calibration.earlier else judged_prompt(reading, calibration).ids
        if prompt_ids is None:
            continue
        texts = EncodedTexts(kimi_vocabulary())
        readings: dict[str, ReadAs | None] = {rival.name: None for rival in _rivals(group)}
        for inversion in find_inversions(reading, group, texts):
            ids = tuple(inversion.ids(texts, reading.situation))
            for rival in inversion.hypothesis.ways_to_settle():
                known = readings[rival.name]
                if known is None or (inversion.closes and not known.closes):
                    readings[rival.name] = ReadAs(_as_settled(ids, rival, reading.situation), inversion.closes)
        if len(set(readings.values())) > 1:
            yield Contest(reading.exchange.exchange_id, key, tuple(prompt_ids), readings)
