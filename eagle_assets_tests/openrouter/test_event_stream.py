"""Event streams: what the standard says of lines, comments, fields and line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_assets.openrouter.event_stream import event_data, looks_like_event_stream


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"", []),
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),
        (b"data: a", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\ndata: a\n\n", [b"", b"a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": comment\n\ndata: a\n\n", [b"a"]),
        (b': data: {"choices": []}\n\ndata: a\n\n', [b"a"]),
        (b"data: a\n: in between\ndata: b\n\n", [b"a\nb"]),
        (b"event: message\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"event: ping\n\ndata: a\n\n", [b"a"]),
        (b"database: a\n\n", []),
        (b" data: a\n\n", []),
        (b"\n\n\n\ndata: a\n\n\n\n", [b"a"]),
    ],
)
def test_data_of_events(body: bytes, data: list[bytes]) -> None:
    assert list(event_data(body)) == data


@pytest.mark.parametrize(
    "body", [b"data: {}", b": hello", b"\n  \n: hello", b"event: x\ndata: {}", b"id: 1", b"retry: 9"]
)
def test_event_streams_are_told_by_their_first_line(body: bytes) -> None:
    assert looks_like_event_stream(body)


@pytest.mark.parametrize("body", [b"", b"{}", b'\n   \n{"a": "data: b"}', b"<html>", b"dat", b"[1]"])
def test_other_bodies_are_no_event_streams(body: bytes) -> None:
    assert not looks_like_event_stream(body)


lines_of_data = st.lists(st.binary(max_size=8).filter(lambda data: not {10, 13} & set(data)), min_size=1, max_size=3)
line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(
    events=st.lists(lines_of_data, max_size=6),
    end=line_ends,
    blank=st.booleans(),
    before=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    comment=st.booleans(),
)
def test_what_was_framed_comes_back(
    events: list[list[bytes]], end: bytes, blank: bool, before: bytes, comment: bool
) -> None:
    body = before
    for event in events:
        body += (b": data: no" + end) * comment
        for line in event:
            # A blank after the colon belongs to the frame, so data that begins with one needs it.
            body += b"data:" + b" " * (blank or line.startswith(b" ")) + line + end
        body += end
    assert list(event_data(body)) == [b"\n".join(event) for event in events]


@given(st.binary())
def test_any_bytes_have_events(body: bytes) -> None:
    assert all(isinstance(data, bytes) for data in event_data(body))
    assert isinstance(looks_like_event_stream(body), bool)
