"""One dataset before the target model: its sequences, part by part, as they are after it was asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.cases import Case, judged_cases, questions_of, trials_of
from eagle_assets.judge.court import Ruling
from eagle_assets.judge.docket import Drawn, Places, Stored, StoredPart, bring_up_to_date, reconstruction_of
from eagle_assets.judge.rivals import OPEN_ALONE, open_question, weight_of_else
from eagle_assets.judge.ruling import Say
from eagle_assets.judge.scan import Scan
from eagle_assets.judge.verdicts import Judged, explaining, settled, trial_of
from eagle_assets.lake.code import digest_of_code
from eagle_assets.lake.schemas import JUDGED_SEQUENCES
from eagle_assets.lake.version import NewVersion
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.parts.findings import read_findings
from eagle_assets.reconstruction.parts.weights import PartWeights, weigh_parts
from eagle_assets.reconstruction.roundtrip import hypotheses_by_name
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.reconstruction.verdict import TRUSTED, Exposure, Reconstruction
from eagle_assets.reconstruction.weighing import Weight
from eagle_assets.targets.target import Target

_NOT_TO_BE_KEPT = ""
_ANY_ERROR = 1.0  # nothing is held back for the sake of others


@dataclass(frozen=True, slots=True)
class _OfRow(Case):
    """The case of a row of sequences."""

    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Lifted:
    """The rows of a part that the judge's decisions lift, and how they are weighed then."""

    places: Places
    weights: PartWeights

    @classmethod
    def of(cls, part: StoredPart, weights: PartWeights, decided: Set[tuple[str, bool]], limit: float) -> _Lifted:
        """`decided` are the providers of which anything was, streamed or not."""
        before = part.columns("verdict")["verdict"].to_pylist()
        found = read_findings(part.held, ["verdict", "group"])
        places = [
            place
            for place, (was, becomes, group, weight) in enumerate(
                zip(before, found["verdict"].to_pylist(), found["group"].to_pylist(), weights.weights, strict=True)
            )
            if was == "unverified"
            and becomes in TRUSTED
            and msgspec.json.decode(group, type=GroupKey)[1:] in decided
            and (becomes == "exact" if weight is None else weight.cause is None and weight.error <= limit)
        ]
        taken = np.array(places, dtype=np.int64)
        return cls(taken, weights.taken(taken))

    @property
    def recipe(self) -> tuple[list[int], str]:
        """All that they are made from."""
        return self.places.tolist(), self.weights.recipe

    def rows(self) -> dict[int, dict[str, Any]]:
        """What they become, by their places: rows of TOKEN_SEQUENCES."""
        if not self.places.size:
            return {}
        found = self.weights.sequences(read_findings(self.weights.part).take(self.places)).to_pylist()
        return dict(zip(self.places.tolist(), found, strict=True))


