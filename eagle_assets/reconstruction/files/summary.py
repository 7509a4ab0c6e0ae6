"""The summary of a reconstruction: verdicts by provider, and what trust was withheld for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from eagle_assets.openrouter.names import UNNAMED
from eagle_assets.reconstruction.verdict import Reconstruction, Verdict


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
        self.verdicts[reconstruction.provider or UNNAMED, reconstruction.verdict] += 1
        if not reconstruction.trusted:
            self.reasons.update(reason.partition(":")[0] for reason in reconstruction.reasons[:1])

    def add_all(self, other: Summary) -> None:
        self.exchanges += other.exchanges
        self.tokens += other.tokens
        self.verdicts.update(other.verdicts)
        self.reasons.update(other.reasons)
