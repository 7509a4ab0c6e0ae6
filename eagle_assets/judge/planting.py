"""Wrong ids on purpose: one known error in an output that is known to be right, to see whether it is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random

from eagle_assets.judge.variants import (
    KINDS,
    Kind,
    Variant,
    cut_otherwise,
    ends,
    leading_blanks,
    tool_indexes,
)
from eagle_assets.targets.target import Target

_PLACES = 60  # at which other cuts are looked for


def errors_to_plant(ids: Sequence[int], target: Target, rng: Random) -> dict[Kind, Variant]:
    """One error of each kind that these ids have room for, at a place drawn from all that there are."""
    found: dict[Kind, list[Variant]] = {kind: [] for kind in KINDS}
    for variant in chain(leading_blanks(ids, target), ends(ids, target), tool_indexes(ids, target)):
        found[variant.kind].append(variant)
    vocabulary = target.vocabulary
    ordinary = [place for place, token in enumerate(ids) if token < vocabulary.ordinary_size]
    lines = [place for place in ordinary if b"\n" in vocabulary.bytes_of(ids[place])]
    for variant in cut_otherwise(ids, _some(ordinary, rng), vocabulary):
        found[variant.kind].append(variant)
    for variant in cut_otherwise(ids, [*_some(lines, rng), *_ahead_of(lines, ordinary)], vocabulary):
        if variant.kind == "line break":
            found[variant.kind].append(variant)
    return {kind: rng.choice(variants) for kind, variants in found.items() if variants}


def _some(places: Sequence[int], rng: Random) -> list[int]:
    return rng.sample(places, min(_PLACES, len(places)))


def _ahead_of(lines: Sequence[int], ordinary: Sequence[int]) -> Iterator[int]:
    known = set(ordinary)
    return (place - 1 for place in lines[:_PLACES] if place - 1 in known)
