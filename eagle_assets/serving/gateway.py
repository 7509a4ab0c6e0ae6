"""What gateways in front of a server do to its whole answers. Texts of streams pass: none is known to rewrite frames.

Seen at OpenRouter's providers (FACTS 2 and 4), whose gateways are not public.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace

from eagle_assets.serving.served import Message, Served, Situation, ToolCall


def trims(served: Served, situation: Situation) -> Served:
    """White space at both ends of content and reasoning is taken off."""
    return _with_message(served, _with_texts(served.message, str.strip))


def normalises(served: Served, situation: Situation) -> Served:
    """Texts, arguments included, are brought into Unicode's form NFC."""

    def nfc(text: str) -> str:
        return unicodedata.normalize("NFC", text)

    calls = tuple(ToolCall(call.id, nfc(call.name), nfc(call.arguments)) for call in served.message.tool_calls)
    return _with_message(served, replace(_with_texts(served.message, nfc), tool_calls=calls))


def rewrites_calls(served: Served, situation: Situation) -> Served:
    """Ids of calls are replaced by ones of the gateway's own, here a hash in place of a random number, and arguments
    that parse as JSON are written anew, compactly."""
    message = served.message
    calls = tuple(
        ToolCall(_own_id(call.id, position), call.name, _compact(call.arguments))
        for position, call in enumerate(message.tool_calls)
    )
    return _with_message(served, replace(message, tool_calls=calls))


def leaves_stop_uncounted(served: Served, situation: Situation) -> Served:
    """`completion_tokens` leaves out the stop token, which is generated unless the answer is cut."""
    return replace(served, completion_tokens=served.completion_tokens - (served.finish_reason != "length"))


def _with_message(served: Served, message: Message) -> Served:
    return served if served.frames else replace(served, message=message)


def _with_texts(message: Message, change: Callable[[str], str]) -> Message:
    return replace(
        message,
        reasoning=change(message.reasoning or "") or None,
        content=change(message.content or "") or None,
    )


def _own_id(id: str, position: int) -> str:
    return "call_" + hashlib.sha256(f"{id}/{position}".encode()).hexdigest()[:24]


def _compact(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments
