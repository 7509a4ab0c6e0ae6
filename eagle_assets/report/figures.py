"""What sequences add up to: by verdict, by provider, by length, in dollars."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.reconstruction.verdict import TRUSTED, VERDICTS
from eagle_assets.report.pictures import CountDifferences

# Of TOKEN_SEQUENCES; all that `Figures` looks at.
COLUMNS = ("provider", "verdict", "evidence", "count_difference", "canonical", "cost_usd", "output_ids")
MILLION = 1_000_000

_IN_SHORT = {
    "exact": "proved by the server's own evidence",
    "consistent": "explains everything, no rival is left",
    "unverified": "evidence is missing, or a rival stands",
    "contradicted": "something disproves every reading",
    "unusable": "an error, cut off, or empty",
}


class _Evidence(msgspec.Struct):
    count_difference: int | msgspec.UnsetType | None = msgspec.UNSET
    convention: str | None = None


_EVIDENCE = msgspec.json.Decoder(_Evidence)


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
            figures.add(batch, pc.list_value_length(batch["output_ids"]))
        return figures

    def add(self, rows: pa.RecordBatch | pa.Table, lengths: pa.Array | pa.ChunkedArray) -> None:
        """Take rows with COLUMNS into the sums, of whose `output_ids` only the numbers are needed."""
        for name, verdict, text, difference, canonical, cost, tokens in zip(
            *(rows[column].to_pylist() for column in COLUMNS if column != "output_ids"),
            lengths.to_pylist(),
            strict=True,
        ):
            provider = name or "not named"
            self.verdicts[provider][verdict] += 1
            self.cost_usd += cost or 0.0
            if tokens is not None:
                self.tokens[verdict] += tokens
                self.lengths.append(tokens)
                self.bought_tokens += tokens if verdict in TRUSTED and cost else 0
            if canonical is not None:
                self.canonical[canonical] += 1
            evidence = _EVIDENCE.decode(text) if text else _Evidence()
            gap = difference if evidence.count_difference is msgspec.UNSET else evidence.count_difference
            if gap is not None:
                self.gaps[provider][gap] += 1
                self.conventions[provider][evidence.convention or "the server gives the ids"] += 1

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
