"""Event streams as the WHATWG HTML standard defines them (section "Server-sent events"), from raw bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r")


def event_data(body: bytes) -> Iterator[bytes]:
    """The data of each event, in order: comments skipped whole, other fields ignored, data lines joined by \\n.

    A last event without its closing blank line is given too: whether it is whole is for its reader to see.
    """
    for part in parts(body):
        yield from data_of(part)


def parts(body: bytes) -> list[bytes]:
    """The stream cut where `data_of` can begin anew: after blank lines; uncut where lines may end in a \\r."""
    body = body.removeprefix(b"\xef\xbb\xbf")
    return body.split(b"\n\n") if b"\r" not in body else [body]


def data_of(part: bytes) -> Iterator[bytes]:
    """The data of each event of a part of a stream."""
    data: list[bytes] = []
    for line in _LINE_END.split(part):
        if not line:
            if data:
                yield b"\n".join(data)
                data = []
        elif line.startswith(b"data:"):
            data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            data.append(b"")
    if data:
        yield b"\n".join(data)


def looks_like_event_stream(body: bytes) -> bool:
    """Whether the first line that is not blank is an event stream's: a comment or one of its four fields."""
    start = body.lstrip()[:6]
    return start.startswith((b":", b"data:", b"event:", b"id:", b"retry:"))
