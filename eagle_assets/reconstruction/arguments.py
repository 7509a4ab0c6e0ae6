"""Arguments that a server wrote anew: the spellings that the model may have used instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from eagle_assets.serving.output import Output


def is_compact(arguments: str) -> bool:
    """Whether these arguments could be what a server wrote that parses and dumps them compactly."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) == arguments


def with_python_spacing(output: Output[str]) -> Output[str] | None:
    """The output with every call's arguments spaced as Python's `json.dumps` does, the model's usual style.

    None where there is no call, or one whose arguments are not compact JSON, so that no server wrote them anew.
    """
    if not output.calls or not all(call.arguments is not None and is_compact(call.arguments) for call in output.calls):
        return None
    calls = tuple(
        replace(call, arguments=json.dumps(json.loads(call.arguments or ""), ensure_ascii=False))
        for call in output.calls
    )
    return replace(output, calls=calls)


_SPELLINGS: tuple[tuple[str, Callable[[object], str]], ...] = (
    ("args_reserialised", partial(json.dumps, ensure_ascii=False)),
    ("args_reserialised", partial(json.dumps, ensure_ascii=False, separators=(",", ":"))),
    ("args_escaped", json.dumps),
    ("args_escaped", partial(json.dumps, separators=(",", ":"))),
)


def other_spellings(output: Output[str]) -> Iterator[tuple[str, Output[str]]]:
    """Outputs whose arguments say the same in other words, each with a code for what that supposes."""
    for code, spell in _SPELLINGS:
        changed = tuple(replace(call, arguments=_respelled(call.arguments, spell)) for call in output.calls)
        if changed != output.calls:
            yield code, replace(output, calls=changed)
    halves = tuple(replace(call, arguments=_single_copy(call.arguments)) for call in output.calls)
    if halves != output.calls:
        yield "args_doubled", replace(output, calls=halves)


def _respelled(arguments: str | None, spell: Callable[[object], str]) -> str | None:
    try:
        return spell(json.loads(arguments or ""))
    except (ValueError, RecursionError):
        return arguments


def _single_copy(arguments: str | None) -> str | None:
    half = len(arguments or "") // 2
    if arguments and arguments[:half] == arguments[half:] and half:
        return arguments[:half]
    return arguments
