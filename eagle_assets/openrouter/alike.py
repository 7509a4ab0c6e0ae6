"""Events that differ from one that was read before in nothing but the text that they bring.

Nearly all events of a stream are alike, and to read each as JSON takes far longer than to compare bytes. What a reader
makes of one of them it makes of all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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

    def texts_from(self, events: Sequence[bytes], position: int = 0) -> list[str]:
        """The texts of the events from a position on, up to one that is none of these."""
        pieces, fixed, times, start = self.pieces, self.length, len(self.pieces) - 1, len(self.pieces[0])
        texts = []
        for number in range(position, len(events)):
            event = events[number]
            size, left_over = divmod(len(event) - fixed, times)
            written = event[start : start + size]
            if size <= 0 or left_over or written.join(pieces) != event or b"\n" in written:
                break
            try:
                quoted = b"\\" in written or b'"' in written
                texts.append(_decode_text(b'"%b"' % written) if quoted else written.decode())
            except ValueError:
                break
        return texts


def alike(event: bytes) -> Alike | None:
    """The events that are like this one; None for one that brings no text, or several."""
    parts = _TEXT.split(event)
    if len(set(parts[2::3])) != 1:
        return None
    befores, keys = parts[0::3], parts[1::3]
    pieces = (*(before + key for before, key in zip(befores, keys, strict=False)), befores[-1])
    return Alike(pieces, sum(map(len, pieces)))
