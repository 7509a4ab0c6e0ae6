"""Tokens that end inside a character: what a server shows of them, where it was seen.

One that holds nothing whole shows nothing anywhere. Of one that holds a blank or a character before, servers differ in
whether they show that at once and in what they count, so that the model of one is worth as much as it was seen to hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from functools import cache
from typing import Literal, get_args

from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.search.served_by import sends, sends_one_by_one
from eagle_assets.serving.servers import Server
from eagle_assets.targets.vocabulary import Vocabulary

CharacterPart = Literal["after a character", "after a blank"]
"""What stands in a token before the part of a character that it ends in."""

CHARACTER_PARTS: tuple[CharacterPart, ...] = get_args(CharacterPart)

_ENOUGH, _SHARE = 6, 0.8  # streams with such tokens of which the server must send most, step by step


def parts_in(ids: Iterable[int], vocabulary: Vocabulary) -> frozenset[CharacterPart]:
    """The kinds of tokens among these that end inside a character and hold something whole before."""
    return frozenset(part for token in set(ids) if (part := _part(vocabulary, token)) is not None)


def parts_seen(
    servers: Sequence[Server], answers: Iterable[tuple[Reading, Sequence[list[int]]]]
) -> frozenset[CharacterPart]:
    """The kinds of which streams of one token a step show that these servers send them as their models do."""
    tested: dict[CharacterPart, list[bool]] = defaultdict(list)
    for reading, candidates in answers:
        assert reading.situation is not None
        parts = parts_in(candidates[0], reading.situation.target.vocabulary) if len(candidates) == 1 else ()
        if parts:
            one_by_one = any(sends_one_by_one(server, candidates[0], reading) for server in servers)
            if one_by_one or not any(sends(server, candidates[0], reading) for server in servers):
                for part in parts:
                    tested[part].append(one_by_one)
    return frozenset(p for p, sent in tested.items() if len(sent) >= _ENOUGH and sum(sent) >= _SHARE * len(sent))


def are_seen(ids: Sequence[int], other: Sequence[int], seen: Set[str], vocabulary: Vocabulary) -> bool:
    """Whether it was seen how tokens of `ids` are sent that the `other` ids for the same text do not have."""
    parts = parts_in(Counter(ids) - Counter(other), vocabulary)
    return bool(parts) and parts <= seen


@cache
def _part(vocabulary: Vocabulary, token: int) -> CharacterPart | None:
    text = vocabulary.bytes_of(token)
    begun = next((i for i in range(1, min(3, len(text)) + 1) if text[-i] >= 0xC0), 0)
    if not begun or begun == len(text):
        return None
    width = 4 if text[-begun] >= 0xF0 else 3 if text[-begun] >= 0xE0 else 2
    if width <= begun:
        return None
    return "after a blank" if text[-begun - 1 : -begun] == b" " else "after a character"
