"""A line of a file of exchanges, as `eagle-assets reconstruct` takes them: a request, and what came back for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.tolerant_json import parse_json
from eagle_assets.openrouter.values import as_amount, as_count, as_dict, as_list, as_name

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Arrivals = tuple[tuple[_Count, Annotated[float, msgspec.Meta(ge=0, lt=1e9)]], ...]


class _PlainLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line in which all is as it should be, as in nearly every one."""

    exchange_id: Annotated[str, msgspec.Meta(min_length=1)]
    body: str
    request: msgspec.Raw
    model: str | None = None
    provider: str | None = None
    status: _Count | None = None
    arrivals: _Arrivals = ()


_decode_plain = msgspec.json.Decoder(_PlainLine).decode


def read_exchange_line(line: bytes, order: float = 0.0, place: str | None = None) -> Exchange:
    """One line of a file of exchanges, as `eagle-assets reconstruct` takes them; `order` is its place among others,
    `place` the name of one that has none of its own.

    Raises ValueError with what is wrong. Keys that have no meaning here are kept in `other`.
    """
    plain = _plain_exchange(line, order)
    if plain is not None:
        return plain
    document = parse_json(line)
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return exchange_of(document, order, place)


def _plain_exchange(line: bytes, order: float) -> Exchange | None:
    """What `exchange_of` makes of a plain line, in half the time; None for any other."""
    try:
        plain = _decode_plain(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    request = _request(parse_json(bytes(plain.request)))
    return Exchange(
        exchange_id=plain.exchange_id,
        model=plain.model or as_name(request.get("model")) or "",
        provider=plain.provider,
        status=plain.status,
        request=request,
        body=plain.body.encode(),
        arrivals=plain.arrivals,
        order=order,
    )


def exchange_of(document: dict[str, Any], order: float = 0.0, place: str | None = None) -> Exchange:
    """An exchange from its JSON object; `body` is text or, as `body_base64`, bytes. Where it has no name of its own, it
    is called after `place`, where that is given. Raises ValueError."""
    known = dict(document)
    named = known.pop("exchange_id", None)
    exchange_id = as_name(str(named) if type(named) is int else named) or place
    if exchange_id is None:
        raise ValueError("exchange_id is missing or no text")
    body, encoded = known.pop("body", None), known.pop("body_base64", None)
    status = known.pop("status", None)
    model, provider = known.pop("model", None), known.pop("provider", None)
    request = _request(known.pop("request", None))
    generation = known.pop("generation", None)
    return Exchange(
        exchange_id=exchange_id,
        model=as_name(model) or as_name(request.get("model")) or "",
        provider=as_name(provider),
        status=as_count(int(status) if isinstance(status, str) and status.isdecimal() else status),
        request=request,
        body=_bytes_of_body(body, encoded),
        transport_error=as_name(known.pop("transport_error", None)),
        generation=as_dict(as_dict(generation).get("data")) or as_dict(generation) or None,
        arrivals=_arrivals(known.pop("arrivals", None)),
        order=order,
        other=known,
    )


def _request(value: object) -> dict[str, Any]:
    """The request that is there, as an object or as the text of one; an empty one where there is none."""
    if isinstance(value, str):
        try:
            value = parse_json(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            raise ValueError("request is text, and not that of a JSON object") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("request is no JSON object")
    return value


def _bytes_of_body(body: object, encoded: object) -> bytes:
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(encoded, str):
        return base64.b64decode(encoded, validate=True)
    if isinstance(body, dict):
        try:
            return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        except RecursionError:
            raise ValueError("body is nested too deeply") from None
    if body is None:
        return b""
    raise ValueError("body is no text")


def _arrivals(value: object) -> tuple[tuple[int, float], ...]:
    """The pairs that can be an offset and a time, of a list that can be very long."""
    if not value:
        return ()
    try:
        return msgspec.convert(value, _Arrivals)
    except (msgspec.ValidationError, UnicodeError):
        return tuple(_tolerated(as_list(value)))


def _tolerated(pairs: list[Any]) -> Iterator[tuple[int, float]]:
    for pair in pairs:
        if isinstance(pair, list) and len(pair) == 2:
            offset, seconds = as_count(pair[0]), as_amount(pair[1])
            if offset is not None and seconds is not None:
                yield offset, seconds
