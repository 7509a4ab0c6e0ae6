"""Answers of the team's own server, which come with their ids: proved, and never encoded again."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.response import Response
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.given_ids import agrees_with_message
from eagle_assets.reconstruction.own.local_forms import STOP_STRING, LocalResponse, local_response, served_response
from eagle_assets.reconstruction.verdict import Verdict
from eagle_assets.serving.served import Situation
from eagle_assets.targets.target import Target
from eagle_assets.targets.vocabulary import Vocabulary

OWN = "local"
"""The provider of what the team's own server answered."""


def raw_row(row: LocalResponse, line: bytes, dataset: str, target: Target) -> dict[str, Any]:
    """A local response as a row of the schema RAW_RESPONSES; `body` is its line as it stands in the file."""
    return {
        "exchange_id": f"{dataset}-{row.prompt_id}",
        "prompt_id": row.prompt_id,
        "dataset": dataset,
        "model": target.name,
        "provider": OWN,
        "outcome": "answered",
        "request": "{}",
        "body": line,
        "arrivals": "[]",
        "other": "{}",
        "attempt": 1,
        "cost_usd": 0.0,
    }


def served_row(row: dict[str, Any], target: Target) -> dict[str, Any]:
    """A row of RAW_RESPONSES for an exchange with the team's own server: what it calls the target is its own affair,
    and it costs nothing."""
    return {**row, "provider": OWN, "model": target.name, "cost_usd": 0.0}


def response_in(raw: dict[str, Any]) -> LocalResponse:
    """What a row of RAW_RESPONSES holds that the team's own server answered, in a file or to our client. Raises
    ValueError where that is no answer with ids."""
    if raw["request"] == "{}":
        return local_response(raw["body"])
    if raw["outcome"] != "answered":
        raise ValueError(raw["reason"])
    return served_response(raw["prompt_id"], raw["request"].encode(), raw["body"])


def sequence_row(raw: dict[str, Any], target: Target) -> dict[str, Any]:
    """A row of RAW_RESPONSES that the team's own server answered as a row of TOKEN_SEQUENCES."""
    try:
        row = response_in(raw)
        if wrong := what_is_wrong(row, target.vocabulary, set()):
            raise ValueError(wrong)
    except ValueError as error:
        return _unusable_row(raw, f"no_ids: {error}" if raw["outcome"] == "answered" else f"no_answer: {error}")
    verdict, reasons = _verdict(row, target)
    compared = row.text is not None or row.message is not None
    return {
        "exchange_id": raw["exchange_id"],
        "prompt_id": row.prompt_id,
        "dataset": raw["dataset"],
        "provider": raw["provider"],
        "model": raw["model"],
        "streamed": False,
        "verdict": verdict,
        "output_ids": row.output_ids,
        "prompt_ids": row.prompt_ids,
        "reasons": reasons,
        "evidence": msgspec.json.encode({"server_ids": True, "text_compared": compared}).decode(),
        "candidates": "[]",
        "finish_reason": row.finish_reason,
        "prompt_tokens": len(row.prompt_ids) if row.prompt_tokens is None else row.prompt_tokens,
        "completion_tokens": _counted(row),
        "count_difference": _counted(row) - len(row.output_ids),
        "cost_usd": 0.0,
    }


def _unusable_row(raw: dict[str, Any], reason: str) -> dict[str, Any]:
    copied = ("exchange_id", "prompt_id", "dataset", "provider", "model", "cost_usd")
    said = {"verdict": "unusable", "reasons": [reason], "evidence": "{}", "candidates": "[]", "streamed": False}
    return {**{name: raw[name] for name in copied}, **said}


def _verdict(row: LocalResponse, target: Target) -> tuple[Verdict, list[str]]:
    if row.finish_reason in ("abort", "error"):
        return "unusable", ["aborted"]
    reason = contradiction(row, target)
    return ("contradicted", [reason]) if reason else ("exact", [])


def _counted(row: LocalResponse) -> int:
    return len(row.output_ids) if row.completion_tokens is None else row.completion_tokens


def contradiction(row: LocalResponse, target: Target) -> str | None:
    """A reason code where a row disagrees with itself: its counts, its end or what it shows are not its ids'.

    Servers print markers or leave them out, so texts are compared without them, and without white space at the ends.
    """
    if _counted(row) != len(row.output_ids):
        return "given_ids_differ_from_count"
    if row.prompt_tokens is not None and row.prompt_tokens != len(row.prompt_ids):
        return "given_prompt_ids_differ_from_count"
    stops = [i for i, token in enumerate(row.output_ids) if token == target.markers.stop]
    if stops and stops[0] != len(row.output_ids) - 1:
        return "ids_after_stop"
    if row.finish_reason in ("length", STOP_STRING) and stops:
        return "stop_token_in_cut_output"
    if row.finish_reason in ("stop", "tool_calls") and not stops:
        return "stop_token_missing"
    told = row.text is None or _shows(row.text, row, target)
    if not told or not (row.message is None or _is_message(row.message, row, target)):
        return "given_ids_differ_from_text"
    return None


def _shows(text: str, row: LocalResponse, target: Target) -> bool:
    vocabulary = target.vocabulary
    made = _without_markers(vocabulary.decode(row.output_ids).decode("utf-8", "replace"), vocabulary)
    shown = _without_markers(text, vocabulary)
    # A server cuts the text, not the ids, where a stop string begins.
    return made.startswith(shown) if row.finish_reason == STOP_STRING else made == shown


def _is_message(message: Response, row: LocalResponse, target: Target) -> bool:
    """Whether the ids say what the message shows, be it parsed or all in one text."""
    thinking = row.prompt_ids[-1] == target.markers.think_begin
    situation = Situation(target, thinking, row.tools, streamed=message.streamed)
    exchange = Exchange(row.prompt_id, target.name, None, 200, {}, b"")
    if agrees_with_message(row.output_ids, Reading(exchange, message, situation, ())):
        return True
    in_one = (message.reasoning or "") + (message.content or "")
    return not message.tool_calls and _shows(in_one, row, target)


def what_is_wrong(row: LocalResponse, vocabulary: Vocabulary, seen: set[str]) -> str | None:
    """Why a row cannot be used, in words; None where it can. `seen` are the prompts of the rows before it."""
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
