"""Arguments before a server made their values agree with the tool's schema: the spellings that it rewrites so.

What a model writes beside the schema is one mistake made once or throughout: a number as a float or as text, text
without quotes, a list as text. It shows where the model had written compactly, since a server writes anew with Python's
spacing: the count is far below that of the arguments as sent. A mistake alone changes it by a token or two, which
anything may have done, so that it is left aside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eagle_assets.serving.coercion import coerced_to_schema

_MOST_VALUES = 64

_Path = tuple[str | int, ...]


def spellings_before_coercion(arguments: str, name: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """The compact arguments that a call of the tool `name` may have had, for which a server that coerces sends these;
    none where it can have changed nothing."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    if not isinstance(values, dict) or json.dumps(values, ensure_ascii=False) != arguments:
        return []  # what is written anew has Python's spacing
    mistakes = [(path, kind, literal) for path, value in _values(values, ()) for kind, literal in _otherwise(value)]
    if len(mistakes) > _MOST_VALUES:
        return []
    alone = [{path: literal} for path, _, literal in mistakes]
    throughout = [
        {path: literal for path, other, literal in mistakes if other == kind} for kind in {k for _, k, _ in mistakes}
    ]
    found = dict.fromkeys(_compact(values, (), otherwise) for otherwise in (*alone, *throughout))
    return [spelt for spelt in found if coerced_to_schema(spelt, name, tools) == arguments]


def _values(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    """Every value inside this one, with the keys that lead to it."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key), member
        yield from _values(member, (*path, key))


def _otherwise(value: Any) -> Iterator[tuple[str, str]]:
    """What a model may have written for a value, and the kind of mistake that it is."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        if _is_value(value):
            yield "without quotes", value
        return
    if isinstance(value, int) and not isinstance(value, bool):
        yield "as a float", f"{text}.0"
    if isinstance(value, bool):
        yield "as Python's word", f'"{value}"'
    yield "as text", json.dumps(text, ensure_ascii=False)


def _is_value(text: str) -> bool:
    """Whether text is a number or a word of JSON, as that is usually written."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return not isinstance(value, (str, list, dict)) and json.dumps(value) == text


def _compact(value: Any, path: _Path, otherwise: Mapping[_Path, str]) -> str:
    if path in otherwise:
        return otherwise[path]
    if isinstance(value, dict):
        members = (
            f"{json.dumps(key, ensure_ascii=False)}:{_compact(member, (*path, key), otherwise)}"
            for key, member in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_compact(member, (*path, i), otherwise) for i, member in enumerate(value)) + "]"
    return json.dumps(value, ensure_ascii=False)
