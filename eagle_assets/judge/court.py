"""All datasets together before the target model: what it decides of their providers, and what is learnt of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.docket import Drawn, Stored, bring_up_to_date, drawn, reconstruction_of
from eagle_assets.judge.habits import Beginning, Habits, beginnings_in
from eagle_assets.judge.ruling import Say, decide, learn
from eagle_assets.judge.scan import Experience
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.verdicts import is_proven, trial_of, trusted_trial_of
from eagle_assets.judge.white_space import Witness, witnesses_in
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations
from eagle_assets.reconstruction.contests import Contest, contests, is_contested
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.targets.target import Target

MOST_DRAWN = 1_000
"""Responses of a provider among which those are looked for that say something of what is open."""

MOST_PROVEN = 2_000
"""Proven sequences by which the judge is measured, of all datasets."""

_PROVEN = ["model", "prompt_ids", "output_ids"]
_TRUSTED = ["exchange_id", "verdict", "provider", "streamed", *_PROVEN]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the judge says of all datasets together: what it decided of their providers, the calibration that this leads
    to, what providers were found to put ahead of their texts, and how far its surprise can be believed."""

    decided: Arbitrations
    calibration: Calibration
    habits: Habits
    learnt: Experience


class Court:
    """All datasets together before the judge: of each provider a sample, and of what is proven. They are its
    `Responses`.

    `calibrated` gives the calibration that what was bought leads to, with what was decided.
    """

    def __init__(
        self,
        bench: Bench,
        target: Target,
        datasets: Iterable[Stored],
        calibrated: Callable[[Arbitrations], Calibration],
    ) -> None:
        self._bench, self._target, self._calibrated = bench, target, calibrated
        datasets = list(datasets)
        self._parts = [part for stored in datasets for part in stored.parts()]
        self._bought = [part for stored in datasets if stored.is_bought for part in stored.parts()]
        self._sample = drawn(self._bought, ["provider", "streamed", "verdict"], _provider_of, MOST_DRAWN)
        self._calibration, self._is_held = calibrated({}), False

    def sit(self, say: Say) -> Ruling:
        """Decide what is open about providers, and learn from what is proven. What each costs is said before it is
        asked."""
        decided = decide(self, self._bench, self._target, say)
        return Ruling(decided, self._calibration, *learn(self, self._bench, self._target, say))

    def take(self, decided: Arbitrations) -> None:
        if decided:
            self._calibration, self._is_held = self._calibrated(decided), False

    def contests(self) -> Iterator[Contest]:
        calibration = self._calibration
        contested = {key[1:] for key, group in calibration.groups.items() if is_contested(group)}
        keys = ["provider", "streamed"]
        for some in self._sample if contested else ():
            is_of_one = [(row["provider"] or "", row["streamed"]) in contested for row in some.sequences(keys)]
            exchanges = map(exchange_of_row, Drawn(some.part, some.places[is_of_one]).responses())
            yield from contests((e for e in exchanges if self._target.is_named(e.model)), calibration)

    def witnesses(self) -> Iterator[Witness]:
        if not self._is_held:
            bring_up_to_date(self._bought, self._target, self._calibration)
            self._is_held = True
        for some in self._sample:
            for row, response in zip(some.held(), some.responses(["request"]), strict=True):
                found = reconstruction_of(row)
                trial = trial_of(found, msgspec.json.decode(response["request"]), self._target)
                yield from witnesses_in(found, trial, self._calibration, self._target)

    def beginnings(self) -> Iterator[Beginning]:
        for some in self._sample:
            for row, response in zip(some.sequences(_TRUSTED), some.responses(["request"]), strict=True):
                found = Reconstruction("", row["verdict"], row["output_ids"], row["prompt_ids"], model=row["model"])
                trial = trusted_trial_of(found, msgspec.json.decode(response["request"]), self._target)
                if trial is not None:
                    provider = (row["provider"] or "", row["streamed"])
                    yield from beginnings_in(row["exchange_id"], provider, trial, self._target)

    def proven(self) -> Iterator[Trial]:
        for some in drawn(self._parts, ["verdict", "canonical"], _is_proven, MOST_PROVEN):
            for row, response in zip(some.sequences(_PROVEN), some.responses(["request"]), strict=True):
                found = Reconstruction("", "exact", row["output_ids"], row["prompt_ids"], model=row["model"])
                trial = trial_of(found, msgspec.json.decode(response["request"]), self._target)
                if trial is not None and is_proven(found, self._target.vocabulary):
                    yield trial


def _provider_of(row: Mapping[str, Any]) -> Hashable:
    return None if row["verdict"] == "unusable" else (row["provider"], row["streamed"])


def _is_proven(row: Mapping[str, Any]) -> Hashable:
    return "proven" if row["verdict"] == "exact" and row["canonical"] else None
