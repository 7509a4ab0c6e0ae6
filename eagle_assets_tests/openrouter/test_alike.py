"""Events that are alike are read at once; what is read of a stream is the same as if each were read by itself."""

from __future__ import annotations

import json
from random import Random

import pytest

from eagle_assets.openrouter import wire
from eagle_assets.openrouter.alike import alike
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.files.exchanges import exchange_of_line
from eagle_assets_tests.reconstruction.mutations import damaged, own_cases


def event(text: str, **more: object) -> bytes:
    delta = {"content": "", "reasoning": text, "reasoning_details": [{"text": text}]}
    return b"data: " + json.dumps({"id": "x", **more, "choices": [{"delta": delta}]}, ensure_ascii=False).encode()


@pytest.mark.parametrize("text", ["b", " 世界", 'a "quoted" \\ word', "\n", "\u2028", "😀", "tab\t", "\\n"])
def test_events_that_differ_in_their_text_are_alike(text: str) -> None:
    pattern = alike(event("a"))
    assert pattern is not None
    assert pattern.texts_from([event(text), event("b"), b"", event("c")]) == [text, "b"]


@pytest.mark.parametrize(
    "other",
    [
        event(""),
        event("a", more=1),
        event("a").replace(b'"text": "a"', b'"text": "b"'),
        event("a")[:-1],
        event("a").replace(b'"a"', b'"a", "b"'),
        event("a").replace(b'"a"', b'"\n"'),
        event("a").replace(b'"a"', b'"\xff"'),
        event("a").replace(b'"a"', b'"\\ud800"'),
        b"",
    ],
)
def test_other_events_are_not(other: bytes) -> None:
    pattern = alike(event("a"))
    assert pattern is not None
    assert pattern.texts_from([other, event("b")]) == []


def test_texts_that_only_together_are_texts_are_none() -> None:
    pattern = alike(event("a"))
    assert pattern is not None
    open_end, rest = (event("a").replace(b'"a"', b'"%b"' % written) for written in (b"x\\", b',"z'))
    assert json.loads(b'["x\\","' + b',"z"]') == ['x",', "z"]
    assert pattern.texts_from([open_end, rest]) == []
    assert pattern.texts_from([event("b"), event("c\\"), event('d"'), open_end, rest]) == ["b", "c\\", 'd"']


def test_an_event_with_two_texts_is_like_no_other() -> None:
    assert alike(b'data: {"choices": [{"delta": {"content": "a", "reasoning": "b"}}]}') is None
    assert alike(b": OPENROUTER PROCESSING") is None


def test_a_stream_reads_as_if_each_event_were_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in own_cases(of_each=8) if case.document["request"]["stream"]]
    lines = [json.dumps(case.document).encode() for case in cases]
    rng = Random(5)
    lines += [damaged(rng.choice(cases), rng)[0] for _ in range(150)]
    for line in lines:
        exchange = exchange_of_line(line, "file:1")
        read = read_response(exchange)
        with monkeypatch.context() as patch:
            patch.setattr(wire, "alike", lambda event: None)
            assert read_response(exchange) == read
    assert sum(len(read_response(exchange_of_line(line, "")).deltas) for line in lines) > 5_000
