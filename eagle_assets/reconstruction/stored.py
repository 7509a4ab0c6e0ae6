"""Exchanges as rows of `raw_responses`, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from eagle_assets.openrouter.attempts import JournalRecord
from eagle_assets.openrouter.exchange import Exchange

StrayOf = Callable[[str | None, str | None], str | None]
"""Why an answer by this model and this provider may not be used, or None."""


def nobody_strays(model: str | None, provider: str | None) -> None:
    """Of a server of one's own, or where it is not looked at: every answer is from whom it was asked."""


def row_of_record(record: JournalRecord, dataset: str, stray_of: StrayOf = nobody_strays) -> dict[str, Any]:
    """A journal's record as a row of the schema RAW_RESPONSES; nothing of the exchange is lost."""
    exchange = record.exchange
    return {
        "exchange_id": exchange.exchange_id,
        "prompt_id": record.prompt_id,
        "dataset": dataset,
        "model": exchange.model,
        "provider": exchange.provider,
        "status": exchange.status,
        "outcome": record.outcome,
        "reason": record.reason,
        "stray": stray_of(exchange.model, exchange.provider) if record.outcome == "answered" else None,
        "request": _json(exchange.request),
        "body": exchange.body,
        "transport_error": exchange.transport_error,
        "generation": _json(exchange.generation) if exchange.generation is not None else None,
        "arrivals": _json(exchange.arrivals),
        "other": _json(exchange.other),
        "attempt": record.attempt,
        "cost_usd": record.cost_usd,
        "asked_at": record.asked_at,
        "ended_at": record.ended_at,
    }


def exchange_of_row(row: dict[str, Any]) -> Exchange:
    """The exchange that a row of RAW_RESPONSES holds."""
    return Exchange(
        exchange_id=row["exchange_id"],
        model=row["model"] or "",
        provider=row["provider"],
        status=row["status"],
        request=msgspec.json.decode(row["request"]),
        body=row["body"],
        transport_error=row["transport_error"],
        generation=msgspec.json.decode(row["generation"]) if row["generation"] is not None else None,
        order=row["ended_at"] or 0.0,
        arrivals=tuple((offset, seconds) for offset, seconds in msgspec.json.decode(row["arrivals"])),
        stray=row["stray"],
        other=msgspec.json.decode(row["other"]),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