class Hearing:
    """One dataset before the judge, part by part, once the ruling on all of them is known. What is lifted is wrong with
    a probability of `limit` at most."""

    def __init__(self, ruling: Ruling, bench: Bench, stored: Stored, target: Target, limit: float) -> None:
        self._ruling, self._bench, self._target, self._limit = ruling, bench, target, limit
        self._hypotheses = hypotheses_by_name(ruling.calibration)
        self._parts = stored.parts()
        self._is_bought = stored.is_bought
        if stored.is_bought:
            bring_up_to_date(self._parts, target, ruling.calibration)
        self._lifted = self._lifted_in_each() if stored.is_bought and ruling.decided else {}

    def write(self, version: NewVersion, say: Say) -> None:
        """Write a file of JUDGED_SEQUENCES for each file of sequences, or keep it where it would be the same. What it
        costs is said before it is asked."""
        fresh = []
        for part in self._parts:
            recipe = self._recipe(part)
            if version.keep_made_from(recipe) is None:
                version.tell(part.name, recipe)
                fresh.append(part)
        cost = self._bench.cost(questions_of(self._cases(fresh)))
        if cost.questions or cost.known:
            say(f"what is open of single responses before the target: {cost}")
        trusted = Scan(self._bench, self._target).cost_in_words(lambda: trials_of(self._cases(fresh), self._target))
        say(f"trusted sequences before the target: {trusted}")
        for part in fresh:
            refused = self._bench.refused
            version.write_rows(part.name, JUDGED_SEQUENCES, self._rows(part))
            if self._bench.refused > refused:
                version.tell(part.name, _NOT_TO_BE_KEPT)  # the judge may answer another time

    def _lifted_in_each(self) -> dict[str, _Lifted]:
        """By part, what the judge's decisions lift."""
        decided = {(provider, streamed) for _, provider, streamed in self._ruling.decided}
        weighed = weigh_parts([part.held for part in self._parts], self._ruling.calibration, _ANY_ERROR)
        found = zip(self._parts, weighed, strict=True)
        return {part.name: _Lifted.of(part, weights, decided, self._limit) for part, weights in found}

    def _recipe(self, part: StoredPart) -> str:
        """A digest of all that the part's file is made from."""
        lifted = self._lifted.get(part.name)
        made_from = (
            (part.sequences_file.sha256, part.held.kept.name, lifted.recipe if lifted is not None else None),
            sorted(self._open_in(part).items()),
            (
                self._bench.name,
                self._target.name,
                self._limit,
                self._ruling.learnt.threshold.rule,
                self._habits_in(part),
            ),
            digest_of_code(("judge", "lake/columns.py")),
        )
        return hashlib.sha256(repr(made_from).encode()).hexdigest()

    def _open_in(self, part: StoredPart) -> dict[int, Weight | None]:
        """Of the rows of which the judge may settle something by themselves, what else may be wrong with them."""
        if not self._is_bought:
            return {}
        first = [why[0] if why else "" for why in part.columns("reasons")["reasons"].to_pylist()]
        places = np.array([place for place, reason in enumerate(first) if reason in OPEN_ALONE], dtype=np.int64)
        found: dict[int, Weight | None] = {}
        for place, row in zip(places.tolist(), Drawn(part, places).held(["group", "order", "exposure"]), strict=True):
            exposure = row["exposure"] and msgspec.json.decode(row["exposure"], type=Exposure)
            key = msgspec.json.decode(row["group"], type=GroupKey)
            found[place] = weight_of_else(first[place], exposure, self._ruling.calibration, key, row["order"])
        return found

    def _habits_in(self, part: StoredPart) -> list[Any]:
        """What is known of the habits of its providers."""
        if not self._ruling.habits:
            return []
        providers = set(part.columns("provider")["provider"].to_pylist())
        return sorted((at, repr(habit)) for at, habit in self._ruling.habits.items() if at[0][0] in providers)

    def _rows(self, part: StoredPart) -> Iterator[dict[str, Any]]:
        ruling, cases = self._ruling, self._cases([part])
        found = judged_cases(cases, self._bench, self._target, ruling.learnt, ruling.habits, self._limit)
        return (judged_row(case.row, of_case) for case, of_case in found)

    def _cases(self, parts: Iterable[StoredPart]) -> Iterator[_OfRow]:
        """Each row of some parts, with its verdict once the judge has decided what is open."""
        return (case for part in parts for case in self._cases_of(part))

    def _cases_of(self, part: StoredPart) -> Iterator[_OfRow]:
        lifted = self._lifted[part.name].rows() if part.name in self._lifted else {}
        open_alone = self._open_in(part)
        every = Drawn(part, np.arange(part.sequences_file.rows))
        for place, (row, response) in enumerate(zip(every.sequences(), every.responses(["request"]), strict=True)):
            before = after = reconstruction_of(row)
            if place in lifted:
                after = settled(before, reconstruction_of(lifted[place]), self._limit)
            request = msgspec.json.decode(response["request"])
            trial = trial_of(after, request, self._target) if place in open_alone else None
            open_to_it = open_question(after, trial, open_alone.get(place), self._target)
            provider, explains = (row["provider"] or "", row["streamed"]), partial(self._explains, part, place)
            yield _OfRow(provider, request, before, after, open_to_it, explains, row)

    def _explains(self, part: StoredPart, place: int, found: Reconstruction, ids: Sequence[int]) -> bool:
        (response,) = Drawn(part, np.array([place])).responses()
        return explaining(read(exchange_of_row(response)), found, self._hypotheses)(ids)


def judged_row(row: Mapping[str, Any], found: Judged) -> dict[str, Any]:
    """The row of JUDGED_SEQUENCES that a row of TOKEN_SEQUENCES becomes."""
    verdict, surprise = found.verdict, found.surprise
    counted, ids = row["completion_tokens"], verdict.output_ids
    likelier = [weighed.variant for weighed in surprise.variants if weighed.nats > 0] if surprise is not None else []
    return {
        **row,
        "verdict": verdict.verdict,
        "output_ids": ids,
        "reasons": list(verdict.reasons),
        "evidence": msgspec.json.encode(verdict.evidence).decode(),
        "candidates": msgspec.json.encode([candidate.to_dict() for candidate in verdict.candidates]).decode(),
        "count_difference": counted - len(ids) if counted is not None and ids is not None else None,
        "verdict_before": row["verdict"],
        "log_likelihood": None if surprise is None else surprise.log_likelihood,
        "surprise": None if surprise is None else surprise.nats,
        "surprise_kind": likelier[0].kind if likelier else None,
        "surprising": [variant.start for variant in likelier],
    }
