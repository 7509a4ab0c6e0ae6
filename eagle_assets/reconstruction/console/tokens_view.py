"""An output token by token: boundaries as colours or dots, markers by name, and where the candidates differ."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from rich.text import Text

from eagle_assets.targets.vocabulary import Vocabulary

Ids = Sequence[int]

BOUNDARY = "·"
_SHADES = ("on grey23", "on grey35")
_MARKER, _DIFFERS, _SURPRISES = "bold magenta", "bold reverse yellow", "bold reverse red"
_LINE_BREAK = "⏎"
_SYMBOLS = {"\n": _LINE_BREAK, "\t": "⇥"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Ids `start` to `end` of an output are others in a candidate: `instead` (either may be empty)."""

    start: int
    end: int
    instead: tuple[int, ...]


def differences(ids: Ids, candidate: Ids) -> list[Difference]:
    """Where a candidate has other ids, in order; empty for the same ids."""
    same_start = _common(ids, candidate)
    same_end = _common(ids[same_start:][::-1], candidate[same_start:][::-1])
    middle = list(ids[same_start : len(ids) - same_end])
    other = list(candidate[same_start : len(candidate) - same_end])
    return [
        Difference(same_start + start, same_start + end, tuple(other[from_:to]))
        for kind, start, end, from_, to in SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def tokens_text(
    ids: Ids,
    vocabulary: Vocabulary,
    with_ids: bool,
    coloured: bool,
    differing: Sequence[Difference] = (),
    surprising: Container[int] = (),
) -> Text:
    """The output with its boundaries: shades in turn, or dots where there is no colour.

    Ids that differ in a candidate are marked: in colour, or between `[` and `]`; those that surprise the target model
    in another colour, or between `!` and `!`. Line breaks show as ⏎, tabs as ⇥, bytes that are no character by
    themselves as ‹e4›, ids that are not in the vocabulary as ‹unknown›.
    """
    marked = {position for place in differing for position in range(place.start, place.end)}
    added = {place.start for place in differing if place.start == place.end}
    page = Text()
    shade, need_boundary = 0, False
    for position, token in enumerate(ids):
        if position in added:
            page.append("▲", _DIFFERS if coloured else "")
        shown = shown_token(token, vocabulary)
        is_marker = token in vocabulary.special_text
        own_id = str(token) if with_ids else ""
        if coloured:
            style = _DIFFERS if position in marked else _MARKER if is_marker else _SHADES[shade % 2]
            style = _SURPRISES if position in surprising else style
            page.append(shown, style)
            page.append(own_id, "dim")
        else:
            text = f"{shown}({own_id})" if own_id else shown
            page.append(BOUNDARY * (need_boundary and not is_marker))
            text = f"!{text}!" if position in surprising else text
            page.append(f"[{text}]" if position in marked else text)
        if is_marker or _LINE_BREAK in shown:
            page.append("\n")
        shade, need_boundary = shade + (not is_marker), not is_marker and _LINE_BREAK not in shown
    if len(ids) in added:
        page.append("▲", _DIFFERS if coloured else "")
    return page


def difference_in_words(place: Difference, ids: Ids, vocabulary: Vocabulary) -> str:
    """`at token 12: ' The' 555 instead of 'The' 1008`, as seen from the candidate."""
    mine = _listed(ids[place.start : place.end], vocabulary)
    return f"at token {place.start}: {_listed(place.instead, vocabulary)} instead of {mine}"


def shown_token(token: int, vocabulary: Vocabulary) -> str:
    """A token as text on one line."""
    if token in vocabulary.special_text:
        return vocabulary.special_text[token]
    if not 0 <= token < vocabulary.ordinary_size:
        return "‹unknown›"
    return "".join(_characters(vocabulary.bytes_of(token)))


def _characters(data: bytes) -> Iterator[str]:
    """The characters of some bytes; what is no character as hexadecimal digits."""
    for character in data.decode("utf-8", "surrogateescape"):
        if "\udc80" <= character <= "\udcff":
            yield f"‹{ord(character) - 0xDC00:02x}›"
        elif character in _SYMBOLS:
            yield _SYMBOLS[character]
        elif character.isprintable():
            yield character
        else:
            yield f"‹U+{ord(character):04X}›"


def _listed(ids: Ids, vocabulary: Vocabulary) -> str:
    return " ".join(f"{shown_token(token, vocabulary)!r} {token}" for token in ids) or "nothing"


def _common(one: Ids, other: Ids) -> int:
    """How many ids two sequences begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
