"""The stage `judged_sequences`: the sequences of a dataset before the target model, and what it learnt from all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from eagle_assets.judge.arbitration import arbitrate, cost_of_arbitration
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.scan import PLANTED, Experience, Scan, experience
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.tally import Tally
from eagle_assets.judge.variants import KINDS
from eagle_assets.judge.verdicts import (
    Judged,
    explaining,
    is_proven,
    judged,
    open_to_doubt,
    settled,
    trial_of,
    trusted_trial_of,
)
from eagle_assets.judge.white_space import Witness, cost_of_edges, weigh_edges, witness
from eagle_assets.lake.audit import Check, Published
from eagle_assets.lake.schemas import JUDGED_SEQUENCES
from eagle_assets.lake.version import NewVersion
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations, decisions
from eagle_assets.reconstruction.contests import Contest, contests, is_contested
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.roundtrip import hypotheses_by_name
from eagle_assets.reconstruction.sequences import sequence_rows
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.reconstruction.verdict import Candidate, Reconstruction
from eagle_assets.targets.target import Target

MOST_PROVEN = 2_000
"""Proven sequences by which the judge is measured, evenly spread over all datasets."""

WORST = 10
_FEW = ["exchange_id", "verdict", "canonical", "model", "prompt_ids", "output_ids"]


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset: its sequences, and the responses that they came from, row by row."""

    sequences: Published
    responses: Published

    def proven(self, target: Target) -> Iterator[Trial]:
        """Outputs whose ids are proven, before the judge."""
        asked = self.responses.rows(["exchange_id", "request"])
        for row, response in zip(self.sequences.rows(_FEW), asked, strict=True):
            if row["verdict"] == "exact" and row["canonical"]:
                found = Reconstruction("", "exact", row["output_ids"], row["prompt_ids"], model=row["model"])
                trial = trial_of(found, msgspec.json.decode(response["request"]), target)
                if trial is not None and is_proven(found, target.vocabulary):
                    yield trial

    def read_again(
        self, decided: Arbitrations, calibration: Calibration, columns: list[str] | None = None
    ) -> Iterator[tuple[dict[str, Any], Reconstruction, dict[str, Any]]]:
        """Each row, what it reads as in the light of what was decided, and the response that it came from, with these
        columns at least."""
        # Bodies are large, and read only where something was decided.
        responses = self.responses.rows(None if decided else columns)
        for row, response in zip(self.sequences.rows(), responses, strict=True):
            found = reconstruction_of(row)
            if decided and row["verdict"] == "unverified":
                (again,) = sequence_rows([response], calibration)
                found = reconstruction_of(again)
            yield row, found, response


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the judge says of all datasets together: what it decided of their providers, the calibration that this leads
    to, and how far its surprise can be believed."""

    decided: Arbitrations
    calibration: Calibration
    learnt: Experience


class Court:
    """All datasets together before the judge.

    `datasets` are all that may be read, `bought` those of them that were; `calibrated` gives the calibration that these
    lead to, with what was decided.
    """

    def __init__(
        self,
        bench: Bench,
        target: Target,
        datasets: Mapping[str, Stored],
        bought: Iterable[str],
        calibrated: Callable[[Arbitrations], Calibration],
    ) -> None:
        self._bench, self._target, self._datasets, self._calibrated = bench, target, datasets, calibrated
        self._bought = [datasets[name] for name in bought if name in datasets]
        self._calibration = calibrated({})
        self._scan = Scan(bench, target)

    def cost(self) -> Iterator[str]:
        """What it costs, in sentences, before anything is asked."""
        contested = cost_of_arbitration(self._contests, self._bench)
        if contested.questions or contested.known:
            yield f"rival conventions before the target: at most {contested}"
        edges = cost_of_edges(partial(self._witnesses, {}, self._calibration), self._bench, self._target)
        if edges.questions or edges.known:
            yield f"white space at the ends of texts before the target: at most {edges}"
        yield f"proven sequences, to measure the judge by: {self._scan.cost_in_words(self._proven)}"
        yield f"{PLANTED} of these once more with each of {len(KINDS)} kinds of errors, at most"

    def sit(self) -> Ruling:
        """Decide what is open about providers, and learn from what is proven."""
        decided = decisions(arbitrate(self._contests, self._bench), {})
        calibration = self._calibrated(decided) if decided else self._calibration
        edges = weigh_edges(partial(self._witnesses, decided, calibration), self._bench, self._target)
        if edges:
            decided = decisions({key: found.rivals for key, found in decided.items()}, edges)
            calibration = self._calibrated(decided)
        return Ruling(decided, calibration, experience(self._scan, self._proven, self._target))

    def _contests(self) -> Iterator[Contest]:
        if not any(map(is_contested, self._calibration.groups.values())):
            return iter(())
        exchanges = (exchange_of_row(row) for stored in self._bought for row in stored.responses.rows())
        return contests((e for e in exchanges if self._target.is_named(e.model)), self._calibration)

    def _witnesses(self, decided: Arbitrations, calibration: Calibration) -> Iterator[Witness]:
        for stored in self._bought:
            for _, found, response in stored.read_again(decided, calibration, ["request"]):
                trial = trial_of(found, msgspec.json.decode(response["request"]), self._target)
                if (one := witness(found, trial, calibration, self._target)) is not None:
                    yield one

    def _proven(self) -> Iterator[Trial]:
        total = sum(int(stored.sequences.audit.counts.get("exact", 0)) for stored in self._datasets.values())
        every = -(-total // MOST_PROVEN) or 1
        found = (trial for stored in self._datasets.values() for trial in stored.proven(self._target))
        return islice(found, 0, None, every)


class Hearing:
    """One dataset before the judge, once the ruling on all of them is known. What is lifted is wrong with a probability
    of `limit` at most."""

    def __init__(self, ruling: Ruling, scan: Scan, stored: Stored, target: Target, limit: float) -> None:
        self._ruling, self._scan, self._stored, self._target, self._limit = ruling, scan, stored, target, limit

    def trials(self) -> Iterator[Trial]:
        """What is trusted."""
        for _, after, response in self._verdicts(["request"]):
            if (trial := self._trial(after, response)) is not None:
                yield trial

    def write(self, version: NewVersion) -> Tally:
        """Write a file of JUDGED_SEQUENCES for each file of sequences, when all has been asked."""
        tally = Tally()
        rows = self._rows(tally)
        for file in self._stored.sequences.audit.files:
            version.write_rows(file.written_as, JUDGED_SEQUENCES, islice(rows, file.rows))
        return tally

    def _rows(self, tally: Tally) -> Iterator[dict[str, Any]]:
        hypotheses, threshold = hypotheses_by_name(self._ruling.calibration), self._ruling.learnt.threshold
        for row, after, response in self._verdicts():
            before, trial = reconstruction_of(row), self._trial(after, response)
            surprise = self._scan.surprise_of(trial) if trial is not None else None
            found = Judged(after, before, surprise)
            if surprise is not None and open_to_doubt(after):
                explains = explaining(read(exchange_of_row(response)), after, hypotheses)
                found = judged(before, after, surprise, threshold, explains)
            yield judged_row(row, tally.noted(found))

    def _trial(self, found: Reconstruction, response: Mapping[str, Any]) -> Trial | None:
        return trusted_trial_of(found, msgspec.json.decode(response["request"]), self._target)

    def _verdicts(
        self, columns: list[str] | None = None
    ) -> Iterator[tuple[dict[str, Any], Reconstruction, dict[str, Any]]]:
        """Each row, its verdict once the judge has decided what is open, and the response that it came from."""
        for row, found, response in self._stored.read_again(self._ruling.decided, self._ruling.calibration, columns):
            yield row, settled(reconstruction_of(row), found, self._limit), response


def reconstruction_of(row: Mapping[str, Any]) -> Reconstruction:
    """What a row of TOKEN_SEQUENCES says."""
    return Reconstruction(
        exchange_id=row["exchange_id"],
        verdict=row["verdict"],
        output_ids=row["output_ids"],
        prompt_ids=row["prompt_ids"],
        reasons=tuple(row["reasons"]),
        evidence=msgspec.json.decode(row["evidence"]),
        candidates=tuple(Candidate(**candidate) for candidate in msgspec.json.decode(row["candidates"])),
        provider=row["provider"],
        model=row["model"],
    )


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


def surprises_below_threshold(tally: Tally, learnt: Experience, limit: float) -> Check:
    """Whether few enough trusted sequences surprise the target: more than `max_residual_error` of them would show that
    the stated error of `consistent` is not true."""
    share = tally.alarms / tally.scanned if tally.scanned else 0.0
    least, most = learnt.error_behind(tally.alarms, tally.scanned)
    return Check(
        "surprises_below_threshold",
        share <= limit,
        f"{tally.alarms} of {tally.scanned} consistent sequences surprise the target model "
        f"({tally.changes['repaired']} repaired, {tally.changes['contradicted']} contradicted); {limit:.2%} is the "
        f"limit. Of {learnt.threshold.proven} proven ones {learnt.false_alarms} do",
        {
            "scanned": tally.scanned,
            "alarms": tally.alarms,
            "share": share,
            "limit": limit,
            "error_by_the_target": least,
            "error_by_the_target_at_most": most,
        },
        tuple(tally.worst[:WORST]) if share > limit else (),
    )


def counts_of(tally: Tally, learnt: Experience, bench: Bench) -> dict[str, float]:
    """What the audit counts."""
    rates = learnt.sensitivity.rates
    return {
        **{verdict: float(number) for verdict, number in tally.verdicts().items()},
        "scanned": tally.scanned,
        "settled": tally.changes["settled"],
        "repaired": tally.changes["repaired"],
        "contradicted_by_the_target": tally.changes["contradicted"],
        "proven": learnt.threshold.proven,
        "false_alarms": learnt.false_alarms,
        "false_alarms_expected": learnt.threshold.expected,
        "planted": learnt.sensitivity.planted,
        "found_of_planted": learnt.sensitivity.overall,
        **{f"found_of_planted {kind}": rate.lost / rate.measured for kind, rate in rates.items()},
        "refused_by_the_judge": bench.refused,
    }
