"""What the frames of a stream prove: where one decoding step ended and the next began.

A delta is evidence, not a token. A server shows at most one delta a step, ends it where a character is whole, and
holds back what may become a marker (FACTS 4). So a step that made one token ended at its delta's end, or
somewhere inside what the delta leaves open: in the first bytes of the next character, or in a held-back `<` or `[`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import methodcaller

import numpy as np
import numpy.typing as npt

from eagle_assets.serving.output import Ids
from eagle_assets.targets.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class FieldFrames:
    """The deltas of one text, as bytes, after the convention's blanks were taken out; none is empty.

    `is_json`: the text is a call's arguments, whose closing braces a server holds back until the call ends.
    """

    deltas: tuple[bytes, ...]
    is_json: bool = False

    @property
    def text(self) -> bytes:
        return b"".join(self.deltas)


def field_frames(deltas: Sequence[str], shown: str, inverted: str, is_json: bool = False) -> FieldFrames | None:
    """The frames of a text whose server's blanks were taken out; None where the deltas are not this text's.

    `shown` is the text as received, `inverted` the same without the blanks.
    """
    start = shown.find(inverted)
    if "".join(deltas) != shown or start < 0:
        return None
    end = start + len(inverted)
    if inverted == shown:
        return FieldFrames(tuple(map(_bytes_of, filter(None, deltas))), is_json)
    pieces = []
    position = 0
    for text in deltas:
        piece = text[max(0, start - position) : max(0, end - position)]
        position += len(text)
        if piece:
            pieces.append(_bytes_of(piece))
    return FieldFrames(tuple(pieces), is_json)


_bytes_of = methodcaller("encode", "utf-8", "surrogatepass")


class Holding:
    """What a server may have held back while it made these deltas."""

    def __init__(self, frames: FieldFrames, vocabulary: Vocabulary) -> None:
        self.text = frames.text
        self._vocabulary = vocabulary
        self._is_json = frames.is_json
        # A parser that strips holds white space back, so that no delta of its ends in any.
        self._holds_white = not any(delta[-1:].isspace() for delta in frames.deltas)

    def ends_beyond(self, end: int, next_end: int) -> list[int]:
        """Further ends, in bytes, that a step may have had that showed nothing between `end` and `next_end`."""
        following = self.text[end : end + 1]
        ends: set[int] = set()
        if self.text[end - 1 : end] == b" ":
            # SGLang shows a text that ends inside a character up to its last blank (find_printable_text).
            ends.update(i for i in range(end + 1, next_end) if 0x80 <= self.text[i] < 0xC0)
        if following >= b"\xc0":  # the first bytes of a character that was not whole yet
            width = 4 if following >= b"\xf0" else 3 if following >= b"\xe0" else 2
            ends.update(range(end + 1, end + width))
        elif following.isspace() and self._holds_white:
            ends.update(range(end + 1, end + 1 + _length_at(_WHITE, self.text, end)))
        else:
            held = self._vocabulary.longest_marker_prefix(self.text[end : end + 32])
            ends.update(range(end + 1, end + held + 1))
        if self._is_json:
            ends.update(range(end + 1, end + 1 + _length_at(_BRACES, self.text, end)))
        return sorted(ends)

    def shown_at_once(self, starts: Sequence[int]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Of the deltas that begin at these bytes, whether no step can have ended beyond the end of the one before
        each; and whether none can have ended inside it either: a quick look that says no where `ends_beyond` and
        `hidden_within` must be asked."""
        if self._is_json or not starts:
            return (nothing := np.zeros(len(starts), dtype=np.bool_)), nothing
        text, begins = np.frombuffer(self.text, dtype=np.uint8), np.array(starts)
        held = np.zeros(256, dtype=np.bool_)
        held[list(self._vocabulary.marker_starts + (_WHITE_BYTES if self._holds_white else b""))] = True
        held[0x80:] = True
        is_ascii = np.maximum.reduceat(text, begins) < 0x80
        begun = ~held[text[begins]]
        shown = begun & is_ascii
        shown[0] &= text[0] not in _WHITE_BYTES
        return begun & (is_ascii | (text[begins - 1] != ord(" "))), shown

    def hidden_within(self, start: int, end: int) -> list[int]:
        """Ends, in bytes, of steps that showed nothing while the delta from `start` to `end` was made."""
        delta = self.text[start:end]
        inside = {i for i in range(start + 1, end) if 0x80 <= self.text[i] < 0xC0}
        inside.update(range(start + 1, start + 1 + self._vocabulary.longest_marker_prefix(delta[:32])))
        # What a text begins with is held back until it is more than white space, and arguments until they have begun.
        if self._holds_white or start == 0:
            inside.update(range(start + 1, start + 1 + _length_at(_WHITE, self.text, start)))
        if self._is_json:
            inside.update(range(start + 1, start + 1 + _length_at(_BRACES, self.text, start)))
            inside.update(range(1, min(end, _MOST_HELD_OF_ARGUMENTS)) if start == 0 else ())
        return sorted(i for i in inside if i < end)


_MOST_HELD_OF_ARGUMENTS = 24  # bytes
_WHITE_BYTES = b" \t\n\r\x0b\x0c"
_WHITE = re.compile(rb"\s*")
_BRACES = re.compile(rb"[}\s]*")


def _length_at(pattern: re.Pattern[bytes], text: bytes, position: int) -> int:
    """Length in bytes of what matches at `position`."""
    match = pattern.match(text, position)
    return 0 if match is None else match.end() - position


def agreement(frames: FieldFrames, ids: Sequence[int], vocabulary: Vocabulary) -> bool:
    """Whether these ids can have made these deltas, whatever the number of tokens in a step.

    They cannot where a delta ends inside a token and nothing was held back there.
    """
    boundaries = set(accumulate(map(len, map(vocabulary.bytes_of, ids))))
    held_back = Holding(frames, vocabulary).ends_beyond
    ends = accumulate(map(len, frames.deltas))
    return all(
        end in boundaries or any(held in boundaries for held in held_back(end, next_end))
        for end, next_end in pairwise(ends)
    )


def ids_between_walls(frames: FieldFrames, vocabulary: Vocabulary) -> Ids:
    """Canonical ids of each delta for itself: what was generated if the model left the canonical path at a wall."""
    return tuple(token for delta in frames.deltas for token in vocabulary.encode(delta.decode("utf-8", "replace")))
