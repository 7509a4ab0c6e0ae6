"""Which ids steps of one token can have made the deltas of a stream: a search over the vocabulary.

The steps of a text end at byte positions. A step that showed a delta ended at its end or in what was held back there;
a step that showed nothing ended where all that it added is held back. Between two ends lies one token. The search
keeps, for each position and number of tokens, how many ways lead there, and the one that strays least from the
canonical ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import ne
from typing import cast

import msgspec
import numpy as np

from eagle_assets.reconstruction.evidence.frames import FieldFrames, Holding
from eagle_assets.serving.output import Ids
from eagle_assets.targets.vocabulary import Vocabulary


class Way(msgspec.Struct, frozen=True):
    """A way to cut a text into tokens, as the last tokens and the way before them.

    `ways` and `ties` say how many ways there are in all, and how many stray as little (2 stands for more);
    `strays` is the number of tokens that the canonical ids do not have in the same place.
    """

    tokens: Ids
    before: Way | None
    ways: int
    strays: int
    ties: int

    def ids(self) -> Ids:
        parts = []
        way: Way | None = self
        while way is not None:
            parts.append(way.tokens)
            way = way.before
        return tuple(chain.from_iterable(reversed(parts)))


_START = Way(tokens=(), before=None, ways=1, strays=0, ties=1)
Ways = dict[int, Way]
"""The ways to a position by their number of tokens."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Ids of several texts that together have a given number of tokens.

    `unique`: no other ids are possible. `clear`: no others stray as little from the canonical ones, in `strays`
    tokens.
    """

    ids: tuple[Ids, ...]
    unique: bool
    clear: bool
    strays: int


def one_token_steps(fields: Sequence[tuple[FieldFrames, Ids]], tokens: int, vocabulary: Vocabulary) -> Solution | None:
    """The ids of texts whose deltas were made by steps of one token, `tokens` in all; None where there are none.

    Each field comes with its canonical ids.
    """
    texts = [_Steps(frames, vocabulary) for frames, _ in fields]
    surplus = tokens - sum(len(text.ends) - text.last_may_be_held(vocabulary) for text in texts)
    if surplus < 0:
        return None
    found = [
        _ways_through(text, canonical, surplus, vocabulary) for text, (_, canonical) in zip(texts, fields, strict=True)
    ]
    if not all(found):
        return None
    return _join(found, tokens)


class _Steps:
    """A text that came in deltas: what may have been held back of it, and where in bytes each delta begins and ends."""

    def __init__(self, frames: FieldFrames, vocabulary: Vocabulary) -> None:
        self.holding = Holding(frames, vocabulary)
        self.text = self.holding.text
        self.deltas = frames.deltas
        bounds = [0, *accumulate(map(len, frames.deltas))]
        self.starts, self.ends = bounds[:-1], bounds[1:]

    def beyond(self, position: int) -> list[int]:
        """Ends that the step behind a delta may have had in what follows it."""
        end = self.ends[position]
        return self.holding.ends_beyond(end, self.ends[min(position + 1, len(self.ends) - 1)])

    def last_may_be_held(self, vocabulary: Vocabulary) -> bool:
        """Whether the last delta may be what was held back of a token that began before it, brought by the step of a
        marker: then it is the only delta without a token of its own."""
        if len(self.ends) < 2:
            return False
        start, end = self.starts[-2], self.ends[-2]
        begins = {start, *self.holding.hidden_within(start, end)}
        begins.update(self.beyond(len(self.ends) - 3) if len(self.ends) > 2 else ())
        return any(self.text[begin:] in vocabulary.id_of_bytes for begin in begins)

    def alone(self, surplus: int, vocabulary: Vocabulary) -> bytes:
        """For each delta but the last, 1 where it is a token for itself, whatever its neighbours are, and 0 where that
        has to be looked for."""
        begun, shown = self.holding.shown_at_once(self.starts)
        if surplus:
            return (shown[:-1] & shown[1:]).tobytes()
        # Each delta is one token, so that it is enough that the token does not end in what follows.
        alone = begun[1:].copy()
        for position in np.flatnonzero(~alone).tolist():
            start = self.starts[position]
            alone[position] = not any(self.text[start:end] in vocabulary.id_of_bytes for end in self.beyond(position))
        return alone.tobytes()


def _join(found: Sequence[Ways], tokens: int) -> Solution | None:
    """The combination of one way for each text that has the right number of tokens and strays least."""
    joined: dict[int, _Joined] = {0: _Joined((), 1, 0, 1)}
    for ways in found:
        longer: dict[int, _Joined] = {}
        for total, so_far in joined.items():
            for length, way in ways.items():
                if total + length <= tokens:
                    more = so_far.and_then(way)
                    other = longer.get(total + length)
                    longer[total + length] = more if other is None else more.or_else(other)
        joined = longer
    best = joined.get(tokens)
    if best is None:
        return None
    return Solution(tuple(way.ids() for way in best.parts), best.ways == 1, best.ties == 1, best.strays)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Ways of the first few texts together, as `Way` is for one."""

    parts: tuple[Way, ...]
    ways: int
    strays: int
    ties: int

    def and_then(self, way: Way) -> _Joined:
        ways, ties = min(2, self.ways * way.ways), min(2, self.ties * way.ties)
        return _Joined((*self.parts, way), ways, self.strays + way.strays, ties)

    def or_else(self, other: _Joined) -> _Joined:
        better, worse = (self, other) if self.strays < other.strays else (other, self)
        ties = better.ties + worse.ties if better.strays == worse.strays else better.ties
        return _Joined(better.parts, min(2, self.ways + other.ways), better.strays, min(2, ties))


