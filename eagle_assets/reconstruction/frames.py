"""What the frames of a stream prove: where one decoding step ended and the next began.

A delta is evidence, not a token. A server shows at most one delta a step, ends it where a character is whole, and
holds back what may become a marker (FACTS 4). So a step that made one token ended at its delta's end, or
somewhere inside what the delta leaves open: in the first bytes of the next character, or in a held-back `<` or `[`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from eagle_assets.openrouter.wire import Delta
from eagle_assets.serving.output import Ids
from eagle_assets.targets.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class FieldFrames:
    """The deltas of one text, as bytes, after the convention's blanks were taken out; none is empty."""

    deltas: tuple[bytes, ...]

    @property
    def text(self) -> bytes:
        return b"".join(self.deltas)


def field_frames(deltas: Sequence[Delta], field: str, shown: str, inverted: str) -> FieldFrames | None:
    """The frames of a text whose server's blanks were taken out; None where the deltas are not this text's.

    `shown` is the text as received, `inverted` the same without the blanks.
    """
    texts = [delta.text for delta in deltas if delta.field == field and delta.text]
    if "".join(texts) != shown:
        return None
    start = shown.find(inverted)
    end = start + len(inverted)
    pieces = []
    position = 0
    for text in texts:
        piece = text[max(0, start - position) : max(0, end - position)]
        position += len(text)
        if piece:
            pieces.append(piece.encode("utf-8", "surrogatepass"))
    return FieldFrames(tuple(pieces))


def one_token_deltas(frames: FieldFrames, canonical: Ids, vocabulary: Vocabulary) -> tuple[Ids | None, bool]:
    """The ids when every delta is the end of a step of one token, and whether these are the only ones possible.

    Where several are, the canonical ones are taken if they are among them, else none. None too where no such ids
    exist. The caller has checked that there are as many tokens as deltas.
    """
    text = frames.text
    held_back = _Holding(frames, vocabulary).ends_beyond
    ends = list(accumulate(map(len, frames.deltas)))
    # Ways to reach each possible end of the steps so far: (number of ways, first id sequence found).
    reached: dict[int, tuple[int, tuple[int, ...]]] = {0: (1, ())}
    for position, end in enumerate(ends):
        last = position == len(ends) - 1
        possible = [end] if last else [end, *held_back(end)]
        following: dict[int, tuple[int, tuple[int, ...]]] = {}
        for start, (ways, ids) in reached.items():
            for stop in possible:
                token = vocabulary.id_of_bytes.get(text[start:stop]) if stop > start else None
                if token is not None:
                    before = following.get(stop)
                    following[stop] = (ways + before[0], before[1]) if before else (ways, (*ids, token))
        if not following:
            return None, False
        reached = following
    ways, ids = reached[len(text)]
    if ways == 1:
        return ids, True
    fits = len(canonical) == len(ends) and agreement(frames, canonical, vocabulary)
    return (canonical if fits else None), False


class _Holding:
    """What a server may have held back at the end of a delta."""

    def __init__(self, frames: FieldFrames, vocabulary: Vocabulary) -> None:
        self._text = frames.text
        self._vocabulary = vocabulary
        # A parser that strips holds white space back, so that no delta of its ends in any.
        self._holds_white = not any(delta[-1:].isspace() for delta in frames.deltas)

    def ends_beyond(self, end: int) -> list[int]:
        """Further ends, in bytes, that a step may have had that showed nothing beyond `end`."""
        following = self._text[end : end + 1]
        if following >= b"\xc0":  # the first bytes of a character that was not whole yet
            width = 4 if following >= b"\xf0" else 3 if following >= b"\xe0" else 2
            return list(range(end + 1, end + width))
        if following.isspace():
            rest = self._text[end:]
            white = len(rest) - len(rest.lstrip()) if self._holds_white else 0
            return list(range(end + 1, end + white + 1))
        held = self._vocabulary.longest_marker_prefix(self._text[end : end + 32])
        return list(range(end + 1, end + held + 1))


def agreement(frames: FieldFrames, ids: Sequence[int], vocabulary: Vocabulary) -> bool:
    """Whether these ids can have made these deltas, whatever the number of tokens in a step.

    They cannot where a delta ends inside a token and nothing was held back there.
    """
    boundaries = set(accumulate(len(vocabulary.bytes_of(token)) for token in ids))
    held_back = _Holding(frames, vocabulary).ends_beyond
    ends = list(accumulate(map(len, frames.deltas)))[:-1]
    return all(end in boundaries or any(held in boundaries for held in held_back(end)) for end in ends)


def ids_between_walls(frames: FieldFrames, vocabulary: Vocabulary) -> Ids:
    """Canonical ids of each delta for itself: what was generated if the model left the canonical path at a wall."""
    return tuple(token for delta in frames.deltas for token in vocabulary.encode(delta.decode("utf-8", "replace")))
