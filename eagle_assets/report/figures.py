"""What sequences add up to: by verdict, by provider, by length, in dollars."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.reconstruction.verdict import TRUSTED, VERDICTS
from eagle_assets.report.pictures import CountDifferences

# Of TOKEN_SEQUENCES; all that `Figures.add` looks at.
COLUMNS = ("provider", "verdict", "output_ids", "evidence", "count_difference", "canonical", "cost_usd")
MILLION = 1_000_000

_IN_SHORT = {
    "exact": "proved by the server's own evidence",
    "consistent": "explains everything, no rival is left",
    "unverified": "evidence is missing, or a rival stands",
    "contradicted": "something disproves every reading",
    "unusable": "an error, cut off, or empty",
}


def rows_with_lengths(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Rows of batches with `output_ids`, of which only the number is left."""
    for batch in batches:
        place = batch.schema.get_field_index("output_ids")
        yield from batch.set_column(place, "output_ids", pc.list_value_length(batch["output_ids"])).to_pylist()


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
        for row in rows_with_lengths(batches):
            figures.add(row)
        return figures

    def add(self, row: Mapping[str, Any]) -> None:
        """Take one row of `rows_with_lengths` into the sums."""
        provider, verdict, tokens = row["provider"] or "not named", row["verdict"], row["output_ids"]
        self.verdicts[provider][verdict] += 1
        self.cost_usd += row["cost_usd"] or 0.0
        if tokens is not None:
            self.tokens[verdict] += tokens
            self.lengths.append(tokens)
            self.bought_tokens += tokens if verdict in TRUSTED and row["cost_usd"] else 0
        if row["canonical"] is not None:
            self.canonical[row["canonical"]] += 1
        evidence = msgspec.json.decode(row["evidence"]) if row["evidence"] else {}
        gap = evidence.get("count_difference", row["count_difference"])
        if gap is not None:
            self.gaps[provider][gap] += 1
            self.conventions[provider][evidence.get("convention") or "the server gives the ids"] += 1

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
        return MILLION * self.cost_usd / self.bought_tokens if self.bought_tokens else None

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
        return "\n".join([*lines, "", *(f"- **{verdict}**: {_IN_SHORT[verdict]}" for verdict in VERDICTS)])
