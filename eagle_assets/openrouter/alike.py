"""Events that differ from one that was read before in nothing but the text that they bring.

Nearly all events of a stream are alike, and to read each as JSON takes far longer than to compare bytes. What a reader
makes of one of them it makes of all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

# Inside a JSON text quotes are escaped, so that no key is found there.
_TEXT = re.compile(rb'("(?:content|reasoning|reasoning_content|text)"\s*:\s*")((?:[^"\\]|\\.)+)')

_decode_text = msgspec.json.Decoder(str).decode


@dataclass(frozen=True, slots=True)
class Alike:
    """All events that are these pieces with one text, written as JSON writes it, between them all; `length` is that
    of the pieces together, in bytes."""

    pieces: tuple[bytes, ...]
    length: int

    def with_text(self, written: bytes) -> bytes:
        return written.join(self.pieces)

    def text_of(self, event: bytes) -> str | None:
        """The text of an event that is one of these; None for any other."""
        size, left_over = divmod(len(event) - self.length, len(self.pieces) - 1)
        if size <= 0 or left_over:
            return None
        written = event[len(self.pieces[0]) :][:size]
        if written.join(self.pieces) != event or b"\n" in written:
            return None
        try:
            return _decode_text(b'"%b"' % written) if b"\\" in written or b'"' in written else written.decode()
        except ValueError:
            return None


def alike(event: bytes) -> Alike | None:
    """The events that are like this one; None for one that brings no text, or several."""
    parts = _TEXT.split(event)
    if len(set(parts[2::3])) != 1:
        return None
    befores, keys = parts[0::3], parts[1::3]
    pieces = (*(before + key for before, key in zip(befores, keys, strict=False)), befores[-1])
    return Alike(pieces, sum(map(len, pieces)))
