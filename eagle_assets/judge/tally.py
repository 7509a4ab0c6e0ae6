"""What the judge changed, in numbers and in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.markup import escape
from rich.table import Table

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.scan import Experience
from eagle_assets.judge.verdicts import Change, change_in
from eagle_assets.openrouter.names import UNNAMED
from eagle_assets.reconstruction.verdict import VERDICTS, Verdict

NOTED = ["exchange_id", "provider", "verdict_before", "verdict", "reasons", "surprise"]
"""What is counted of a judged sequence."""

_MOST_KEPT = 20  # examples


@dataclass(slots=True)
class Tally:
    """Counts over the verdicts that came by. `scanned` are the consistent ones that the judge answered for, `worst` the
    first that it changed for the worse or repaired."""

    before: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    after: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    changes: Counter[Change] = field(default_factory=Counter)
    scanned: int = 0
    worst: list[dict[str, Any]] = field(default_factory=list)

    def note(self, row: Mapping[str, Any]) -> None:
        """Count a judged sequence: its exchange_id, provider, verdict_before, verdict, reasons, and surprise."""
        provider = row["provider"] or UNNAMED
        self.before[provider, row["verdict_before"]] += 1
        self.after[provider, row["verdict"]] += 1
        self.scanned += row["surprise"] is not None and row["verdict_before"] != "exact"
        change = change_in(row["reasons"])
        if change is not None:
            self.changes[change] += 1
        if change in ("repaired", "contradicted") and len(self.worst) < _MOST_KEPT:
            self.worst.append({"exchange_id": row["exchange_id"], "why": row["reasons"][0]})

    def verdicts(self) -> Counter[Verdict]:
        """Sequences by verdict, after the judge."""
        totals: Counter[Verdict] = Counter(dict.fromkeys(VERDICTS, 0))
        for (_, verdict), number in self.after.items():
            totals[verdict] += number
        return totals

    @property
    def alarms(self) -> int:
        return self.changes["repaired"] + self.changes["contradicted"]

    def table(self) -> Table:
        """Verdicts by provider, before and after."""
        table = Table(title="Verdicts by provider: before → after the target", title_justify="left")
        table.add_column("provider")
        for verdict in VERDICTS:
            table.add_column(verdict, justify="right")
        for provider in sorted({provider for provider, _ in self.before}):
            pairs = [(self.before[provider, verdict], self.after[provider, verdict]) for verdict in VERDICTS]
            table.add_row(escape(provider), *(_pair(*pair) for pair in pairs))
        return table

    def sentences(self, learnt: Experience, bench: Bench) -> Iterator[str]:
        """What was found, how far it can be believed, and what was not judged."""
        threshold = learnt.threshold
        if not threshold.can_judge:
            yield "No response is proven, so that nothing shows from where on a surprise is an alarm: none was raised."
        else:
            yield (
                f"{self.alarms} of {self.scanned} trusted responses surprise the target: {self.changes['repaired']} "
                f"repaired, {self.changes['contradicted']} contradicted. Of {threshold.proven} proven ones "
                f"{learnt.false_alarms} do, so that at most {threshold.expected:.1%} of right ones are expected to."
            )
            least, most = learnt.error_behind(self.alarms, self.scanned)
            finds = learnt.sensitivity
            yield (
                f"Of {finds.planted} errors planted in proven ones {finds.overall:.0%} are found (each kind weighing "
                f"alike): before the scan {least:.1%} of the trusted ones were wrong, and no more than {most:.1%}."
            )
        if self.changes["settled"]:
            yield f"{self.changes['settled']} responses are trusted now that what was open of them is settled."
        if bench.damage is not None:
            yield f"{bench.damage}: what the judge said there is asked again"
        if bench.refused:
            yield f"{bench.refused} sequences could not be judged; the judge says: {bench.reason}"


def _pair(before: int, after: int) -> str:
    if before == after:
        return str(before or "")
    return f"{before} → {after}"
