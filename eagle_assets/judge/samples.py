"""Which responses of a provider the target is asked about: so many at most, drawn by their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from hashlib import blake2b
from heapq import nsmallest
from typing import Any, Protocol, TypeVar

MOST_RESPONSES = 200

AT_ONCE = 4
"""Responses of a provider that are asked about before it is looked whether that was enough."""


class OfGroup(Protocol):
    """Something about one response of a group: of what is asked about together."""

    @property
    def exchange_id(self) -> str: ...

    @property
    def group(self) -> Hashable: ...


Drawn = TypeVar("Drawn", bound=OfGroup)


def sampled(found: Callable[[], Iterable[Drawn]]) -> Iterator[Drawn]:
    """At most MOST_RESPONSES of each group, in order. `found` gives all of them, twice; names are all that is kept."""
    names: dict[Hashable, list[int]] = defaultdict(list)
    for one in found():
        drawn = names[one.group]
        drawn.append(lot(one.exchange_id))
        if len(drawn) >= 2 * MOST_RESPONSES:
            names[one.group] = nsmallest(MOST_RESPONSES, drawn)
    last = {key: nsmallest(MOST_RESPONSES, drawn)[-1] for key, drawn in names.items()}
    return (one for one in found() if lot(one.exchange_id) <= last[one.group]) if last else iter(())


def in_batches(found: Iterable[Drawn], is_decided: Callable[[Any], bool]) -> Iterator[list[Drawn]]:
    """AT_ONCE of a group together as long as it is not decided, and in the end what is left of each."""
    waiting: dict[Hashable, list[Drawn]] = defaultdict(list)
    for one in found:
        if is_decided(one.group):
            continue
        waiting[one.group].append(one)
        if len(waiting[one.group]) == AT_ONCE:
            yield waiting.pop(one.group)
    for key, batch in waiting.items():
        if not is_decided(key):
            yield batch


def lot(exchange_id: str) -> int:
    """What a name is to a sample: a number like a throw of dice."""
    return int.from_bytes(blake2b(exchange_id.encode(), digest_size=8).digest())
