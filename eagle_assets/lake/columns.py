"""Columns of the Parquet files of each stage: type and what it holds. They are contracts: readers outside rely on them.

In words of their own, because the definitions show them, and load without pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping

Columns = Mapping[str, tuple[str, str]]

PROMPTS: Columns = {
    "prompt_id": ("string", "As the prompts file names it."),
    "dataset": ("string", "The dataset, such as B3."),
    "request": ("string", "JSON of the request as it is sent; {} for local rows."),
    "request_key": ("string", "Digest of all of the request that determines the answer; null for local rows."),
    "prompt_ids": ("list<int32>", "The prompt as the target model sees it, rendered by its chat template."),
    "prompt_tokens": ("int32", "How many ids that is."),
    "max_tokens": ("int32", "Limit of the answer; null where the answer is there already."),
    "worst_case_usd": ("double", "Dollars, if the answer uses all of max_tokens at the dearest allowed price."),
}

RAW_RESPONSES: Columns = {
    "exchange_id": ("string", "The server's id of the answer, or one of ours; `eagle-assets show` takes it."),
    "prompt_id": ("string", "The prompt that was asked."),
    "dataset": ("string", "The dataset, such as B3."),
    "model": ("string", "Which model answered; where none says so, the one that was asked."),
    "provider": ("string", "Who answered, as OpenRouter names them; null where nobody did."),
    "status": ("int32", "HTTP status; null where no answer came, and for local rows."),
    "outcome": ("string", "answered, retry, refused or fatal; local rows are answered."),
    "reason": ("string", "Why there is no answer; null where there is one."),
    "stray": ("string", "Why the answer is not from whom it was asked, and never trained on; null where it is."),
    "request": ("string", "JSON as sent."),
    "body": ("binary", "As received, byte for byte; of local rows the line of the file."),
    "transport_error": ("string", "What broke the connection, if something did."),
    "generation": ("string", "JSON of OpenRouter's /generation, where it was asked."),
    "arrivals": ("string", "JSON list of [byte offset, seconds since the request left]."),
    "other": ("string", "JSON object of every further key of the exchange."),
    "attempt": ("int32", "Counts the attempts at this request from 1."),
    "cost_usd": ("double", "Dollars that this attempt cost; null where it is not known."),
    "asked_at": ("double", "Seconds since the epoch; null for local rows."),
    "ended_at": ("double", "Seconds since the epoch; null for local rows."),
}

TOKEN_SEQUENCES: Columns = {
    "exchange_id": ("string", "The exchange in raw_responses; `eagle-assets show` takes it."),
    "prompt_id": ("string", "The prompt that was asked."),
    "dataset": ("string", "The dataset, such as B3."),
    "provider": ("string", "Who answered."),
    "model": ("string", "Which model answered."),
    "streamed": ("bool", "Whether the answer came as an event stream."),
    "verdict": ("string", "exact, consistent, unverified, contradicted or unusable; the first two are trusted."),
    "output_ids": (
        "list<int32>",
        "The ids that the model generated, or the best guess; null without an output.",
    ),
    "prompt_ids": ("list<int32>", "The ids of the prompt."),
    "reasons": ("list<string>", "Codes that say what led to the verdict."),
    "evidence": ("string", "JSON object: the convention, counts, frames and the error that they leave open."),
    "candidates": ("string", "JSON list of the other ids that are possible; empty where they are settled."),
    "finish_reason": ("string", "Why the output ended, as the server says."),
    "prompt_tokens": ("int32", "As the server counted; null where it did not."),
    "completion_tokens": ("int32", "As the server counted; null where it did not."),
    "reasoning_tokens": ("int32", "As the server counted; null where it did not."),
    "count_difference": ("int32", "completion_tokens minus the number of output_ids; null without a count."),
    "canonical": ("bool", "Whether ids that are proved are those that the encoder gives; null for all others."),
    "cost_usd": ("double", "Dollars; null where it is not known."),
}

JUDGED_SEQUENCES: Columns = {
    **TOKEN_SEQUENCES,
    "verdict_before": ("string", "The verdict in token_sequences, before the target model was asked."),
    "log_likelihood": ("double", "Of the ids before the judge, by the target model, in nats; null where not asked."),
    "surprise": ("double", "By how many nats the target prefers other ids in one place; 0 where it does not."),
    "surprise_kind": ("string", "What other ids these are: leading blank, tool index, segmentation, …"),
    "surprising": ("list<int32>", "Places of output ids that other ids would be likelier at, the likeliest first."),
}

TRAINING_SHARDS: Columns = {
    "id": ("string", "Names the row; it is the same in every version."),
    "input_ids": ("list<int32>", "Prompt and output, as the model saw and generated them."),
    "loss_mask": ("list<uint8>", "1 over exactly what was generated, 0 over the prompt."),
    "exchange_id": ("string", "Where the output comes from; `eagle-assets show` takes it."),
    "provider": ("string", "Who generated it."),
    "verdict": ("string", "exact or consistent."),
    "dataset": ("string", "The dataset, such as B3."),
}

TOKEN_FREQUENCIES: Columns = {
    "token": ("int32", "An id of the target model."),
    "count": ("int64", "How often it was generated in the training shards."),
    "draft_id": ("int32", "Its place in the draft vocabulary; null where it is not in it."),
}

CALIBRATION: Columns = {
    "slug": ("string", "The provider as routing names it."),
    "proof": ("string", "What its answers to probes can prove."),
    "conventions": ("list<string>", "Serving conventions that its answers to probes leave standing."),
    "answers": ("int64", "Answers to probes that could be read."),
    "unexplained": ("int64", "Those of them that no standing convention explains."),
    "completion_usd_per_million": ("double", "Its price, dollars for a million generated tokens."),
    "probes_usd": ("double", "Dollars that asking it the probes cost."),
    "refused": ("string", "Why it is better not asked; null where it may be."),
    "note": ("string", "Why the probes stopped early; null where they did not."),
}

AUDITS: Columns = {
    "time": ("timestamp", "When the audit ended, UTC."),
    "stage": ("string", "The asset that was made."),
    "dataset": ("string", "The dataset, such as B3; null where the stage has no partitions."),
    "passed": ("bool", "Whether every check passed, so that it was published."),
    "is_current": ("bool", "Whether this is the version that readers get now."),
    "run_id": ("string", "The run of Dagster that made it."),
    "identity": ("string", "Hash of the content: the same where nothing changed."),
    "code_version": ("string", "Which code made it."),
    "vocabulary": ("string", "SHA-256 of the vocabulary that it was made with."),
    "files": ("int64", "How many files it has."),
    "rows": ("int64", "How many rows they hold."),
    "bytes": ("int64", "How large they are."),
    "counts": ("map<string, double>", "Its figures, by name."),
    "failed_checks": ("list<string>", "Names of the checks that failed."),
    "audit_sha256": ("string", "Hash of the audit record itself."),
}

CHECKS: Columns = {
    "time": ("timestamp", "When the audit ended, UTC."),
    "stage": ("string", "The asset that was checked."),
    "dataset": ("string", "The dataset, such as B3; null where the stage has no partitions."),
    "run_id": ("string", "The run of Dagster that made it."),
    "name": ("string", "The check."),
    "passed": ("bool", "Whether it passed."),
    "sentence": ("string", "What it found."),
    "numbers": ("map<string, double>", "What it counted, by name."),
    "worst": ("string", "JSON list of the worst offenders, as objects."),
}

LEDGER: Columns = {
    "dataset": ("string", "The dataset, such as B3; null for all together."),
    "spent_usd": ("double", "Dollars spent; what is unsettled counts with its worst case."),
    "reserved_usd": ("double", "Dollars held back for requests in flight."),
    "left_usd": ("double", "Dollars that may still be spent."),
}
