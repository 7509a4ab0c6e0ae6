"""Other ids that an output may have been, each a change in one place: what servers and re-encoding are known to do.

A blank ahead of a text or white space at its end that came or went, a call numbered otherwise, the same bytes cut into
other tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from eagle_assets.targets.target import Target
from eagle_assets.targets.vocabulary import Vocabulary

Kind = Literal[
    "leading blank",
    "white space behind the reasoning",
    "white space behind the content",
    "tool index",
    "line break",
    "segmentation",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEADING_BLANK: Kind = "leading blank"
CUTS: frozenset[Kind] = frozenset(("line break", "segmentation"))
"""The same bytes in other tokens."""

_ENDS = ("", " ", "\n", "\n\n")
_INDEX = re.compile(r"(.*:)(\d{1,6})", re.DOTALL)
_LONGEST_PIECE = 64  # bytes of tokens that are cut otherwise; longer ones are runs of one character


@dataclass(frozen=True, slots=True)
class Variant:
    """Ids `start` to `end` of an output are `instead` (either may be empty)."""

    kind: Kind
    start: int
    end: int
    instead: tuple[int, ...]

    def applied_to(self, ids: Sequence[int]) -> list[int]:
        return [*ids[: self.start], *self.instead, *ids[self.end :]]


@dataclass(frozen=True, slots=True)
class Span:
    """A text between markers; `after` is the marker ahead of it, None at the beginning of the output."""

    start: int
    end: int
    after: int | None


def spans(ids: Sequence[int], vocabulary: Vocabulary) -> list[Span]:
    """The texts of an output in order, those without ids too."""
    first_special = vocabulary.ordinary_size
    markers = [place for place, token in enumerate(ids) if token >= first_special]
    starts = [(0, None), *((place + 1, ids[place]) for place in markers)]
    return [Span(start, end, after) for (start, after), end in zip(starts, [*markers, len(ids)], strict=True)]


def leading_blanks(ids: Sequence[int], target: Target) -> Iterator[Variant]:
    """Each text that begins with a blank without it, each other one with it."""
    for span in _texts(ids, target, with_arguments=True):
        yield from with_other_blank(ids, span, target)


def with_other_blank(ids: Sequence[int], span: Span, target: Target) -> Iterator[Variant]:
    """A text that begins with a blank without it, another one with it."""
    return reencoded(ids, span, target.vocabulary, LEADING_BLANK, _other_blank)


def ends(ids: Sequence[int], target: Target) -> Iterator[Variant]:
    """Each text with other white space at its end. How a model ends its reasoning says nothing of how it ends what it
    answers, so that these are two kinds."""
    for span in _texts(ids, target, with_arguments=False):
        kind = ending_of(ids, span, target)
        for end in _ENDS:
            yield from reencoded(ids, span, target.vocabulary, kind, partial(_ending, end=end))


def ending_of(ids: Sequence[int], span: Span, target: Target) -> Kind:
    """The kind of a change at the end of a text."""
    is_reasoning = list(ids[span.end : span.end + 1]) == [target.markers.think_end]
    return "white space behind the reasoning" if is_reasoning else "white space behind the content"


def tool_indexes(ids: Sequence[int], target: Target) -> Iterator[Variant]:
    """Each call with its neighbours' numbers, and with 0."""
    for span in spans(ids, target.vocabulary):
        if span.after != target.markers.call_begin:
            continue
        for change in (-1, 1, None):
            yield from reencoded(ids, span, target.vocabulary, "tool index", partial(_numbered, change=change))


def encoded_otherwise(ids: Sequence[int], target: Target) -> Iterator[Variant]:
    """Where the ids of a text are not those that the encoder gives for it."""
    for span in spans(ids, target.vocabulary):
        present = list(ids[span.start : span.end])
        text = _decoded(present, target.vocabulary)
        if text is not None:
            for variant in _changed(span, present, target.vocabulary.encode(text), "segmentation"):
                yield replace(variant, kind=_kind_of_cut(target.vocabulary.decode(ids[variant.start : variant.end])))


