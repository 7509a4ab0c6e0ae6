"""The stage `token_sequences`: rows of responses in, rows of sequences out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import accumulate, tee
from typing import Any

import msgspec

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.calibration import Calibration
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.reconstruction.verdict import Reconstruction


def calibrate_rows(rows: Iterable[dict[str, Any]]) -> Calibration:
    """The calibration that rows of RAW_RESPONSES lead to."""
    return calibrate(map(exchange_of_row, rows))


def sequence_rows(rows: Iterable[dict[str, Any]], calibration: Calibration) -> Iterator[dict[str, Any]]:
    """Rows of RAW_RESPONSES as rows of TOKEN_SEQUENCES, in order; holds one batch at a time."""
    rows, again = tee(rows)
    for row, reconstruction in zip(rows, reconstruct(map(exchange_of_row, again), calibration), strict=True):
        yield _sequence_row(row, reconstruction)


def positions_to_hold_back(rows: Iterable[Mapping[str, Any]], limit: float) -> frozenset[int]:
    """Positions of the `consistent` rows that must go, so that on average no more than `limit` of the others is wrong.

    Those with the highest residual error go first, so as few as can be (posterior error probability to false
    discovery rate, as elsewhere). Needs the columns `verdict` and `evidence`.
    """
    stated = [(residual_error(row), position) for position, row in enumerate(rows) if row["verdict"] == "consistent"]
    stated.sort()
    sums = accumulate(error for error, _ in stated)
    kept = sum(total <= limit * number for number, total in enumerate(sums, start=1))
    return frozenset(position for _, position in stated[kept:])


def held_back(rows: Iterable[dict[str, Any]], positions: Container[int]) -> Iterator[dict[str, Any]]:
    """The rows, those at these positions as `unverified`, with the reason."""
    for position, row in enumerate(rows):
        if position in positions:
            row = {**row, "verdict": "unverified", "reasons": [*row["reasons"], "residual_error_above_limit"]}
        yield row


def residual_error(row: Mapping[str, Any]) -> float:
    """Probability that the ids of a trusted row are wrong for all that its evidence says; what is not stated is 1."""
    if row["verdict"] == "exact":
        return 0.0
    return float(msgspec.json.decode(row["evidence"]).get("residual_error", 1.0))


def _sequence_row(row: dict[str, Any], reconstruction: Reconstruction) -> dict[str, Any]:
    # What cannot be used has no evidence to take the server's figures from, so it is read once more.
    seen = reconstruction.evidence or _figures(exchange_of_row(row))
    counted, ids = seen.get("completion_tokens"), reconstruction.output_ids
    return {
        "exchange_id": row["exchange_id"],
        "prompt_id": row["prompt_id"],
        "dataset": row["dataset"],
        "provider": reconstruction.provider,
        "model": reconstruction.model,
        "streamed": seen["streamed"],
        "verdict": reconstruction.verdict,
        "output_ids": ids,
        "prompt_ids": reconstruction.prompt_ids,
        "reasons": list(reconstruction.reasons),
        "evidence": msgspec.json.encode(reconstruction.evidence).decode(),
        "candidates": msgspec.json.encode([c.to_dict() for c in reconstruction.candidates]).decode(),
        "finish_reason": seen.get("finish_reason"),
        "prompt_tokens": seen.get("prompt_tokens"),
        "completion_tokens": counted,
        "reasoning_tokens": seen.get("reasoning_tokens"),
        "count_difference": counted - len(ids) if counted is not None and ids is not None else None,
        "cost_usd": row["cost_usd"],
    }


def _figures(exchange: Exchange) -> dict[str, Any]:
    response = read_response(exchange)
    return {
        "streamed": response.streamed,
        "finish_reason": response.finish_reason,
        "prompt_tokens": response.prompt_tokens,
        "completion_tokens": response.completion_tokens,
        "reasoning_tokens": response.reasoning_tokens,
    }
