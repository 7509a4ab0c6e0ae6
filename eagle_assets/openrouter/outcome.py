"""What of an answer decides what to do next, read as quickly as can be: a stream that ended well, from its end."""

from __future__ import annotations

from dataclasses import dataclass

from eagle_assets.openrouter.event_stream import looks_like_event_stream
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.tolerant_json import parse_json
from eagle_assets.openrouter.values import as_dict, as_list, as_text
from eagle_assets.openrouter.wire import read_response

_END = b"data: [DONE]\n\n"
_FRAMES_AT_END = 4  # the usage frame, one that finishes, and some to spare


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What an error body says besides its code: the provider to blame, and whether the prompt itself was flagged."""

    provider: str | None = None
    moderated: bool = False


def read_outcome(exchange: Exchange) -> Response:
    """As `read_response` in `error`, `error_code`, `complete`, `response_id`, `model`, `provider` and `usage`.

    Of an answer that came whole and was paid for, the texts are not read: that takes most of the time.
    """
    return _whole_stream(exchange) or read_response(exchange)


def error_details(body: bytes) -> ErrorDetails:
    """The details of the error in a body that is JSON; empty ones where it is none."""
    try:
        error = as_dict(as_dict(parse_json(body.strip())).get("error"))
    except ValueError:
        return ErrorDetails()
    metadata = as_dict(error.get("metadata"))
    flagged = bool(as_list(metadata.get("reasons"))) or "flagged_input" in metadata
    return ErrorDetails(as_text(metadata.get("provider_name")), flagged)


def _whole_stream(exchange: Exchange) -> Response | None:
    body = exchange.body
    if (
        exchange.status != 200
        or exchange.transport_error is not None
        or not body.endswith(_END)
        or b'"error"' in body
        or b"\r" in body
        or not looks_like_event_stream(body)
    ):
        return None
    found: dict[str, object] = {}
    end = len(body) - len(_END)
    for _ in range(_FRAMES_AT_END):
        if body[end - 2 : end] != b"\n\n":
            return None
        start = body.rfind(b"\n\n", 0, end - 2) + 2
        frame = body[start if start > 1 else 0 : end - 2]
        if not frame.startswith(b"data: ") or b"\n" in frame:
            return None
        try:
            document = parse_json(frame[6:])
        except ValueError:
            return None
        if not isinstance(document, dict):
            return None
        for name, kind in (("id", str), ("model", str), ("provider", str), ("usage", dict)):
            if isinstance(value := document.get(name), kind) and (value or kind is dict):
                found.setdefault(name, value)
        if len(found) == 4:
            response = Response(streamed=True, complete=True)
            response.response_id, response.model = as_text(found["id"]), as_text(found["model"])
            response.provider, response.usage = as_text(found["provider"]), as_dict(found["usage"])
            return response if response.cost_usd else None
        end = start
    return None
