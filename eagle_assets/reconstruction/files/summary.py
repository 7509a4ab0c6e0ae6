"""The summary that ends a reconstruction: verdicts by provider, and what trust was withheld for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.markup import escape
from rich.table import Table

from eagle_assets.reconstruction.verdict import VERDICTS, Reconstruction, Verdict


@dataclass(slots=True)
class Summary:
    """Counts over the reconstructions that came by."""

    verdicts: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    exchanges: int = 0

    def add(self, reconstruction: Reconstruction) -> None:
        self.exchanges += 1
        self.tokens += len(reconstruction.output_ids or ())
        self.verdicts[reconstruction.provider or "(none)", reconstruction.verdict] += 1
        if not reconstruction.trusted:
            self.reasons.update(reason.partition(":")[0] for reason in reconstruction.reasons[:1])

    def add_all(self, other: Summary) -> None:
        self.exchanges += other.exchanges
        self.tokens += other.tokens
        self.verdicts.update(other.verdicts)
        self.reasons.update(other.reasons)

    def by_provider(self) -> Table:
        table = Table(title="Verdicts by provider", title_justify="left")
        table.add_column("provider")
        for verdict in VERDICTS:
            table.add_column(verdict, justify="right")
        for provider in sorted({provider for provider, _ in self.verdicts}):
            table.add_row(escape(provider), *(str(self.verdicts[provider, verdict] or "") for verdict in VERDICTS))
        return table

    def by_reason(self) -> Table:
        table = Table(title="First reason why a response is not trusted", title_justify="left")
        table.add_column("reason")
        table.add_column("responses", justify="right")
        for reason, times in self.reasons.most_common(12):
            table.add_row(escape(reason), str(times))
        return table
