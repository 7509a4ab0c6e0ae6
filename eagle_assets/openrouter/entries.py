"""What is entered into the ledger, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick of a dataset's schedule, with its own cap in US dollars, or None."""

    name: str
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is set aside for a request before it leaves: the most that it can cost, in US dollars."""

    reservation_id: str
    dataset: str
    worst_usd: float
    tick: Tick | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a reservation ended. A `real_usd` of None is unknown: it stays at its worst case, to be settled later."""

    reservation_id: str
    real_usd: float | None
    generation_id: str | None = None
    provider: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Open:
    """A row whose real cost is unknown; `generation_id` is None where the server never gave it a name."""

    reservation_id: str
    generation_id: str | None
