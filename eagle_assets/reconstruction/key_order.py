"""In which order the arguments of calls have their keys: who reads them into a map that has none, as Go does, and
writes them anew, sorts them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from eagle_assets.openrouter.response import ReceivedCall
from eagle_assets.serving.coercion import properties_of

KeyOrder = Literal["unsorted", "against_schema", "sorted"]
"""Some keys are not sorted; or all are, where the schema of a tool has another order, or not."""

_BY_WEIGHT: tuple[KeyOrder, ...] = ("unsorted", "against_schema", "sorted")


def key_order(calls: Iterable[ReceivedCall], tools: Sequence[Mapping[str, Any]]) -> KeyOrder | None:
    """The order of the keys of all calls of an answer; None where no object has several."""
    found = {order for call in calls for order in _orders(call, tools)}
    return next((order for order in _BY_WEIGHT if order in found), None)


def _orders(call: ReceivedCall, tools: Sequence[Mapping[str, Any]]) -> Iterator[KeyOrder]:
    try:
        arguments = json.loads(call.arguments or "")
    except (ValueError, RecursionError):
        return
    in_schema = list(properties_of(call.name or "", tools) or ())
    for is_inner, keys in enumerate(_keys_of_objects(arguments)):
        if keys != sorted(keys):
            yield "unsorted"
        elif len(keys) > 1:
            against = not is_inner and set(keys) <= set(in_schema) and keys != [k for k in in_schema if k in keys]
            yield "against_schema" if against else "sorted"


def _keys_of_objects(value: object) -> Iterator[list[str]]:
    """The keys of every object in a value, those of itself first."""
    level = [value]
    while level:
        objects = [inner for inner in level if isinstance(inner, dict)]
        yield from map(list, objects)
        lists = [inner for inner in level if isinstance(inner, list)]
        level = [inner for outer in (*(o.values() for o in objects), *lists) for inner in outer]
