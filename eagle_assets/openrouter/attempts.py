"""Attempts at a request: one that is under way, and the record of one that has ended."""

from __future__ import annotations

import time
import uuid
from array import array
from dataclasses import dataclass, field, replace
from typing import Any

from eagle_assets.openrouter.decisions import Outcome
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.values import as_amount

KEPT_IN_MEMORY = 1 << 20  # bytes; a longer body is read again from the journal when it has ended


@dataclass(slots=True)
class Attempt:
    """One attempt that is under way: what was asked, and what has come so far.

    `local_id` names it before any server has; `asked_at` is in seconds since the epoch, `arrivals` in seconds since
    the request left. `places` is where each piece lies in the journal; `pieces` is None once they are too many.
    """

    number: int
    local_id: str
    prompt_id: str
    request_key: str
    ordinal: int
    asked_at: float
    request: dict[str, Any]
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    pieces: list[bytes] | None = field(default_factory=list)
    places: array[int] = field(default_factory=lambda: array("Q"))
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    size: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, piece: bytes, seconds: float, place: int) -> None:
        self.arrivals.append((self.size, seconds))
        self.places.append(place)
        self.size += len(piece)
        if self.pieces is not None:
            self.pieces.append(piece)
            if self.size > KEPT_IN_MEMORY:
                self.pieces = None

    def exchange(self, transport_error: str | None, body: bytes) -> Exchange:
        """What has come, as an exchange under its local id."""
        return Exchange(
            exchange_id=self.local_id,
            model=str(self.request.get("model", "")),
            provider=None,
            status=self.status,
            request=self.request,
            body=body,
            transport_error=transport_error,
            arrivals=tuple(self.arrivals),
        )

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One attempt that has ended.

    An answer has the server's name for it as its exchange id, all else our own. `attempt` counts the attempts at this
    request from 1, over all runs; times are seconds since the epoch; `generation_id` is the server's name for it, where
    it gave one; `cost_usd` is None where it is unknown: such an attempt may have been paid for.
    """

    exchange: Exchange
    local_id: str
    prompt_id: str
    request_key: str
    attempt: int
    outcome: Outcome
    reason: str | None
    generation_id: str | None
    cost_usd: float | None
    asked_at: float
    ended_at: float

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The response's headers, which the exchange keeps among its further keys."""
        return tuple(self.exchange.other["headers"])

    @property
    def possibly_paid(self) -> bool:
        return self.cost_usd is None


def ended_record(attempt: Attempt, exchange: Exchange, ended: dict[str, Any]) -> JournalRecord:
    """The record of `attempt`, of which `exchange` came and which ended as the journal's JSON `ended` says."""
    named = replace(
        exchange,
        exchange_id=ended["exchange_id"],
        model=ended["model"],
        provider=ended["provider"],
        other={"headers": attempt.headers, "generation_id": ended["generation_id"]},
    )
    return JournalRecord(
        exchange=named,
        local_id=attempt.local_id,
        prompt_id=attempt.prompt_id,
        request_key=attempt.request_key,
        attempt=attempt.ordinal,
        outcome=ended["outcome"],
        reason=ended["reason"],
        generation_id=ended["generation_id"],
        cost_usd=ended["cost_usd"],
        asked_at=attempt.asked_at,
        ended_at=ended["ended_at"],
    )


def with_generation(record: JournalRecord, generations: dict[str, dict[str, Any]]) -> JournalRecord:
    """The record with what `/generation` said of it: that is asked where nothing else tells the cost."""
    data = generations.get(record.generation_id) if record.generation_id and record.possibly_paid else None
    if data is None:
        return record
    return replace(record, exchange=replace(record.exchange, generation=data), cost_usd=generation_cost_usd(data))


def generation_cost_usd(data: dict[str, Any]) -> float | None:
    """The cost in the `data` object of `/generation`; None where it does not say."""
    return as_amount(data.get("total_cost"))


def new_local_id() -> str:
    """A name of our own for an attempt, which no other has."""
    return f"local-{uuid.uuid4().hex}"