def cut_otherwise(ids: Sequence[int], places: Sequence[int], vocabulary: Vocabulary) -> Iterator[Variant]:
    """The token at each of these places cut in two, put together with the next one, or with another border to it."""
    for place in places:
        if ids[place] >= vocabulary.ordinary_size:
            continue
        yield from _cuts(ids, place, place + 1, vocabulary)
        if place + 1 < len(ids) and ids[place + 1] < vocabulary.ordinary_size:
            yield from _cuts(ids, place, place + 2, vocabulary)


def _cuts(ids: Sequence[int], start: int, end: int, vocabulary: Vocabulary) -> Iterator[Variant]:
    known = vocabulary.id_of_bytes
    piece = vocabulary.decode(ids[start:end])
    if len(piece) > _LONGEST_PIECE:
        return
    kind = _kind_of_cut(piece)
    present = tuple(ids[start:end])
    if end - start == 2 and piece in known:
        yield Variant(kind, start, end, (known[piece],))
    for cut in range(1, len(piece)):
        pair = known.get(piece[:cut]), known.get(piece[cut:])
        if pair[0] is not None and pair[1] is not None and pair != present:
            yield Variant(kind, start, end, (pair[0], pair[1]))


def _kind_of_cut(piece: bytes) -> Kind:
    return "line break" if b"\n" in piece else "segmentation"


def _texts(ids: Sequence[int], target: Target, with_arguments: bool) -> Iterator[Span]:
    """Reasoning and content, and arguments if wanted."""
    markers = target.markers
    ahead = {None, markers.think_begin, markers.think_end, *([markers.argument_begin] if with_arguments else [])}
    return (span for span in spans(ids, target.vocabulary) if span.after in ahead and span.end > span.start)


def reencoded(
    ids: Sequence[int], span: Span, vocabulary: Vocabulary, kind: Kind, change: Callable[[str], str]
) -> Iterator[Variant]:
    """The variant that a changed text of a span makes; none where the change changes nothing.

    A text that is not as the encoder gives it keeps its own tokens where the change does not reach.
    """
    present = list(ids[span.start : span.end])
    text = _decoded(present, vocabulary)
    if text is not None and (changed := change(text)) != text:
        instead, own = vocabulary.encode(changed), vocabulary.encode(text)
        yield from _changed(span, present, instead if own == present else _carried_over(present, own, instead), kind)


def _decoded(ids: Sequence[int], vocabulary: Vocabulary) -> str | None:
    """None where the ids are no whole text."""
    try:
        return vocabulary.decode(ids).decode()
    except UnicodeDecodeError:
        return None


def _changed(span: Span, present: Sequence[int], instead: Sequence[int], kind: Kind) -> Iterator[Variant]:
    if instead != present:
        start, end, new = narrowed(present, instead)
        yield Variant(kind, span.start + start, span.start + end, tuple(new))


def narrowed(present: Sequence[int], instead: Sequence[int]) -> tuple[int, int, Sequence[int]]:
    """The change from one list to the other, without what they begin and end with alike: (start, end, new ids)."""
    shorter = min(len(present), len(instead))
    start = next((i for i in range(shorter) if present[i] != instead[i]), shorter)
    same = next((i for i in range(shorter - start) if present[-1 - i] != instead[-1 - i]), shorter - start)
    return start, len(present) - same, instead[start : len(instead) - same]


def _carried_over(present: list[int], own: list[int], instead: list[int]) -> list[int]:
    """The change from `own` to `instead` made in `present`, where that agrees with `own` there; else nothing."""
    start, end, new = narrowed(own, instead)
    if present[:end] == own[:end]:
        return [*own[:start], *new, *present[end:]]
    tail = len(own) - start
    if tail <= len(present) and present[len(present) - tail :] == own[start:]:
        return [*present[: len(present) - tail], *new, *own[end:]]
    return present


def _other_blank(text: str) -> str:
    return text[1:] if text.startswith(" ") else " " + text


def _ending(text: str, end: str) -> str:
    return text.rstrip() + end


def _numbered(text: str, change: int | None) -> str:
    found = _INDEX.fullmatch(text)
    if found is None:
        return text
    number = 0 if change is None else int(found[2]) + change
    return f"{found[1]}{number}" if number >= 0 else text
