"""JSON as servers send it: what is a little wrong with it is let through, and what it reads as never depends on who
reads it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

MOST_NESTED = 400
"""Levels of lists and objects in one another up to which JSON is read. Python gives up where its stack ends, which is
sooner for a caller who stands deep in it: a text nested nearly so far would be read once and not the next time."""

_NESTING = (dict, list)

_decode = msgspec.json.Decoder().decode


def parse_json(data: bytes) -> Any:
    """The value that a text holds; control characters and lone surrogates inside strings are let through.

    Raises ValueError for what is no JSON, or nested deeper than MOST_NESTED.
    """
    try:
        value = _parsed(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if len(data) > 2 * MOST_NESTED and _is_nested_deeper(value, MOST_NESTED):
        raise ValueError("nested too deeply")
    return value


def _parsed(data: bytes) -> Any:
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(data.decode("utf-8", "surrogateescape"), strict=False)


def _is_nested_deeper(value: object, levels: int) -> bool:
    level: list[Any] = [value] if type(value) in _NESTING else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in _NESTING
        ]
        if not level:
            return False
    return True
