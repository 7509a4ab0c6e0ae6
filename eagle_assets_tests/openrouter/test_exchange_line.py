"""A plain line is read in one go, and says the same as any other line that holds the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eagle_assets.openrouter import exchange_line
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of, read_exchange_line
from eagle_assets.openrouter.tolerant_json import parse_json

ODD: Any = st.sampled_from(
    [None, "", "x", 0, -1, 200, 200.0, "200", 1.5, 2**31, True, [], {}, [[0, 0.5]], "\ud800", "é"]
)
PAIRS = st.lists(st.tuples(st.integers(0, 9), st.floats(0, 9) | st.integers(0, 9)))
REQUESTS = st.fixed_dictionaries({"model": st.text()}) | st.sampled_from(['{"model": "m"}', "[]", "no"])
VALUES = {
    "exchange_id": st.text() | ODD,
    "model": st.text() | ODD,
    "provider": st.text() | ODD,
    "status": st.integers(100, 599) | ODD,
    "request": REQUESTS | ODD,
    "body": st.text() | ODD,
    "arrivals": PAIRS | ODD,
}


def said(line: bytes, read: Any) -> Exchange | str:
    try:
        return read(line)  # type: ignore[no-any-return]
    except ValueError as error:
        return str(error)


@given(st.fixed_dictionaries({}, optional={**VALUES, "more": ODD}))
@example({"exchange_id": "x", "body": "b", "request": {"a": [[[]]] * 500}})
@example({"exchange_id": "x", "body": "b", "request": {}, "arrivals": [[0, 1e9]]})
@example({"exchange_id": "x", "body": "b", "request": {}, "arrivals": [[0.5, 1]]})
def test_a_line_says_what_its_object_says(document: dict[str, Any]) -> None:
    line = json.dumps(document).encode()
    assert said(line, read_exchange_line) == said(line, lambda line: exchange_of(parse_json(line)))


@pytest.mark.parametrize("levels", [399, 400, 401, 5_000])
def test_how_deeply_a_request_may_be_nested_is_the_same(levels: int) -> None:
    request = b'{"a": ' + b"[" * levels + b"]" * levels + b"}"
    line = b'{"exchange_id": "x", "body": "", "request": %b}' % request
    if levels < 400:
        assert read_exchange_line(line).request == parse_json(request)
    else:
        with pytest.raises(ValueError, match="nested too deeply"):
            read_exchange_line(line)


def test_a_line_as_it_should_be_is_plain() -> None:
    line = {"exchange_id": "x", "model": "m", "provider": "P", "status": 200, "request": {"model": "n"}, "body": "é"}
    plain = exchange_line._plain_exchange(json.dumps({**line, "arrivals": [[0, 1.5]]}).encode(), 7)
    assert plain == Exchange("x", "m", "P", 200, {"model": "n"}, "é".encode(), arrivals=((0, 1.5),), order=7)
    assert exchange_line._plain_exchange(json.dumps({**line, "more": 1}).encode(), 7) is None


@pytest.mark.parametrize(
    ("name", "called"), [('"17"', "17"), ("17", "17"), ("null", "f:3"), ("true", "f:3"), ("1.5", "f:3")]
)
def test_a_number_is_a_name_too_and_what_has_none_is_called_after_its_place(name: str, called: str) -> None:
    line = b'{"exchange_id": %b, "body": "", "request": {}}' % name.encode()
    assert read_exchange_line(line, place="f:3").exchange_id == called
