"""Checks of sequences as they were written, against the responses that they came from.

One wrong response is kept out of the shards by its verdict. These checks ask whether the verdicts can be believed:
they concern the trusted sequences, and anomalies so gross that the dataset cannot be what it is taken for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from sys import intern
from typing import Any

import msgspec
import pyarrow as pa

from eagle_assets.lake.audit import Check
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.own.local import contradiction, response_in
from eagle_assets.reconstruction.roundtrip import NOTHING_AGREES, Roundtrip, hypotheses_by_name, serve_again
from eagle_assets.reconstruction.sequences import residual_error
from eagle_assets.reconstruction.verdict import TRUSTED, VERDICTS
from eagle_assets.targets.packed import PackedIds
from eagle_assets.targets.target import Target

# Above this share the known conventions do not explain how this dataset was served, whatever the rest looks like.
MAX_SHARE_CONTRADICTED = 0.5
WORST = 10


@dataclass(frozen=True, slots=True)
class Examined:
    """A written sequence, examined again. `count_gap` is None without a count; errors are probabilities."""

    exchange_id: str
    provider: str | None
    verdict: str
    tokens: int
    text_agrees: bool
    count_gap: int | None
    residual_error: float

    @property
    def trusted(self) -> bool:
        return self.verdict in TRUSTED


def examine_bought(found: pa.RecordBatch, readings: Sequence[Reading], calibration: Calibration) -> Iterator[Roundtrip]:
    """Serve every sequence that would be trusted again; the others agree with nothing. Both are of the same exchanges,
    in order."""
    hypotheses = hypotheses_by_name(calibration)
    said = (found[name].to_pylist() for name in ("exchange_id", "verdict", "evidence"))
    for exchange_id, verdict, text, ids, reading in zip(*said, found["output_ids"], readings, strict=True):
        if reading.exchange.exchange_id != exchange_id:
            raise ValueError(f"sequence {exchange_id} stands beside response {reading.exchange.exchange_id}")
        if verdict not in TRUSTED:
            yield NOTHING_AGREES
            continue
        evidence = msgspec.json.decode(text)
        convention = None if "ids_from" in evidence else evidence.get("convention", "")
        given = PackedIds(ids.values.to_numpy().tobytes())
        yield serve_again(reading, given, convention, hypotheses, evidence.get("servers", ()))


def examine_local(
    found: Iterable[Mapping[str, Any]], responses: Iterable[dict[str, Any]], target: Target
) -> Iterator[Roundtrip]:
    """Hold every sequence of a local dataset against the line of the file that it came from; both in order."""
    for sequence, response in zip(found, responses, strict=True):
        if sequence["exchange_id"] != response["exchange_id"]:
            raise ValueError(f"sequence {sequence['exchange_id']} stands beside response {response['exchange_id']}")
        if sequence["verdict"] == "unusable" and sequence["output_ids"] is None:
            yield NOTHING_AGREES
            continue
        row = response_in(response)
        same = (sequence["output_ids"], sequence["prompt_ids"]) == (row.output_ids, row.prompt_ids)
        agrees = same and contradiction(row, target) is None
        yield Roundtrip(agrees, sequence["completion_tokens"] - len(row.output_ids))


def examined_again(sequences: Iterable[Mapping[str, Any]], findings: Iterable[Mapping[str, Any]]) -> Iterator[Examined]:
    """Rows of TOKEN_SEQUENCES, `output_ids` being their number, beside what was found when their ids were examined."""
    for sequence, found in zip(sequences, findings, strict=True):
        if sequence["exchange_id"] != found["exchange_id"]:
            raise ValueError(
                f"sequence {sequence['exchange_id']} stands beside what was found of {found['exchange_id']}"
            )
        yield Examined(
            exchange_id=sequence["exchange_id"],
            provider=sequence["provider"] and intern(sequence["provider"]),  # one of each, for all rows of a dataset
            verdict=intern(sequence["verdict"]),
            tokens=sequence["output_ids"] or 0,
            text_agrees=found["text_agrees"],
            count_gap=found["count_gap"],
            residual_error=residual_error(sequence) if sequence["verdict"] == "consistent" else 0.0,
        )


def check_sequences(examined: Sequence[Examined], max_residual_error: float) -> list[Check]:
    """The four checks of the stage."""
    trusted = [e for e in examined if e.trusted]
    return [
        roundtrip_is_exact(trusted),
        counts_close(trusted),
        contradictions_below_threshold(examined),
        residual_error_below_limit(trusted, max_residual_error),
    ]


def roundtrip_is_exact(trusted: Sequence[Examined]) -> Check:
    """Whether every trusted sequence, served again, gives what was received."""
    wrong = [e for e in trusted if not e.text_agrees]
    return Check(
        "roundtrip_is_exact",
        not wrong,
        f"{len(wrong)} of {len(trusted)} trusted sequences, served again, do not give what was received"
        if wrong
        else f"all {len(trusted)} trusted sequences, served again, give what was received",
        {"trusted": len(trusted), "differing": len(wrong)},
        _named(wrong),
    )


def counts_close(trusted: Sequence[Examined]) -> Check:
    """Whether every trusted sequence has the length that the server counted. Without a count nothing is trusted."""
    open_ = [e for e in trusted if e.count_gap != 0]
    return Check(
        "counts_close",
        not open_,
        f"the counts of {len(open_)} of {len(trusted)} trusted sequences do not close"
        if open_
        else f"the counts of all {len(trusted)} trusted sequences close",
        {"trusted": len(trusted), "open": len(open_)},
        tuple({**row, "count_gap": e.count_gap} for e, row in zip(open_, _named(open_), strict=False)),
    )


def contradictions_below_threshold(examined: Sequence[Examined]) -> Check:
    """Whether the conventions that are known explain most of the answers that can be used at all."""
    usable = [e for e in examined if e.verdict != "unusable"]
    contradicted = [e for e in usable if e.verdict == "contradicted"]
    share = len(contradicted) / len(usable) if usable else 0.0
    by_provider = Counter(e.provider for e in contradicted).most_common(3)
    where = f", most of them {', '.join(f'{n} of {p}' for p, n in by_provider)}" if by_provider else ""
    return Check(
        "contradictions_below_threshold",
        share <= MAX_SHARE_CONTRADICTED,
        f"{len(contradicted)} of {len(usable)} usable answers are contradicted{where}; "
        f"{MAX_SHARE_CONTRADICTED:.0%} is the limit",
        {"usable": len(usable), "contradicted": len(contradicted), "share": share},
        _named(contradicted) if share > MAX_SHARE_CONTRADICTED else (),
    )


def residual_error_below_limit(trusted: Sequence[Examined], limit: float) -> Check:
    """Whether few enough of the consistent sequences may be wrong for all that the evidence says."""
    consistent = [e for e in trusted if e.verdict == "consistent"]
    error = sum(e.residual_error for e in consistent) / len(consistent) if consistent else 0.0
    passed = error <= limit or isclose(error, limit)  # what was held back was added up in another order
    worst = sorted(consistent, key=lambda e: e.residual_error, reverse=True)
    return Check(
        "residual_error_below_limit",
        passed,
        f"{error:.2%} of {len(consistent)} consistent sequences may be wrong; max_residual_error is {limit:.2%}",
        {"consistent": len(consistent), "residual_error": error, "limit": limit},
        () if passed else tuple({**r, "error": e.residual_error} for e, r in zip(worst, _named(worst), strict=False)),
    )


def counts_of(examined: Sequence[Examined]) -> dict[str, float]:
    """Sequences by verdict, and the tokens of the trusted ones."""
    verdicts = Counter(e.verdict for e in examined)
    tokens = sum(e.tokens for e in examined if e.trusted)
    return {**{verdict: verdicts[verdict] for verdict in VERDICTS}, "trusted_tokens": tokens}


def _named(examined: Sequence[Examined]) -> tuple[dict[str, Any], ...]:
    return tuple({"exchange_id": e.exchange_id, "provider": e.provider, "verdict": e.verdict} for e in examined[:WORST])
