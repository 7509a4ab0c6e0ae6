"""Tool calls as the model would write them: declared tools, arguments that fit their schema and the question."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

COMPACT_ARGUMENTS = 0.15
ESCAPED_UNICODE = 0.1
MOST_CALLS = 4

_QUOTED = re.compile(r'"([^"\n]+)"|“([^”]+)”|«([^»]+)»|「([^」]+)」')
_BLOCK = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.-])-?(?:0|[1-9]\d*)(?:\.\d+)?(?![\w]|[.-]\d)")


@dataclass(frozen=True)
class Call:
    """`id` is the model's own, `functions.NAME:INDEX`; `arguments` its own JSON text."""

    id: str
    arguments: str


@dataclass
class Mentioned:
    """What a question names that can be an argument, each to be used once, in order."""

    blocks: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)

    @classmethod
    def in_text(cls, question: str) -> Mentioned:
        plain = _BLOCK.sub(" ", question)
        texts = [next(filter(None, groups)) for groups in _QUOTED.findall(plain)]
        numbers = [json.loads(number) for number in _NUMBER.findall(_QUOTED.sub(" ", plain))]
        return cls(_BLOCK.findall(question), texts, numbers)


def next_index(messages: Sequence[Mapping[str, Any]]) -> int:
    """The index of the next call: the model goes on from the highest that it sees in the conversation, from 0.

    Where the conversation's beginning was cut away, that is more than the number of calls that are left in it.
    """
    ids = (str(call.get("id")) for message in messages for call in message.get("tool_calls") or ())
    seen = [int(index) for index in (i.rpartition(":")[2] for i in ids) if index.isdecimal() and index.isascii()]
    return max(seen, default=-1) + 1


def calls_for(question: str, tools: Sequence[Mapping[str, Any]], first_index: int, rng: Random) -> tuple[Call, ...]:
    """One call to each tool that the question names, or several to one that takes a single text; without such a
    name the first tool is called if the question holds anything to give it."""
    functions = [tool["function"] for tool in tools]
    mentioned = Mentioned.in_text(question)
    picked = [f for f in functions if _is_named(str(f.get("name")), question)]
    if not picked and (mentioned.texts or mentioned.numbers):
        picked = functions[:1]
    if len(picked) == 1 and _takes_one_text(picked[0]):
        picked *= max(1, min(len(mentioned.texts), MOST_CALLS))
    return tuple(
        Call(f"functions.{function['name']}:{index}", _written(_arguments(function, question, mentioned), rng))
        for index, function in enumerate(picked, start=first_index)
    )


def _is_named(name: str, question: str) -> bool:
    """All words of the name, or the name itself, occur in the question."""
    return all(word in question.lower() for word in re.split(r"[^a-z0-9]+", name.lower()) if word)


def _parameters(function: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = function.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _takes_one_text(function: Mapping[str, Any]) -> bool:
    schemas = (_parameters(function).get("properties") or {}).values()
    return [s.get("type") for s in schemas if "enum" not in s] == ["string"]


def _arguments(function: Mapping[str, Any], question: str, mentioned: Mentioned) -> dict[str, Any]:
    parameters = _parameters(function)
    arguments = _found(parameters, question, mentioned)
    for name in parameters.get("required") or ():
        schema = (parameters.get("properties") or {}).get(name) or {}
        arguments.setdefault(name, _FALLBACKS.get(schema.get("type"), name))
    return arguments


def _found(parameters: Mapping[str, Any], question: str, mentioned: Mentioned) -> dict[str, Any]:
    """The properties for which the question says something."""
    values = {
        name: _value(name, schema, question, mentioned) for name, schema in (parameters.get("properties") or {}).items()
    }
    return {name: value for name, value in values.items() if value is not None}


def _value(name: str, schema: Mapping[str, Any], question: str, mentioned: Mentioned) -> Any:
    """What the question says for this property; None where it says nothing."""
    if "enum" in schema:
        return next((option for option in schema["enum"] if str(option).lower() in question.lower()), None)
    kind = schema.get("type", "string")
    if kind == "string":
        long = name in _LONG_TEXTS and mentioned.blocks
        texts = mentioned.blocks if long else mentioned.texts
        return texts.pop(0) if texts else None
    if kind in ("integer", "number"):
        fits = [n for n in mentioned.numbers if kind == "number" or isinstance(n, int)]
        if fits:
            mentioned.numbers.remove(fits[0])
        return fits[0] if fits else None
    if kind == "array":
        item = schema.get("items") or {}
        values = []
        while (value := _value(name, item, question, mentioned)) is not None and "enum" not in item:
            values.append(value)
        return values or None
    if kind == "object":
        return _found(schema, question, mentioned) or None
    return True if kind == "boolean" and name.replace("_", " ") in question.lower() else None


def _written(arguments: dict[str, Any], rng: Random) -> str:
    separators = (",", ":") if rng.random() < COMPACT_ARGUMENTS else None
    return json.dumps(arguments, ensure_ascii=rng.random() < ESCAPED_UNICODE, separators=separators)


_LONG_TEXTS = ("code", "content", "body", "text", "patch", "query", "pattern")
_FALLBACKS: dict[str | None, Any] = {"integer": 1, "number": 1.5, "array": [], "object": {}, "boolean": False}
