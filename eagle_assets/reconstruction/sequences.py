"""The stage `token_sequences`: rows of responses in, rows of sequences out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import tee
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eagle_assets.lake.schemas import TOKEN_SEQUENCES
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.reconstruct import calibrate, findings, reconstruct
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.reconstruction.verdict import Reconstruction

FOUND_SEQUENCES = pa.schema(
    [
        *TOKEN_SEQUENCES,
        ("group", pa.string()),  # JSON of model, provider, streamed: whose calibration it depends on; null on none
        ("order", pa.float64()),
        ("exposure", pa.string()),  # JSON of an Exposure, or null
        ("tokens", pa.int32()),  # the number of output_ids
        ("text_agrees", pa.bool_()),  # of those that would be trusted: whether they give what was received
        ("count_gap", pa.int32()),
        ("gap", pa.int32()),  # what the convention leaves of the count, and that
        ("convention", pa.string()),
    ]
)
"""TOKEN_SEQUENCES before they are weighed and examined, with what both need; rows of it come without the last five."""

UNSTATED_ERROR = 1.0


class _Stated(msgspec.Struct):
    residual_error: float = UNSTATED_ERROR


class _Explained(msgspec.Struct):
    count_difference: int | msgspec.UnsetType | None = msgspec.UNSET
    convention: str | None = None


_STATED = msgspec.json.Decoder(_Stated)
_EXPLAINED = msgspec.json.Decoder(_Explained)


def calibrate_rows(rows: Iterable[dict[str, Any]]) -> Calibration:
    """The calibration that rows of RAW_RESPONSES lead to."""
    return calibrate(map(exchange_of_row, rows))


def sequence_rows(rows: Iterable[dict[str, Any]], calibration: Calibration) -> Iterator[dict[str, Any]]:
    """Rows of RAW_RESPONSES as rows of TOKEN_SEQUENCES, in order; holds one batch at a time."""
    rows, again = tee(rows)
    for row, reconstruction in zip(rows, reconstruct(map(exchange_of_row, again), calibration), strict=True):
        ids = reconstruction.output_ids
        yield {**_sequence_row(row, reconstruction), "output_ids": None if ids is None else list(ids)}


def found_rows(rows: Iterable[dict[str, Any]], calibration: Calibration) -> Iterator[tuple[dict[str, Any], Reading]]:
    """Rows of RAW_RESPONSES as rows of FOUND_SEQUENCES, in order and before they are weighed, `output_ids` being an
    array, each with what its response was read as; holds one batch."""
    rows, again = tee(rows)
    for row, (reading, found) in zip(rows, findings(map(exchange_of_row, again), calibration), strict=True):
        exposure, known = found.exposure, reading.situation is not None
        said = {
            **_sequence_row(row, found),
            "output_ids": None if found.output_ids is None else np.asarray(found.output_ids, dtype=np.int32),
            "group": group_name((reading.target_name, reading.provider or "", reading.response.streamed))
            if known
            else None,
            "order": reading.exchange.order,
            "exposure": None if exposure is None else msgspec.json.encode(exposure).decode(),
        }
        yield said, reading


def gaps_and_conventions(rows: pa.RecordBatch | pa.Table) -> tuple[pa.Array, pa.Array]:
    """What is left of each count under the convention that a row of TOKEN_SEQUENCES was read by, and its name."""
    gaps, conventions = list[int | None](), list[str | None]()
    for text, difference in zip(rows["evidence"].to_pylist(), rows["count_difference"].to_pylist(), strict=True):
        said = _EXPLAINED.decode(text) if text else _Explained()
        gaps.append(difference if said.count_difference is msgspec.UNSET else said.count_difference)
        conventions.append(said.convention)
    return pa.array(gaps, pa.int32()), pa.array(conventions, pa.string())


def group_name(key: GroupKey) -> str:
    """A group's key as it stands in FOUND_SEQUENCES."""
    return msgspec.json.encode(key).decode()


def held_back(errors: npt.NDArray[np.float64], limit: float) -> npt.NDArray[np.bool_]:
    """Which `consistent` rows must go, so that on average no more than `limit` of the others is wrong.

    `errors` are the residual errors, NaN for rows that are not `consistent`. Those with the highest go first, so as few
    as can be (posterior error probability to false discovery rate, as elsewhere).
    """
    stated = np.flatnonzero(~np.isnan(errors))
    ascending = stated[np.argsort(errors[stated], kind="stable")]
    allowed = limit * np.arange(1, ascending.size + 1)
    kept = np.count_nonzero(np.cumsum(errors[ascending]) <= allowed)
    held = np.zeros(errors.size, dtype=np.bool_)
    held[ascending[kept:]] = True
    return held


def residual_error(row: Mapping[str, Any]) -> float:
    """Probability that the ids of a trusted row are wrong for all that its evidence says; what is not stated is 1."""
    if row["verdict"] == "exact":
        return 0.0
    return stated_error(row["evidence"])


def stated_error(evidence: str) -> float:
    """The residual error that evidence states, or that of none."""
    return _STATED.decode(evidence).residual_error


def _sequence_row(row: dict[str, Any], reconstruction: Reconstruction) -> dict[str, Any]:
    """All columns but `output_ids`."""
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
