"""JSON reads the same whoever reads it, and is never nested too deeply to be worked with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle_assets.openrouter.tolerant_json import MOST_NESTED, parse_json


def nested(levels: int) -> bytes:
    return b'{"a":[' * (levels // 2) + b"0" + b"]}" * (levels // 2)


def from_deep_inside(frames: int, ask: Callable[[], Any]) -> Any:
    return from_deep_inside(frames - 1, ask) if frames else ask()


@pytest.mark.parametrize("levels", [2, MOST_NESTED - 2, MOST_NESTED, MOST_NESTED + 2, 940, 980, 5000])
def test_what_is_nested_reads_the_same_however_deep_its_reader_stands(levels: int) -> None:
    data = nested(levels)

    def read() -> str:
        try:
            parse_json(data)
        except ValueError as error:
            return str(error)
        return "read"

    found = {from_deep_inside(frames, read) for frames in (0, 10, 50, 200)}

    assert found == {"read" if levels <= MOST_NESTED else "nested too deeply"}


def test_brackets_beside_one_another_are_not_nested() -> None:
    value = parse_json(f"[{','.join(['[{}]'] * 1000)}]".encode())

    assert value == [[{}]] * 1000


def test_brackets_in_a_text_are_not_nested() -> None:
    assert parse_json(b'{"a": "' + b"[{" * 1000 + b'"}') == {"a": "[{" * 1000}


def test_control_characters_and_damaged_bytes_are_let_through() -> None:
    assert parse_json(b'{"a": "x\ny"}') == {"a": "x\ny"}
    assert parse_json(b'{"a": "\xff"}') == {"a": "\udcff"}
    assert parse_json(b'{"a": "\\ud800"}') == {"a": "\ud800"}
