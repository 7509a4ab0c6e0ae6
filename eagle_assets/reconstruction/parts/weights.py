"""From what was found in the parts of a dataset to its sequences: weighed, and the least certain held back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import nan

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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


Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartWeights:
    """A part's rows, weighed: row r weighs `distinct[which[r]]`, None where it has no exposure. `held` are those that
    are held back."""

    part: Part
    distinct: tuple[Weight | None, ...]
    which: Places
    held: npt.NDArray[np.bool_]

    @property
    def name(self) -> str:
        """The file, as it is written."""
        return self.part.file.written_as

    @property
    def weights(self) -> list[Weight | None]:
        """Of each row."""
        return [self.distinct[which] for which in self.which.tolist()]

    @property
    def recipe(self) -> str:
        """A digest of all that the part's sequences are made from."""
        known = [None if weight is None else (weight.error, weight.cause) for weight in self.distinct]
        made_from = (self.name, self.part.kept.name, sorted(facts_of(self.part).items()), known)
        return hashlib.sha256(repr(made_from).encode() + self.which.tobytes() + self.held.tobytes()).hexdigest()

    def taken(self, places: Places) -> PartWeights:
        """Some of the rows, none of them held back."""
        return replace(self, which=self.which[places], held=np.zeros(places.size, np.bool_))

    def errors(self, verdicts: pa.ChunkedArray) -> npt.NDArray[np.float64]:
        """What is stated of each row that was found `consistent` and is not open for what it weighs, else NaN; what is
        not stated is taken for certain."""
        stated = [
            UNSTATED_ERROR if weight is None else nan if weight.cause is not None else weight.error
            for weight in self.distinct
        ]
        consistent = pc.equal(verdicts, "consistent").to_numpy(zero_copy_only=False)
        return np.where(consistent, np.array(stated, np.float64)[self.which], nan)

    def verdicts(self, found: pa.ChunkedArray) -> pa.ChunkedArray:
        """The verdicts that come of those that were found."""
        open_ = np.array([weight is not None and weight.cause is not None for weight in self.distinct], np.bool_)
        consistent = pc.equal(found, "consistent").to_numpy(zero_copy_only=False)
        return pc.if_else(pa.array(self.held | (consistent & open_[self.which])), "unverified", found)

    def sequences(self, found: pa.Table) -> pa.Table:
        """The rows of TOKEN_SEQUENCES that are made of what was found."""
        columns = {name: found[name].to_pylist() for name in ("verdict", "reasons", "evidence")}
        for row, weight in enumerate(self.weights):
            if weight is not None and columns["verdict"][row] == "consistent":
                evidence = {**msgspec.json.decode(columns["evidence"][row]), "residual_error": weight.error}
                columns["evidence"][row] = msgspec.json.encode(evidence).decode()
                columns["reasons"][row] = weight.reasons(columns["reasons"][row])
            if self.held[row]:
                columns["reasons"][row] = [*columns["reasons"][row], HELD_BACK]
        changed = {name: pa.array(columns[name], TOKEN_SEQUENCES.field(name).type) for name in ("reasons", "evidence")}
        changed["verdict"] = self.verdicts(found["verdict"])
        return pa.table([changed.get(field.name, found[field.name]) for field in TOKEN_SEQUENCES], TOKEN_SEQUENCES)


def weigh_parts(parts: Sequence[Part], calibration: Calibration, limit: float) -> list[PartWeights]:
    """Weigh all rows, and hold back as few as can be, so that no more than `limit` of the trusted ones is wrong."""
    weighed, errors = [], [np.zeros(0)]
    known: dict[_Exposed, Weight] = {}
    for part in parts:
        found = read_findings(part, ["verdict", "group", "order", "exposure"])
        weights = _weighed(part, found, calibration, known)
        weighed.append(weights)
        errors.append(weights.errors(found["verdict"]))
    held = np.split(held_back(np.concatenate(errors), limit), np.cumsum([len(e) for e in errors])[1:-1])
    return [replace(weights, held=of_part) for weights, of_part in zip(weighed, held, strict=True)] if weighed else []


_Exposed = tuple[str, str, int]
"""A group, an exposure, and which era of the group it is in."""


def _weighed(part: Part, found: pa.Table, calibration: Calibration, known: dict[_Exposed, Weight]) -> PartWeights:
    """A part of which nothing is held back. `known` is what was weighed before under this calibration."""
    groups, exposures = (found[name].combine_chunks().dictionary_encode("encode") for name in ("group", "exposure"))
    orders, of_group = found["order"].to_numpy(), groups.indices.to_numpy()
    eras = np.zeros(found.num_rows, dtype=np.int64)
    for place, name in enumerate(groups.dictionary.to_pylist()):
        if name is not None and (changes := changes_of(calibration, _key(name))):
            eras[of_group == place] = np.searchsorted(changes, orders[of_group == place], side="right")
    kinds = (eras * len(groups.dictionary) + of_group) * len(exposures.dictionary) + exposures.indices.to_numpy()
    _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
    exposed = zip(*(found[name].take(first).to_pylist() for name in ("group", "exposure", "order")), strict=True)
    distinct = tuple(
        None if exposure is None else _weight((group, exposure, era), order, calibration, known)
        for (group, exposure, order), era in zip(exposed, eras[first].tolist(), strict=True)
    )
    return PartWeights(part, distinct, which.astype(np.int64), np.zeros(which.size, dtype=np.bool_))


def _weight(exposed: _Exposed, order: float, calibration: Calibration, known: dict[_Exposed, Weight]) -> Weight:
    if exposed not in known:
        key = _key(exposed[0])
        exposure = msgspec.json.decode(exposed[1], type=Exposure)
        known[exposed] = weigh(exposure, calibration, calibration.of(*key, order), key[0])
    return known[exposed]


@lru_cache(maxsize=1 << 10)
def _key(group: str) -> GroupKey:
    key: GroupKey = msgspec.json.decode(group, type=GroupKey)
    return key
