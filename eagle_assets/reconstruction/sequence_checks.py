"""Checks of sequences as they were written, against the responses that they came from.

One wrong response is kept out of the shards by its verdict. These checks ask whether the verdicts can be believed:
they concern the trusted sequences, and anomalies so gross that the dataset cannot be what it is taken for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isclose
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.lake.audit import Check
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.own.local import contradiction, response_in
from eagle_assets.reconstruction.roundtrip import NOTHING_AGREES, Roundtrip, hypotheses_by_name, serve_again
from eagle_assets.reconstruction.sequences import stated_error
from eagle_assets.reconstruction.verdict import TRUSTED, VERDICTS
from eagle_assets.targets.packed import PackedIds
from eagle_assets.targets.target import Target

# Above this share the known conventions do not explain how this dataset was served, whatever the rest looks like.
MAX_SHARE_CONTRADICTED = 0.5
WORST = 10

EXAMINED = pa.schema(
    [
        ("exchange_id", pa.string()),
        ("provider", pa.string()),
        ("verdict", pa.string()),
        ("tokens", pa.int32()),
        ("text_agrees", pa.bool_()),  # whether the ids, served again, give what was received
        ("count_gap", pa.int32()),  # null without a count
        ("error", pa.float64()),  # what is stated of a `consistent` one, a probability; else 0
    ]
)
"""Written sequences, examined again."""


def examine_bought(found: pa.RecordBatch, readings: Sequence[Reading], calibration: Calibration) -> Iterator[Roundtrip]:
    """Serve every sequence that would be trusted again; the others agree with nothing. Both are of the same exchanges,
    in order."""
    hypotheses = hypotheses_by_name(calibration)
    said = (found[name].to_pylist() for name in ("exchange_id", "verdict", "evidence"))
    ids, bounds = found["output_ids"].values.to_numpy(), pairwise(found["output_ids"].offsets.to_pylist())
    for exchange_id, verdict, text, (begin, end), reading in zip(*said, bounds, readings, strict=True):
        if reading.exchange.exchange_id != exchange_id:
            raise ValueError(f"sequence {exchange_id} stands beside response {reading.exchange.exchange_id}")
        if verdict not in TRUSTED:
            yield NOTHING_AGREES
            continue
        evidence = msgspec.json.decode(text)
        convention = None if "ids_from" in evidence else evidence.get("convention", "")
        given = PackedIds(ids[begin:end].tobytes())
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


def examined_again(sequences: pa.Table, found: pa.Table, as_found: bool) -> pa.Table:
    """Rows of EXAMINED: sequences as they were written, beside what was found when their ids were examined; where they
    do not hold these ids (not `as_found`), they agree with nothing. Raises ValueError where the rows are not of the
    same exchanges."""
    if sequences["exchange_id"] != found["exchange_id"]:
        raise ValueError("sequences stand beside what was found of other exchanges")
    stated = zip(sequences["verdict"].to_pylist(), sequences["evidence"].to_pylist(), strict=True)
    columns = {
        **{name: sequences[name] for name in ("exchange_id", "provider", "verdict")},
        "tokens": pc.fill_null(found["tokens"], 0),
        "text_agrees": pc.and_(found["text_agrees"], as_found),
        "count_gap": found["count_gap"],
        "error": [stated_error(evidence) if verdict == "consistent" else 0.0 for verdict, evidence in stated],
    }
    return pa.table(columns, EXAMINED)


def examined_before(found: pa.Table, verdicts: pa.ChunkedArray, errors: npt.NDArray[np.float64]) -> pa.Table:
    """Rows of EXAMINED of a file that is as it was when it was written and examined, from what was found then and what
    became of it; `errors` are NaN for rows that are not `consistent`."""
    columns = {
        **{name: found[name] for name in ("exchange_id", "provider")},
        "verdict": verdicts,
        "tokens": pc.fill_null(found["tokens"], 0),
        **{name: found[name] for name in ("text_agrees", "count_gap")},
        "error": np.where(pc.equal(verdicts, "consistent").to_numpy(zero_copy_only=False), errors, 0.0),
    }
    return pa.table(columns, EXAMINED)


@dataclass(slots=True)
class Examination:
    """What is found in rows of EXAMINED, file by file. The lists name the first few of their kind, `most_doubtful` the
    consistent ones with the highest errors."""

    verdicts: Counter[str] = field(default_factory=Counter)
    trusted_tokens: int = 0
    differing: int = 0
    open_counts: int = 0
    contradicted_of: Counter[str | None] = field(default_factory=Counter)
    error: float = 0.0
    named_differing: list[dict[str, Any]] = field(default_factory=list)
    named_open: list[dict[str, Any]] = field(default_factory=list)
    named_contradicted: list[dict[str, Any]] = field(default_factory=list)
    most_doubtful: list[dict[str, Any]] = field(default_factory=list)

    def add(self, examined: pa.Table) -> None:
        """Take the rows of another file."""
        trusted = examined.filter(pc.is_in(examined["verdict"], pa.array(sorted(TRUSTED))))
        differing = trusted.filter(pc.invert(trusted["text_agrees"]))
        open_ = trusted.filter(pc.fill_null(pc.not_equal(trusted["count_gap"], 0), True))
        contradicted = examined.filter(pc.equal(examined["verdict"], "contradicted"))
        consistent = examined.filter(pc.equal(examined["verdict"], "consistent"))
        self.verdicts.update(examined["verdict"].to_pylist())
        self.trusted_tokens += pc.sum(trusted["tokens"], min_count=0).as_py()
        self.differing += differing.num_rows
        self.open_counts += open_.num_rows
        self.contradicted_of.update(contradicted["provider"].to_pylist())
        self.error = sum(consistent["error"].to_pylist(), self.error)
        self.named_differing += _named(differing, WORST - len(self.named_differing))
        self.named_open += _named(open_, WORST - len(self.named_open), "count_gap")
        self.named_contradicted += _named(contradicted, WORST - len(self.named_contradicted))
        worst = np.argsort(-consistent["error"].to_numpy(), kind="stable")[:WORST]
        doubtful = [*self.most_doubtful, *_named(consistent.take(pa.array(worst)), WORST, "error")]
        self.most_doubtful = sorted(doubtful, key=lambda row: -row["error"])[:WORST]

    @property
    def rows(self) -> int:
        return self.verdicts.total()

    @property
    def trusted(self) -> int:
        return sum(self.verdicts[verdict] for verdict in TRUSTED)

    def counts(self) -> dict[str, float]:
        """Sequences by verdict, and the tokens of the trusted ones."""
        return {**{verdict: self.verdicts[verdict] for verdict in VERDICTS}, "trusted_tokens": self.trusted_tokens}

    def checks(self, max_residual_error: float) -> list[Check]:
        """The four checks of the stage."""
        return [
            self.roundtrip_is_exact(),
            self.counts_close(),
            self.contradictions_below_threshold(),
            self.residual_error_below_limit(max_residual_error),
        ]

    def roundtrip_is_exact(self) -> Check:
        """Whether every trusted sequence, served again, gives what was received."""
        return Check(
            "roundtrip_is_exact",
            not self.differing,
            f"{self.differing} of {self.trusted} trusted sequences, served again, do not give what was received"
            if self.differing
            else f"all {self.trusted} trusted sequences, served again, give what was received",
            {"trusted": self.trusted, "differing": self.differing},
            tuple(self.named_differing),
        )

    def counts_close(self) -> Check:
        """Whether every trusted sequence has the length that the server counted. Without a count nothing is trusted."""
        return Check(
            "counts_close",
            not self.open_counts,
            f"the counts of {self.open_counts} of {self.trusted} trusted sequences do not close"
            if self.open_counts
            else f"the counts of all {self.trusted} trusted sequences close",
            {"trusted": self.trusted, "open": self.open_counts},
            tuple(self.named_open),
        )

    def contradictions_below_threshold(self) -> Check:
        """Whether the conventions that are known explain most of the answers that can be used at all."""
        usable, contradicted = self.rows - self.verdicts["unusable"], self.verdicts["contradicted"]
        share = contradicted / usable if usable else 0.0
        by_provider = self.contradicted_of.most_common(3)
        where = f", most of them {', '.join(f'{n} of {p}' for p, n in by_provider)}" if by_provider else ""
        return Check(
            "contradictions_below_threshold",
            share <= MAX_SHARE_CONTRADICTED,
            f"{contradicted} of {usable} usable answers are contradicted{where}; {MAX_SHARE_CONTRADICTED:.0%} is the "
            "limit",
            {"usable": usable, "contradicted": contradicted, "share": share},
            tuple(self.named_contradicted) if share > MAX_SHARE_CONTRADICTED else (),
        )

    def residual_error_below_limit(self, limit: float) -> Check:
        """Whether few enough of the consistent sequences may be wrong for all that the evidence says."""
        consistent = self.verdicts["consistent"]
        error = self.error / consistent if consistent else 0.0
        passed = error <= limit or isclose(error, limit)  # what was held back was added up in another order
        return Check(
            "residual_error_below_limit",
            passed,
            f"{error:.2%} of {consistent} consistent sequences may be wrong; max_residual_error is {limit:.2%}",
            {"consistent": consistent, "residual_error": error, "limit": limit},
            () if passed else tuple(self.most_doubtful),
        )


def _named(rows: pa.Table, most: int, *also: str) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = rows.slice(0, most).select(["exchange_id", "provider", "verdict", *also]).to_pylist()
    return named
