"""Parquet columns of each stage, each with what it holds. They are contracts: readers outside rely on them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

_IDS = pa.list_(pa.int32())


def described(columns: Mapping[str, tuple[pa.DataType, str]]) -> pa.Schema:
    """A schema whose fields carry their description, in the files too."""
    return pa.schema([pa.field(name, kind, metadata={"description": text}) for name, (kind, text) in columns.items()])


def description_of(field: pa.Field) -> str:
    """What a column holds."""
    return (field.metadata or {}).get(b"description", b"").decode()


PROMPTS = described(
    {
        "prompt_id": (pa.string(), "As the prompts file names it."),
        "dataset": (pa.string(), "B1 to B8."),
        "request": (pa.string(), "JSON of the request as it is sent; {} for local rows."),
        "prompt_ids": (_IDS, "The prompt as the target model sees it, rendered by its chat template."),
        "prompt_tokens": (pa.int32(), "How many ids that is."),
        "max_tokens": (pa.int32(), "Limit of the answer; null where the answer is there already."),
        "worst_case_usd": (pa.float64(), "Dollars, if the answer uses all of max_tokens at the dearest allowed price."),
    }
)

RAW_RESPONSES = described(
    {
        "exchange_id": (pa.string(), "The server's id of the answer, or one of ours; `eagle-assets show` takes it."),
        "prompt_id": (pa.string(), "The prompt that was asked."),
        "dataset": (pa.string(), "B1 to B8."),
        "model": (pa.string(), "The model that was asked for."),
        "provider": (pa.string(), "Who answered, as OpenRouter names them; null where nobody did."),
        "status": (pa.int32(), "HTTP status; null where no answer came, and for local rows."),
        "outcome": (pa.string(), "answered, retry, refused or fatal; local rows are answered."),
        "reason": (pa.string(), "Why there is no answer; null where there is one."),
        "request": (pa.string(), "JSON as sent."),
        "body": (pa.binary(), "As received, byte for byte; of local rows the line of the file."),
        "transport_error": (pa.string(), "What broke the connection, if something did."),
        "generation": (pa.string(), "JSON of OpenRouter's /generation, where it was asked."),
        "arrivals": (pa.string(), "JSON list of [byte offset, seconds since the request left]."),
        "other": (pa.string(), "JSON object of every further key of the exchange."),
        "attempt": (pa.int32(), "Counts the attempts at this request from 1."),
        "cost_usd": (pa.float64(), "Dollars that this attempt cost; null where it is not known."),
        "asked_at": (pa.float64(), "Seconds since the epoch; null for local rows."),
        "ended_at": (pa.float64(), "Seconds since the epoch; null for local rows."),
    }
)

TOKEN_SEQUENCES = described(
    {
        "exchange_id": (pa.string(), "The exchange in raw_responses; `eagle-assets show` takes it."),
        "prompt_id": (pa.string(), "The prompt that was asked."),
        "dataset": (pa.string(), "B1 to B8."),
        "provider": (pa.string(), "Who answered."),
        "model": (pa.string(), "Which model answered."),
        "streamed": (pa.bool_(), "Whether the answer came as an event stream."),
        "verdict": (pa.string(), "exact, consistent, unverified, contradicted or unusable; the first two are trusted."),
        "output_ids": (_IDS, "The ids that the model generated, or the best guess; null where there is no output."),
        "prompt_ids": (_IDS, "The ids of the prompt."),
        "reasons": (pa.list_(pa.string()), "Codes that say what led to the verdict."),
        "evidence": (pa.string(), "JSON object: the convention, counts, frames and the error that they leave open."),
        "candidates": (pa.string(), "JSON list of the other ids that are possible; empty where they are settled."),
        "finish_reason": (pa.string(), "Why the output ended, as the server says."),
        "prompt_tokens": (pa.int32(), "As the server counted; null where it did not."),
        "completion_tokens": (pa.int32(), "As the server counted; null where it did not."),
        "reasoning_tokens": (pa.int32(), "As the server counted; null where it did not."),
        "count_difference": (pa.int32(), "completion_tokens minus the number of output_ids; null without a count."),
        "canonical": (pa.bool_(), "Whether ids that are proved are those that the encoder gives; null for all others."),
        "cost_usd": (pa.float64(), "Dollars; null where it is not known."),
    }
)

TRAINING_SHARDS = described(
    {
        "id": (pa.string(), "Names the row; it is the same in every version."),
        "input_ids": (_IDS, "Prompt and output, as the model saw and generated them."),
        "loss_mask": (pa.list_(pa.uint8()), "1 over exactly what was generated, 0 over the prompt."),
        "exchange_id": (pa.string(), "Where the output comes from; `eagle-assets show` takes it."),
        "provider": (pa.string(), "Who generated it."),
        "verdict": (pa.string(), "exact or consistent."),
        "dataset": (pa.string(), "B1 to B8."),
    }
)

TOKEN_FREQUENCIES = described(
    {
        "token": (pa.int32(), "An id of the target model."),
        "count": (pa.int64(), "How often it was generated in the training shards."),
        "draft_id": (pa.int32(), "Its place in the draft vocabulary; null where it is not in it."),
    }
)

CALIBRATION = described(
    {
        "slug": (pa.string(), "The provider as routing names it."),
        "proof": (pa.string(), "What its answers to probes can prove."),
        "conventions": (pa.list_(pa.string()), "Serving conventions that its answers to probes leave standing."),
        "answers": (pa.int64(), "Answers to probes that could be read."),
        "unexplained": (pa.int64(), "Those of them that no standing convention explains."),
        "completion_usd_per_million": (pa.float64(), "Its price, dollars for a million generated tokens."),
        "probes_usd": (pa.float64(), "Dollars that asking it the probes cost."),
        "refused": (pa.string(), "Why it is better not asked; null where it may be."),
        "note": (pa.string(), "Why the probes stopped early; null where they did not."),
    }
)
