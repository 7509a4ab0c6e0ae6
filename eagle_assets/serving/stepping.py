"""The decoding steps under which a server would have sent exactly the frames that were received."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar, cast

from eagle_assets.serving.served import Frame, Situation
from eagle_assets.serving.servers import Server, ServerStream

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stepping:
    """Sizes of decoding steps, in tokens, and the server's count of reasoning tokens under them."""

    sizes: tuple[int, ...]
    reasoning_tokens: int


def possible_steppings(
    server: Server, ids: Sequence[int], situation: Situation, frames: Sequence[Frame], steps: range
) -> list[Stepping]:
    """Ways to cut `ids` into steps of `steps` tokens, the last one shorter or not, in which `server` sends exactly
    `frames`; none: it did not send these ids so.

    Of ways that leave the server in the same state one is kept, so the work is about a step of the server for each
    place and size.
    """
    # What a stream refers to and never changes: shared by its copies, and no part of its state.
    fixed = frozenset(map(id, (situation, situation.target, situation.target.vocabulary)))
    reached: list[dict[Hashable, tuple[ServerStream, int, tuple[int, ...]]]] = [{} for _ in range(len(ids) + 1)]
    reached[0][()] = (server.stream(situation), 0, ())
    for place in range(len(ids)):
        for stream, matched, sizes in reached[place].values():
            for size in sorted({min(size, len(ids) - place) for size in steps}):
                further = _copy_of(stream, fixed)
                sent = further.feed(ids[place : place + size], last=place + size == len(ids))
                seen = matched + len(sent)
                if tuple(frames[matched:seen]) == sent:
                    state = (seen, _state_of(further, fixed))
                    reached[place + size].setdefault(state, (further, seen, (*sizes, size)))
        reached[place] = {}
    return [
        Stepping(sizes, stream.reasoning_tokens)
        for stream, matched, sizes in reached[len(ids)].values()
        if matched == len(frames)
    ]


def _copy_of(thing: T, fixed: Set[int]) -> T:
    """A copy of `thing` and of all objects and lists that it holds. (copy.deepcopy takes ten times as long.)"""
    if isinstance(thing, list):
        return cast(T, [_copy_of(member, fixed) for member in thing])
    if id(thing) in fixed or not hasattr(thing, "__dict__"):
        return thing
    copy = object.__new__(type(thing))
    vars(copy).update((name, _copy_of(member, fixed)) for name, member in vars(thing).items())
    return copy


def _state_of(thing: object, fixed: Set[int]) -> Hashable:
    """What `thing` remembers, all the way down, as values."""
    if isinstance(thing, list):
        return tuple(_state_of(member, fixed) for member in thing)
    if isinstance(thing, str | int | None):
        return thing
    if id(thing) in fixed or not hasattr(thing, "__dict__"):
        return None
    return tuple(_state_of(member, fixed) for member in vars(thing).values())
