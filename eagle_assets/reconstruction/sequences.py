"""The stage `token_sequences`: rows of responses in, rows of sequences out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee
from typing import Any

import msgspec

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibration import Calibration
from eagle_assets.reconstruction.reading import read
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.reconstruction.verdict import Reconstruction


def calibrate_rows(rows: Iterable[dict[str, Any]]) -> Calibration:
    """The calibration that rows of RAW_RESPONSES lead to."""
    return calibrate(map(exchange_of_row, rows))


def sequence_rows(rows: Iterable[dict[str, Any]], calibration: Calibration) -> Iterator[dict[str, Any]]:
    """Rows of RAW_RESPONSES as rows of TOKEN_SEQUENCES, in order; holds one batch at a time."""
    rows, again = tee(rows)
    exchanges, for_counts = tee(map(exchange_of_row, again))
    reconstructions = reconstruct(exchanges, calibration)
    for row, exchange, reconstruction in zip(rows, for_counts, reconstructions, strict=True):
        yield _sequence_row(row, exchange, reconstruction)


def _sequence_row(row: dict[str, Any], exchange: Exchange, reconstruction: Reconstruction) -> dict[str, Any]:
    reading = read(exchange)
    response, ids = reading.response, reconstruction.output_ids
    counted = reading.completion_tokens
    return {
        "exchange_id": row["exchange_id"],
        "prompt_id": row["prompt_id"],
        "dataset": row["dataset"],
        "provider": reconstruction.provider,
        "model": reconstruction.model,
        "streamed": response.streamed,
        "verdict": reconstruction.verdict,
        "output_ids": ids,
        "prompt_ids": reconstruction.prompt_ids,
        "reasons": list(reconstruction.reasons),
        "evidence": msgspec.json.encode(reconstruction.evidence).decode(),
        "candidates": msgspec.json.encode([c.to_dict() for c in reconstruction.candidates]).decode(),
        "finish_reason": response.finish_reason,
        "prompt_tokens": response.prompt_tokens,
        "completion_tokens": counted,
        "reasoning_tokens": response.reasoning_tokens,
        "count_difference": counted - len(ids) if counted is not None and ids is not None else None,
        "cost_usd": row["cost_usd"],
    }
