"""Answers of the team's own server, which come with their ids: read, proved, and never encoded again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from eagle_assets.targets.target import Target
from eagle_assets.targets.vocabulary import Vocabulary


class LocalResponsesError(Exception):
    """A file of local responses cannot be used; the message names the file and the line, and says what is wrong."""


class LocalResponse(msgspec.Struct, frozen=True):
    """One row of a local dataset: the ids as an SGLang server gave them; `text` is what it showed of the output."""

    prompt_id: str
    prompt_ids: list[int]
    output_ids: list[int]
    finish_reason: str | None = None
    text: str | None = None


def read_local_responses(path: Path, vocabulary: Vocabulary) -> Iterator[tuple[LocalResponse, bytes]]:
    """Rows of a JSONL file, each with the bytes of its line; blank lines are skipped.

    Raises LocalResponsesError at the first row that cannot be used: no such row, ids missing or outside the
    vocabulary, a `prompt_id` that came before.
    """
    seen: set[str] = set()
    decoder = msgspec.json.Decoder(LocalResponse)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    row = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise LocalResponsesError(f"{path}, line {number}: {error}") from None
                if wrong := _what_is_wrong(row, vocabulary, seen):
                    raise LocalResponsesError(f"{path}, line {number}: {wrong}")
                seen.add(row.prompt_id)
                yield row, line.rstrip(b"\r\n")
    except FileNotFoundError:
        raise LocalResponsesError(f"{path} does not exist; mend `responses` in the datasets file") from None
    if not seen:
        raise LocalResponsesError(f"{path} holds no response; it needs a JSON object on each line")


def raw_row(row: LocalResponse, line: bytes, dataset: str, target: Target) -> dict[str, Any]:
    """A local response as a row of the schema RAW_RESPONSES; `body` is its line as it stands in the file."""
    return {
        "exchange_id": f"{dataset}-{row.prompt_id}",
        "prompt_id": row.prompt_id,
        "dataset": dataset,
        "model": target.name,
        "provider": "local",
        "outcome": "answered",
        "request": "{}",
        "body": line,
        "arrivals": "[]",
        "other": "{}",
        "attempt": 1,
        "cost_usd": 0.0,
    }


def sequence_row(raw: dict[str, Any], target: Target) -> dict[str, Any]:
    """A row of RAW_RESPONSES that came from a local file as a row of TOKEN_SEQUENCES."""
    row = msgspec.json.decode(raw["body"], type=LocalResponse)
    reason = contradiction(row, target)
    return {
        "exchange_id": raw["exchange_id"],
        "prompt_id": row.prompt_id,
        "dataset": raw["dataset"],
        "provider": raw["provider"],
        "model": raw["model"],
        "streamed": False,
        "verdict": "contradicted" if reason else "exact",
        "output_ids": row.output_ids,
        "prompt_ids": row.prompt_ids,
        "reasons": [reason] if reason else [],
        "evidence": msgspec.json.encode({"server_ids": True, "text_compared": row.text is not None}).decode(),
        "candidates": "[]",
        "finish_reason": row.finish_reason,
        "prompt_tokens": len(row.prompt_ids),
        "completion_tokens": len(row.output_ids),
        "count_difference": 0,
        "cost_usd": 0.0,
    }


def contradiction(row: LocalResponse, target: Target) -> str | None:
    """A reason code where a row disagrees with itself: its text is not its ids', or its end is not its finish reason's.

    Servers print markers or leave them out, so both sides are compared without them, and without white space at
    the ends.
    """
    stops = [i for i, token in enumerate(row.output_ids) if token == target.markers.stop]
    if stops and stops[0] != len(row.output_ids) - 1:
        return "ids_after_stop"
    if row.finish_reason == "length" and stops:
        return "stop_token_in_cut_output"
    if row.finish_reason in ("stop", "tool_calls") and not stops:
        return "stop_token_missing"
    if row.text is not None:
        vocabulary = target.vocabulary
        shown = vocabulary.decode(row.output_ids).decode("utf-8", "replace")
        if _without_markers(shown, vocabulary) != _without_markers(row.text, vocabulary):
            return "text_differs"
    return None


def _what_is_wrong(row: LocalResponse, vocabulary: Vocabulary, seen: set[str]) -> str | None:
    if row.prompt_id in seen:
        return f"prompt_id {row.prompt_id!r} came before; each must be its own"
    for name, ids in (("prompt_ids", row.prompt_ids), ("output_ids", row.output_ids)):
        if not ids:
            return f"{name} is empty"
        if min(ids) < 0 or max(ids) >= vocabulary.size:
            return f"{name} holds an id outside the vocabulary of {vocabulary.size} ids"
    return None


def _without_markers(text: str, vocabulary: Vocabulary) -> str:
    return _marker_pattern(vocabulary).sub("", text).strip()


@cache
def _marker_pattern(vocabulary: Vocabulary) -> re.Pattern[str]:
    return re.compile("|".join(sorted(map(re.escape, vocabulary.special), key=len, reverse=True)))
