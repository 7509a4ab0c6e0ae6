"""How a server cuts a text into the frames of a stream: at decoding steps, holding back what may yet change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from eagle_assets.serving.served import Field, Frame

Strip = Literal["none", "left", "right", "both"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One field's text as the texts of its tokens, with the blanks that the server puts round it.

    A token that ends inside a character has the text "": its character comes with the token that completes it.
    """

    field: Field
    tokens: tuple[str, ...]
    before: str = ""
    after: str = ""
    strip: Strip = "none"
    call: int | None = None
    id: str | None = None
    name: str | None = None

    def surrounded(self, before: bool, after: bool) -> Piece:
        return replace(self, before=" " * before, after=" " * after)

    def without_text(self) -> Piece:
        return replace(self, tokens=(), before="", after="")

    @property
    def text(self) -> str:
        """The field's text as the server sends it."""
        text = self.before + "".join(self.tokens) + self.after
        if self.strip in ("left", "both"):
            text = text.lstrip()
        if self.strip in ("right", "both"):
            text = text.rstrip()
        return text


def cut_into_frames(pieces: Sequence[Piece], steps: Sequence[int] | None) -> Iterator[Frame]:
    """Frames of a stream; `steps` are the tokens of each decoding step, over the texts' own tokens, default one."""
    sizes = iter(steps or ())
    left = next(sizes, 1)
    for piece in pieces:
        if piece.call is not None:
            yield Frame("tool_calls", "", piece.call, piece.id, piece.name)
        sent, seen = 0, piece.before
        for token in piece.tokens:
            seen += token
            left -= 1
            if left:
                continue
            left = next(sizes, 1)
            ready = _ready(piece, seen)
            if len(ready) > sent:
                yield Frame(piece.field, ready[sent:], piece.call)
                sent = len(ready)
        if len(piece.text) > sent:
            yield Frame(piece.field, piece.text[sent:], piece.call)


def _ready(piece: Piece, seen: str) -> str:
    """The part of `seen` that the server may send: white space that it may have to strip is held back."""
    if piece.strip in ("left", "both"):
        seen = seen.lstrip()
    return seen.rstrip() if piece.strip in ("right", "both") else seen