_MOST_WAYS = 100_000
"""Ways kept at the deltas of a text, added up: many more than a stream of steps leaves open, and a second's work."""


def _ways_through(steps: _Steps, canonical: Ids, surplus: int, vocabulary: Vocabulary) -> Ways:
    """Every way to the end of a text, with at most `surplus` tokens more than deltas; none beyond _MOST_WAYS."""
    text, starts, ends = steps.text, steps.starts, steps.ends
    bounds = [0, *vocabulary.lengths[list(canonical)].cumsum().tolist()]
    canonical_end = dict(pairwise(bounds)).get  # by start
    alone = steps.alone(surplus, vocabulary)
    reached: dict[int, Ways] = {0: {0: _START}}
    position = kept = 0
    while position < len(ends):
        start, end = starts[position], ends[position]
        kept += sum(map(len, reached.values()))
        if kept > _MOST_WAYS:
            return {}
        if reached.keys() == {start} and (run := _run_of_lone(alone, position)):
            after = position + run
            spelt, strays = _canonical_between(starts[position : after + 1], bounds, canonical), 0
            if spelt is None:
                spelt = tuple(map(vocabulary.id_of_bytes.get, steps.deltas[position:after]))
                strays = sum(map(ne, map(canonical_end, starts[position:after]), ends[position:after]))
            position = after
            reached = {starts[position]: _all_longer(reached[start], spelt, strays, position + surplus)}
            continue
        stops = {end, *steps.beyond(position)}
        if position + 2 >= len(ends):
            stops.add(len(text))
        hidden = set(steps.holding.hidden_within(start, end))
        reached = _one_delta(reached, hidden, stops, text, position + 1 + surplus, canonical_end, vocabulary)
        if not reached:
            return {}
        position += 1
    return reached.get(len(text), {})


def _canonical_between(cuts: list[int], bounds: list[int], canonical: Ids) -> tuple[int | None, ...] | None:
    """The canonical ids, if these cuts, in bytes, are where they begin and end."""
    first = bisect_left(bounds, cuts[0])
    last = first + len(cuts) - 1
    return canonical[first:last] if bounds[first : last + 1] == cuts else None


def _run_of_lone(alone: bytes, position: int) -> int:
    """How many deltas from this one on are a token each: those which are 1 in `alone`.

    The last two are never: the last may be what was held back.
    """
    last = len(alone) - 1
    end = alone.find(b"\0", position, max(0, last))
    return max(0, last - position) if end < 0 else end - position


def _all_longer(ways: Ways, spelt: tuple[int | None, ...], strays: int, most: int) -> Ways:
    """The ways with these tokens more, of which there can be `most` in all; none where one of these is no token."""
    if None in spelt:
        return {}
    tokens = cast("Ids", spelt)
    return {
        length + len(tokens): Way(tokens, way, way.ways, way.strays + strays, way.ties)
        for length, way in ways.items()
        if length + len(tokens) <= most
    }


def _one_delta(
    reached: dict[int, Ways],
    hidden: set[int],
    stops: set[int],
    text: bytes,
    most: int,
    canonical_end: Callable[[int], int | None],
    vocabulary: Vocabulary,
) -> dict[int, Ways]:
    """From the positions reached to the stops of one delta, a token at a time, over hidden positions between; to none
    where that takes more than _MOST_WAYS."""
    found = {position: dict(ways) for position, ways in reached.items()}
    arrived: dict[int, Ways] = {}
    end, kept = len(text), 0
    if end in reached and end in stops:
        arrived[end] = dict(reached[end])
    for target in sorted(hidden | stops):
        for too_far in [origin for origin in found if target - origin > vocabulary.longest]:
            del found[too_far]
        if not found or kept > _MOST_WAYS:
            break
        ways: Ways = {}
        for origin, so_far in found.items():
            token = vocabulary.id_of_bytes.get(text[origin:target]) if origin < target else None
            if token is None:
                continue
            stray = canonical_end(origin) != target
            for length, way in so_far.items():
                if length < most:
                    _add(ways, length + 1, Way((token,), way, way.ways, way.strays + stray, way.ties))
        if target in stops:
            _add_all(arrived.setdefault(target, {}), ways)
        kept += len(ways)
        if target in hidden and ways:
            _add_all(found.setdefault(target, {}), ways)
    return {position: ways for position, ways in arrived.items() if ways} if kept <= _MOST_WAYS else {}


def _add_all(ways: Ways, more: Ways) -> None:
    for length, way in more.items():
        _add(ways, length, way)


def _add(ways: Ways, length: int, way: Way) -> None:
    """Add a way, keeping the one that strays least and the number of all."""
    other = ways.get(length)
    if other is None:
        ways[length] = way
        return
    better, worse = (way, other) if way.strays < other.strays else (other, way)
    ties = better.ties + worse.ties if better.strays == worse.strays else better.ties
    ways[length] = Way(better.tokens, better.before, min(2, way.ways + other.ways), better.strays, min(2, ties))
