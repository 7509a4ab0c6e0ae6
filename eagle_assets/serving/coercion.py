"""Arguments rewritten to agree with a tool's schema.

Source: vllm 0.33, parser/engine/parser_engine.py (_fix_arg_types, _coerce_value), tool_parsers/utils.py
(coerce_to_schema_type, extract_types_from_schema).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_ALIASES = {
    "string": ("str", "text", "varchar", "char", "enum"),
    "integer": ("int", "int32", "int64", "uint", "uint32", "uint64", "long", "short", "unsigned"),
    "number": ("float", "float32", "float64", "double"),
    "boolean": ("bool",),
    "object": ("dict",),
    "array": ("arr", "list", "sequence"),
}
_CANONICAL = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}
_JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}

Converted = tuple[bool, Any]
_NO: Converted = (False, None)


def coerced_to_schema(arguments: str, name: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """`arguments` of a call of the tool `name`: as they are where every value has a type that the schema allows, else
    with Python's default spacing, non-ASCII characters kept, keys in their order, the last of equal keys."""
    properties = properties_of(name, tools)
    if not properties:
        return arguments
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(values, dict) or not _coerce_members(values, properties):
        return arguments
    return json.dumps(values, ensure_ascii=False)


def properties_of(name: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The schemas of the arguments of the tool `name`, by their names and in the order of its own schema; None where
    there is no such tool, or it has none."""
    return next((_properties(tool) for tool in tools if _function(tool).get("name") == name), None)


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    return function if isinstance(function, dict) else {}


def _properties(tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
    parameters = _function(tool).get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return properties if isinstance(properties, dict) else None


def _coerce_members(values: dict[str, Any], properties: Mapping[str, Any]) -> bool:
    changed = False
    for key, value in values.items():
        schema = properties.get(key)
        if isinstance(schema, dict):
            values[key], this = _coerce(value, schema)
            changed |= this
    return changed


def _coerce(value: Any, schema: Mapping[str, Any]) -> tuple[Any, bool]:
    """The value, changed in place if it is a container, and whether anything changed."""
    if isinstance(value, dict):
        nested = schema.get("properties")
        return value, isinstance(nested, dict) and _coerce_members(value, nested)
    if isinstance(value, list):
        items, changed = schema.get("items"), False
        if isinstance(items, dict):
            for i, item in enumerate(value):
                value[i], this = _coerce(item, items)
                changed |= this
        return value, changed
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    coerced = _from_text(text, set(_types(schema)))
    changed = type(coerced) is not type(value) or coerced != value
    return (coerced, True) if changed else (value, False)


def _types(schema: Any) -> Iterable[str]:
    """All types that a schema names: by `type`, by the values of `enum`, in `anyOf`, `oneOf`, `allOf`."""
    if not isinstance(schema, dict):
        return {"string"}
    named = schema.get("type")
    types = {name for name in (named if isinstance(named, list) else [named]) if isinstance(name, str)}
    enum = schema.get("enum")
    for value in enum if isinstance(enum, list) else ():
        types.add(_JSON_TYPES[type(value)])
    for key in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        for choice in choices if isinstance(choices, list) else ():
            types.update(_types(choice))
    return types or {"string"}


def _from_text(text: str, types: set[str]) -> Any:
    """The first reading of `text` that the types allow, tried from null to string; as JSON if they allow none."""
    allowed = {_CANONICAL.get(name.strip().lower(), name.strip().lower()) for name in types}
    if "null" in allowed and text.lower() == "null":
        return None
    for name, read in (("integer", _integer), ("number", _number), ("boolean", _boolean)):
        if name in allowed:
            done, value = read(text)
            if done:
                return value
    if "object" in allowed or "array" in allowed:
        done, value = _json(text)
        if done:
            return value
    if "string" in allowed:
        return text
    done, value = _json(text)
    return value if done else text


def _integer(text: str) -> Converted:
    try:
        return True, int(text)
    except ValueError:
        return _NO


def _number(text: str) -> Converted:
    done, value = _integer(text)
    if done:
        return True, value
    try:
        value = float(text)
    except ValueError:
        return _NO
    if not math.isfinite(value):
        return _NO
    return True, int(value) if value == int(value) else value


def _boolean(text: str) -> Converted:
    word = text.lower().strip()
    return word in ("true", "1", "false", "0"), word in ("true", "1")


def _json(text: str) -> Converted:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _NO
    return _is_finite(value), value


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
