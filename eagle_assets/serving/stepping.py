"""The decoding steps under which a server would have sent exactly the frames that were received."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from eagle_assets.serving.served import Frame, Situation
from eagle_assets.serving.servers import Server, ServerStream


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
    fixed = {id(thing): thing for thing in (situation, situation.target, situation.target.vocabulary)}
    reached: list[dict[Hashable, tuple[ServerStream, int, tuple[int, ...]]]] = [{} for _ in range(len(ids) + 1)]
    reached[0][()] = (server.stream(situation), 0, ())
    for place in range(len(ids)):
        for stream, matched, sizes in reached[place].values():
            for size in sorted({min(size, len(ids) - place) for size in steps}):
                last = place + size == len(ids)
                further = copy.deepcopy(stream, dict(fixed))
                sent = further.feed(ids[place : place + size], last)
                seen = matched + len(sent)
                if tuple(frames[matched:seen]) == sent and not (last and seen < len(frames)):
                    state = (seen, _state_of(further, fixed))
                    reached[place + size].setdefault(state, (further, seen, (*sizes, size)))
        reached[place] = {}
    return [Stepping(sizes, stream.reasoning_tokens) for stream, _, sizes in reached[len(ids)].values()]


def _state_of(thing: object, fixed: Mapping[int, object]) -> Hashable:
    """What `thing` remembers, all the way down, as values."""
    if isinstance(thing, list | tuple):
        return tuple(_state_of(member, fixed) for member in thing)
    if isinstance(thing, str | int | None):
        return thing
    if id(thing) in fixed or not hasattr(thing, "__dict__"):
        return None
    return tuple(_state_of(member, fixed) for member in vars(thing).values())
