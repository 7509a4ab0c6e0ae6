"""Parquet columns of each stage. They are contracts: readers outside this project rely on them."""

from __future__ import annotations

import pyarrow as pa

PROMPTS = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("dataset", pa.string()),
        ("request", pa.string()),  # JSON of the request as it is sent; of local rows what the file says
        ("prompt_ids", pa.list_(pa.int32())),
        ("prompt_tokens", pa.int32()),
        ("max_tokens", pa.int32()),  # null where the answer is there already
        ("worst_case_usd", pa.float64()),
    ]
)

RAW_RESPONSES = pa.schema(
    [
        ("exchange_id", pa.string()),
        ("prompt_id", pa.string()),
        ("dataset", pa.string()),
        ("model", pa.string()),
        ("provider", pa.string()),
        ("status", pa.int32()),  # HTTP status; null where no answer came, and for local rows
        ("outcome", pa.string()),  # answered | retry | refused | fatal; of local rows: answered
        ("reason", pa.string()),  # why there is no answer; null where there is one
        ("request", pa.string()),  # JSON as sent
        ("body", pa.binary()),  # as received, byte for byte; of local rows the line of the file
        ("transport_error", pa.string()),
        ("generation", pa.string()),  # JSON of /generation, where it was asked
        ("arrivals", pa.string()),  # JSON list of [byte offset, seconds since the request left]
        ("other", pa.string()),  # JSON object of every further key of the exchange
        ("attempt", pa.int32()),  # counts the attempts at this request from 1
        ("cost_usd", pa.float64()),  # null where it is not known
        ("asked_at", pa.float64()),  # seconds since the epoch; null for local rows, as the next
        ("ended_at", pa.float64()),
    ]
)

TOKEN_SEQUENCES = pa.schema(
    [
        ("exchange_id", pa.string()),
        ("prompt_id", pa.string()),
        ("dataset", pa.string()),
        ("provider", pa.string()),
        ("model", pa.string()),
        ("streamed", pa.bool_()),
        ("verdict", pa.string()),  # exact | consistent | unverified | contradicted | unusable
        ("output_ids", pa.list_(pa.int32())),  # null where there is no output
        ("prompt_ids", pa.list_(pa.int32())),
        ("reasons", pa.list_(pa.string())),
        ("evidence", pa.string()),  # JSON object
        ("candidates", pa.string()),  # JSON list
        ("finish_reason", pa.string()),
        ("prompt_tokens", pa.int32()),  # as the server counted; null where it did not
        ("completion_tokens", pa.int32()),
        ("reasoning_tokens", pa.int32()),
        ("count_difference", pa.int32()),  # completion_tokens − output ids
        ("cost_usd", pa.float64()),
    ]
)

TRAINING_SHARDS = pa.schema(
    [
        ("id", pa.string()),
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.uint8())),
        ("exchange_id", pa.string()),
        ("provider", pa.string()),
        ("verdict", pa.string()),
        ("dataset", pa.string()),
    ]
)

TOKEN_FREQUENCIES = pa.schema(
    [
        ("token", pa.int32()),
        ("count", pa.int64()),
        ("draft_id", pa.int32()),  # place in the draft vocabulary; null where the id is not in it
    ]
)
