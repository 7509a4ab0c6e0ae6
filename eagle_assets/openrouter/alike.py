"""Events that differ from one that was read before in nothing but the text that they bring.

Nearly all events of a stream are alike, and to read each as JSON takes far longer than to compare bytes. What a reader
makes of one of them it makes of all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile

import msgspec

# Inside a JSON text quotes are escaped, so that no key is found there.
_TEXT = re.compile(rb'("(?:content|reasoning|reasoning_content|text)"\s*:\s*")((?:[^"\\]|\\.)+)')

_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode

_FIRST_AT_ONCE, _MOST_AT_ONCE = 4, 1024  # events


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
        texts: list[str] = []
        at_once = _FIRST_AT_ONCE
        while position < len(events):
            some = events[position : position + at_once]
            found = _texts_of(self._written_in(some))
            texts += found
            if len(found) < len(some):
                break
            position += at_once
            at_once = min(2 * at_once, _MOST_AT_ONCE)
        return texts

    def _written_in(self, events: Sequence[bytes]) -> list[bytes]:
        """The texts of events as they are written there, up to an event that is none of these."""
        pieces, fixed, times, start = self.pieces, self.length, len(self.pieces) - 1, len(self.pieces[0])
        written = [event[start : start + (len(event) - fixed) // times] for event in events]
        made = [text.join(pieces) for text in written]
        if made == events and b"" not in written:
            return written
        of_these = (text if one == event else b"" for one, event, text in zip(made, events, written, strict=True))
        return list(takewhile(bool, of_these))


def _texts_of(written: list[bytes]) -> list[str]:
    """The texts that are written so, up to one that is no text."""
    together = b'","'.join(written)
    # A quote inside a text divides it, so that there are more; a \\ at its end may join it to the next, so that there
    # are fewer.
    if b"\n" not in together and b'\\","' not in together:
        with suppress(ValueError):
            texts = _decode_texts(b'["%b"]' % together)
            if len(texts) == len(written):
                return texts
    texts = []
    for text in written:
        if b"\n" in text:
            break
        try:
            texts.append(_decode_text(b'"%b"' % text) if b"\\" in text or b'"' in text else text.decode())
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
