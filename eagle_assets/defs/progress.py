"""How far a collection is: shown by whoever runs it, and observed in Dagster's event log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import dagster as dg

SECONDS_BETWEEN_OBSERVATIONS = 10

# dataset, requests that are done, requests in all, dollars spent on them
OnProgress = Callable[[str, int, int, float], None]

_shown: ContextVar[OnProgress | None] = ContextVar("shown_progress", default=None)


@contextmanager
def shown_by(on_progress: OnProgress | None) -> Iterator[None]:
    """Show the progress of what runs in this process meanwhile."""
    token = _shown.set(on_progress)
    try:
        yield
    finally:
        _shown.reset(token)


def report_to(context: dg.AssetExecutionContext) -> OnProgress:
    """A callback that shows each step, and writes one into the event log every few seconds."""
    show = _shown.get()
    observed = time.monotonic()

    def report(dataset: str, done: int, total: int, spent_usd: float) -> None:
        nonlocal observed
        if show is not None:
            show(dataset, done, total, spent_usd)
        if time.monotonic() - observed >= SECONDS_BETWEEN_OBSERVATIONS:
            observed = time.monotonic()
            context.log_event(
                dg.AssetObservation(
                    asset_key=context.asset_key,
                    partition=dataset,
                    metadata={"done": done, "of": total, "spent_usd": spent_usd},
                )
            )

    return report
