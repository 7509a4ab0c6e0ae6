"""Keeps the key out of everything that is written down, also where a server sends it back."""

from __future__ import annotations

REDACTED = "[redacted key]"
LEAST_SECRET = 12
"""Characters. A shorter key protects nothing, and may be a word of an answer: `none`, `EMPTY`, `token`."""


def redacted(text: str, key: str) -> str:
    """`text` without the key; as it is where that is no secret."""
    return text.replace(key, REDACTED) if len(key) >= LEAST_SECRET else text


class StreamRedactor:
    """Takes the key out of a stream of pieces. A piece's end that may be the start of the key waits for the next."""

    def __init__(self, key: str) -> None:
        self._key = key.encode() if len(key) >= LEAST_SECRET else b""
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        if not self._key:
            return piece
        data = (self._held + piece).replace(self._key, REDACTED.encode())
        held = self._start_of_key_at_end(data)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def rest(self) -> bytes:
        """What still waits, once the stream has ended."""
        held, self._held = self._held, b""
        return held

    def _start_of_key_at_end(self, data: bytes) -> int:
        """Length of the longest end of `data` that the key starts with."""
        start = max(0, len(data) - len(self._key) + 1)
        while (start := data.find(self._key[:1], start)) >= 0:
            if self._key.startswith(data[start:]):
                return len(data) - start
            start += 1
        return 0
