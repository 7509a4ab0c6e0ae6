"""How far a collection is: shown by whoever runs it, and observed in Dagster's event log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import dagster as dg

from eagle_assets.openrouter.progress import Progress, in_a_line

SECONDS_BETWEEN_OBSERVATIONS = 10

OnProgress = Callable[[Progress], None]

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

    def report(progress: Progress) -> None:
        nonlocal observed
        if show is not None:
            show(progress)
        if time.monotonic() - observed >= SECONDS_BETWEEN_OBSERVATIONS:
            observed = time.monotonic()
            context.log.info(f"{progress.dataset}: {in_a_line(progress)}")
            context.log_event(
                dg.AssetObservation(
                    asset_key=context.asset_key, partition=progress.dataset, metadata=observed_metadata(progress)
                )
            )

    return report


def observed_metadata(progress: Progress) -> dict[str, int | float]:
    """What of a collection's state goes into the event log: numbers, so that Dagster plots them."""
    error_shares = {f"error share of {n}": p.failures / p.attempts for n, p in progress.providers.items() if p.attempts}
    return {
        "answered": progress.answered,
        "of": progress.total,
        "failed": progress.failed,
        "strays": progress.strays,
        "spent_usd": progress.spent_usd,
        "reserved_usd": progress.reserved_usd,
        "answers a second": progress.rate,
        "seconds to go": progress.seconds_left or 0.0,
        "in flight": progress.in_flight,
        **{f"verdict {name}": number for name, number in progress.verdicts.items()},
        **error_shares,
    }
