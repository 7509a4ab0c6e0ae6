"""From what was found in the parts of a dataset to its sequences: weighed, and the least certain held back."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import nan
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eagle_assets.lake.kept import Part
from eagle_assets.lake.schemas import TOKEN_SEQUENCES
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.decisive import changes_of
from eagle_assets.reconstruction.parts.findings import facts_of, read_findings
from eagle_assets.reconstruction.sequences import UNSTATED_ERROR, held_back
from eagle_assets.reconstruction.verdict import Exposure
from eagle_assets.reconstruction.weighing import Weight, weigh

HELD_BACK = "residual_error_above_limit"


@dataclass(frozen=True, slots=True)
class PartWeights:
    """A part's rows, weighed: None where a row has no exposure. `held` are those that are held back."""

    part: Part
    weights: tuple[Weight | None, ...]
    held: npt.NDArray[np.bool_]

    @property
    def name(self) -> str:
        """The file, as it is written."""
        return self.part.file.written_as

    @property
    def recipe(self) -> str:
        """A digest of all that the part's sequences are made from."""
        weights = [None if weight is None else (weight.error, weight.cause) for weight in self.weights]
        made_from = (self.name, self.part.kept.name, sorted(facts_of(self.part).items()), weights)
        return hashlib.sha256(repr(made_from).encode() + self.held.tobytes()).hexdigest()

    def sequences(self, found: pa.Table) -> pa.Table:
        """The rows of TOKEN_SEQUENCES that are made of what was found."""
        columns = {name: found[name].to_pylist() for name in ("verdict", "reasons", "evidence")}
        for row, weight in enumerate(self.weights):
            if weight is not None and columns["verdict"][row] == "consistent":
                evidence = {**msgspec.json.decode(columns["evidence"][row]), "residual_error": weight.error}
                columns["evidence"][row] = msgspec.json.encode(evidence).decode()
                columns["reasons"][row] = weight.reasons(columns["reasons"][row])
                if weight.cause is not None:
                    columns["verdict"][row] = "unverified"
            if self.held[row]:
                columns["verdict"][row] = "unverified"
                columns["reasons"][row] = [*columns["reasons"][row], HELD_BACK]
        changed = {name: pa.array(values, TOKEN_SEQUENCES.field(name).type) for name, values in columns.items()}
        return pa.table([changed.get(field.name, found[field.name]) for field in TOKEN_SEQUENCES], TOKEN_SEQUENCES)


def weigh_parts(parts: Sequence[Part], calibration: Calibration, limit: float) -> list[PartWeights]:
    """Weigh all rows, and hold back as few as can be, so that no more than `limit` of the trusted ones is wrong."""
    weighed, errors = [], [np.zeros(0)]
    for part in parts:
        columns = read_findings(part, ["verdict", "group", "order", "exposure"]).to_pydict()
        weights = tuple(_weights(columns, calibration))
        weighed.append(PartWeights(part, weights, np.zeros(len(weights), dtype=np.bool_)))
        errors.append(
            np.array([_error(*row) for row in zip(columns["verdict"], weights, strict=True)], dtype=np.float64)
        )
    held = np.split(held_back(np.concatenate(errors), limit), np.cumsum([len(e) for e in errors])[1:-1])
    return [replace(weights, held=of_part) for weights, of_part in zip(weighed, held, strict=True)] if weighed else []


def _weights(columns: Mapping[str, Sequence[Any]], calibration: Calibration) -> Iterator[Weight | None]:
    known: dict[tuple[str, int, str], Weight] = {}
    for name, order, text in zip(columns["group"], columns["order"], columns["exposure"], strict=True):
        if text is None:
            yield None
            continue
        key = _key(name)
        era = bisect_right(changes_of(calibration, key), order)
        weight = known.get((name, era, text))
        if weight is None:
            group = calibration.of(*key, order)
            assert group is not None  # else the facts had changed, and nothing were exposed
            exposure = msgspec.json.decode(text, type=Exposure)
            weight = known[name, era, text] = weigh(exposure, calibration, group, key[0])
        yield weight


@lru_cache(maxsize=1 << 10)
def _key(group: str) -> GroupKey:
    key: GroupKey = msgspec.json.decode(group, type=GroupKey)
    return key


def _error(verdict: str, weight: Weight | None) -> float:
    """The residual error of a row that is `consistent`, else NaN; what is not stated is taken for certain."""
    if verdict != "consistent" or (weight is not None and weight.cause is not None):
        return nan
    return UNSTATED_ERROR if weight is None else weight.error
