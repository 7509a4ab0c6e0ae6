"""The decoding steps under which a server would have sent exactly the frames that were received."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar, cast

from eagle_assets.serving.served import Frame, Situation
from eagle_assets.serving.servers import Server, ServerStream

T = TypeVar("T")
_ATOMS = frozenset((str, int, bool, type(None)))


@dataclass(frozen=True, slots=True)
class Stepping:
    """Sizes of decoding steps, in tokens, and the server's count of reasoning tokens under them."""

    sizes: tuple[int, ...]
    reasoning_tokens: int


def possible_steppings(
    server: Server,
    ids: Sequence[int],
    situation: Situation,
    frames: Sequence[Frame],
    steps: range,
    seen_as: Callable[[Sequence[Frame]], Sequence[object]] = tuple,
) -> list[Stepping]:
    """Ways to cut `ids` into steps of `steps` tokens, the last one shorter or not, in which `server` sends exactly
    `frames`, as far as they are `seen_as`; none: it did not send these ids so.

    Of ways that leave the server in the same state one is kept, so the work is about a step of the server for each
    place and size.
    """
    received = seen_as(frames)
    fixed = unchanging(situation)
    reached: list[dict[Hashable, tuple[ServerStream, int, tuple[int, ...]]]] = [{} for _ in range(len(ids) + 1)]
    reached[0][()] = (server.stream(situation), 0, ())
    for place in range(len(ids)):
        for stream, matched, sizes in reached[place].values():
            for size in sorted({min(size, len(ids) - place) for size in steps}):
                further = copy_of(stream, fixed)
                sent = seen_as(further.feed(ids[place : place + size], last=place + size == len(ids)))
                seen = matched + len(sent)
                if received[matched:seen] == sent:
                    state = (seen, state_of(further, fixed))
                    reached[place + size].setdefault(state, (further, seen, (*sizes, size)))
        reached[place] = {}
    return [
        Stepping(sizes, stream.reasoning_tokens)
        for stream, matched, sizes in reached[len(ids)].values()
        if matched == len(received)
    ]


def shown_texts(frames: Sequence[Frame]) -> list[tuple[str, int | None, str]]:
    """Field, call and text of each frame that has one."""
    return [(frame.field, frame.call, frame.text) for frame in frames if frame.text]


def unchanging(situation: Situation) -> frozenset[int]:
    """What a stream refers to and never changes: shared by its copies, and no part of its state."""
    return frozenset(map(id, (situation, situation.target, situation.target.vocabulary)))


def copy_of(thing: T, fixed: Set[int]) -> T:
    """A copy of `thing` and of all objects and lists that it holds. (copy.deepcopy takes ten times as long.)"""
    if isinstance(thing, list):
        return cast(T, [member if type(member) in _ATOMS else copy_of(member, fixed) for member in thing])
    if id(thing) in fixed or not hasattr(thing, "__dict__"):
        return thing
    copy = object.__new__(type(thing))
    members = vars(copy)
    for name, member in vars(thing).items():
        members[name] = member if type(member) in _ATOMS else copy_of(member, fixed)
    return copy


def state_of(thing: object, fixed: Set[int]) -> Hashable:
    """What `thing` remembers, all the way down, as values."""
    if isinstance(thing, list):
        return tuple([member if type(member) in _ATOMS else state_of(member, fixed) for member in thing])
    if id(thing) in fixed or not hasattr(thing, "__dict__"):
        return None
    members = vars(thing).values()
    return tuple([member if type(member) in _ATOMS else state_of(member, fixed) for member in members])
