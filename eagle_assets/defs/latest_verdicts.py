"""Verdicts of the latest answers while a collection runs: a look at what is bought, not what is published."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping

from eagle_assets.openrouter.exchange import Exchange

LATEST = 100  # answers
LARGEST = 1 << 18  # bytes of a body that is looked at
SECONDS_BETWEEN = 10.0


class LatestVerdicts:
    """Keeps the latest answers, and judges them now and then in a thread of its own, by what they alone teach."""

    def __init__(self) -> None:
        self.verdicts: Mapping[str, int] = {}
        self._latest: deque[Exchange] = deque(maxlen=LATEST)
        self._at_work: threading.Thread | None = None
        self._judged_at = time.monotonic()

    def add(self, exchange: Exchange) -> None:
        """Called with each answer as it comes."""
        if len(exchange.body) <= LARGEST:
            self._latest.append(exchange)
        idle = self._at_work is None or not self._at_work.is_alive()
        if idle and time.monotonic() - self._judged_at >= SECONDS_BETWEEN:
            self._judged_at = time.monotonic()
            self._at_work = threading.Thread(target=self.judge, daemon=True)
            self._at_work.start()

    def judge(self) -> None:
        """Judge the latest answers now."""
        from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct

        exchanges = list(self._latest)
        counted = Counter(r.verdict for r in reconstruct(exchanges, calibrate(exchanges)))
        self.verdicts = dict(counted.most_common())
