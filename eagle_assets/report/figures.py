"""What sequences add up to: by verdict, by provider, by length, in dollars."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.openrouter.names import UNNAMED
from eagle_assets.openrouter.totals import usd_per_million
from eagle_assets.reconstruction.console.reasons_in_words import VERDICT_IN_WORDS
from eagle_assets.reconstruction.sequences import gaps_and_conventions
from eagle_assets.reconstruction.verdict import TRUSTED, VERDICTS
from eagle_assets.report.pictures import CountDifferences

# Of TOKEN_SEQUENCES; all that `Figures` looks at.
COLUMNS = ("provider", "verdict", "evidence", "count_difference", "canonical", "cost_usd", "output_ids")
SUMMED = pa.schema(
    [
        ("provider", pa.string()),
        ("verdict", pa.string()),
        ("canonical", pa.bool_()),
        ("cost_usd", pa.float64()),
        ("tokens", pa.int32()),  # the number of output_ids
        ("gap", pa.int32()),  # what the convention leaves of the count, and that
        ("convention", pa.string()),
    ]
)
"""Of rows of TOKEN_SEQUENCES, what is summed."""


@dataclass
class Figures:
    """Sums over rows of TOKEN_SEQUENCES. Counters are by provider, then by verdict or by what is left of the count."""

    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    conventions: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    gaps: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    tokens: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    cost_usd: float = 0.0
    bought_tokens: int = 0  # trusted ones of answers that cost something
    canonical: Counter[bool] = field(default_factory=Counter)

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Figures:
        """Of batches of TOKEN_SEQUENCES with COLUMNS."""
        figures = cls()
        for batch in batches:
            figures.add(summed(batch))
        return figures

    def add(self, rows: pa.Table) -> None:
        """Take rows of SUMMED into the sums."""
        rows = rows.select(SUMMED.names).set_column(0, "provider", _named(rows["provider"], UNNAMED))
        with_ids, with_count = rows.filter(pc.is_valid(rows["tokens"])), rows.filter(pc.is_valid(rows["gap"]))
        for provider, verdict, times in _counted(rows, "provider", "verdict"):
            self.verdicts[provider][verdict] += times
        for verdict, tokens in _grouped(with_ids, ["verdict"], [("tokens", "sum")]):
            self.tokens[verdict] += tokens
        self.lengths += with_ids["tokens"].to_pylist()
        self.cost_usd += pc.sum(rows["cost_usd"], min_count=0).as_py()
        cost_something = pc.fill_null(pc.not_equal(with_ids["cost_usd"], 0), False)
        is_trusted = pc.is_in(with_ids["verdict"], pa.array(sorted(TRUSTED)))
        bought = with_ids.filter(pc.and_(is_trusted, cost_something))
        self.bought_tokens += pc.sum(bought["tokens"], min_count=0).as_py()
        for canonical, times in _counted(rows.filter(pc.is_valid(rows["canonical"])), "canonical"):
            self.canonical[canonical] += times
        for provider, gap, times in _counted(with_count, "provider", "gap"):
            self.gaps[provider][gap] += times
        for provider, convention, times in _counted(with_count, "provider", "convention"):
            self.conventions[provider][convention or "the server gives the ids"] += times

    @property
    def by_verdict(self) -> Counter[str]:
        return sum(self.verdicts.values(), Counter())

    @property
    def trusted_tokens(self) -> int:
        return sum(self.tokens[verdict] for verdict in TRUSTED)

    @property
    def trusted_share(self) -> float:
        counts = self.by_verdict
        return sum(counts[verdict] for verdict in TRUSTED) / max(1, counts.total())

    @property
    def usd_per_million_trusted(self) -> float | None:
        """What a million tokens that were bought and are trusted cost; the team's own count for nothing."""
        return usd_per_million(self.cost_usd, self.bought_tokens)

    def differences(self) -> list[CountDifferences]:
        """A line for each provider, under the convention that most of its answers were read by."""
        return [
            CountDifferences(provider, self.conventions[provider].most_common(1)[0][0], gaps)
            for provider, gaps in sorted(self.gaps.items())
        ]

    def sorted_verdicts(self) -> dict[str, Counter[str]]:
        """Providers by how much of their answers is trusted, best first."""

        def trusted(provider: str) -> float:
            counts = self.verdicts[provider]
            return sum(counts[verdict] for verdict in TRUSTED) / counts.total()

        return {provider: self.verdicts[provider] for provider in sorted(self.verdicts, key=lambda p: (-trusted(p), p))}

    def verdict_table(self) -> str:
        """Markdown: a line for each verdict, and below what it means: as narrow as the pages of assets are."""
        counts = self.by_verdict
        lines = ["| verdict | responses | tokens | trained on |", "|---|--:|--:|---|"]
        lines += [
            f"| **{v}** | {counts[v]:,} | {self.tokens[v]:,} | {'yes' if v in TRUSTED else 'no'} |" for v in VERDICTS
        ]
        return "\n".join([*lines, "", *(f"- **{verdict}**: {VERDICT_IN_WORDS[verdict]}" for verdict in VERDICTS)])


def summed(rows: pa.RecordBatch) -> pa.Table:
    """Rows of SUMMED, from rows with COLUMNS."""
    told = [rows[name] for name in ("provider", "verdict", "canonical", "cost_usd")]
    columns = [*told, pc.list_value_length(rows["output_ids"]), *gaps_and_conventions(rows)]
    return pa.table([column.cast(field.type) for column, field in zip(columns, SUMMED, strict=True)], SUMMED)


def _named(names: pa.ChunkedArray, unnamed: str) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(pc.fill_null(names, ""), ""), unnamed, names)


def _counted(rows: pa.Table, *columns: str) -> Iterator[Sequence[Any]]:
    """Each combination of values, in the order in which they come, and the number of rows that have it."""
    return _grouped(rows, columns, [([], "count_all")])


def _grouped(rows: pa.Table, columns: Sequence[str], sums: Sequence[tuple[Any, str]]) -> Iterator[Sequence[Any]]:
    grouped = rows.group_by(list(columns), use_threads=False).aggregate(list(sums))
    found = [grouped[name].to_pylist() for name in columns]
    added = [grouped[name].to_pylist() for name in grouped.column_names if name not in columns]
    return zip(*found, *added, strict=True)
