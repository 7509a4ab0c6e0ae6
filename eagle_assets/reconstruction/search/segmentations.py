"""Which ids a server can have streamed one by one, a token a step: a search over the vocabulary, run on its model.

`steps` asks what any server may have held back; here the server is known, so every step must send exactly the frames
that came. White space that the server takes away at a text's end is searched too, since it takes up a step.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from eagle_assets.reconstruction.calibrating.inversion import Inversion
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.evidence.steps import Way
from eagle_assets.reconstruction.search.served_by import frames_of
from eagle_assets.serving.served import Frame, Situation
from eagle_assets.serving.servers import Server, ServerStream
from eagle_assets.serving.stepping import copy_of, shown_texts, state_of, unchanging

MOST_STEPS = 5_000  # steps of the server's model that are worth it: about half a second
MOST_TOKENS = 600  # of a stream, for which that many steps are as a rule enough
_LOST = (" ", "\n", "\t")  # one token each: what may have been lost is never one alone, so it is never settled on
_MOST_TOKENS_A_FRAME = 2  # of a stream of one token a step: most tokens show
_LONGEST_TOKEN = 128  # bytes


class TooManySteps(Exception):
    """A search has run as many steps as it is worth, and knows neither of a solution nor of none."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Ids that explain every frame and both counts.

    `unique`: no others do. `clear`: no others that stray from the canonical ids in as few tokens, `strays`.
    """

    ids: list[int]
    unique: bool
    clear: bool
    strays: int


@dataclass(frozen=True, slots=True)
class _State:
    """A stream after the steps of a way, of whose frames `matched` came."""

    stream: ServerStream
    matched: int
    way: Way


def segmentation(
    reading: Reading, inversions: Sequence[Inversion], servers: Sequence[Server], texts: EncodedTexts
) -> tuple[Inversion, Segmentation] | None:
    """The ids that explain a stream of one token a step, over all inversions and servers, and the inversion that they
    say; None where there are none."""
    situation, tokens = reading.situation, reading.completion_tokens
    frames = frames_of(reading)
    if situation is None or tokens is None or not tokens / _MOST_TOKENS_A_FRAME <= len(frames) <= MOST_TOKENS:
        return None
    asked = {tuple(inversion.ids(texts, situation)): inversion for inversion in reversed(inversions)}
    found: list[tuple[Inversion, Segmentation]] = []
    try:
        for canonical, inversion in reversed(asked.items()):
            for server in servers:
                solution = streamed_segmentation(
                    server, canonical, situation, frames, tokens, reading.response.reasoning_tokens
                )
                if solution is not None:
                    found.append((inversion, solution))
    except TooManySteps:
        return None
    if not found:
        return None
    inversion, first = found[0]
    alike = all(solution.ids == first.ids for _, solution in found)
    unique, clear = (alike and all(flags) for flags in zip(*((s.unique, s.clear) for _, s in found), strict=True))
    return inversion, replace(first, unique=unique, clear=clear)


def streamed_segmentation(
    server: Server,
    canonical: Sequence[int],
    situation: Situation,
    frames: Sequence[Frame],
    tokens: int,
    reasoning_tokens: int | None,
) -> Segmentation | None:
    """The ids, `tokens` in all, of which `server` sends one a step exactly the texts of `frames`.

    They say what `canonical` says. None where there are no such ids; raises TooManySteps.
    """
    tape = _Tape(canonical, situation)
    received = shown_texts(frames)
    fixed = unchanging(situation)
    reached: list[dict[int, dict[Hashable, _State]]] = [{} for _ in range(tape.end + 1)]
    reached[0][0] = {(): _State(server.stream(situation), 0, Way((), None, 1, 0, 1))}
    steps = 0
    for place in range(tape.end):
        by_count = reached[place]
        for count in range(min(by_count, default=tokens), tokens):
            for state in list(by_count.get(count, {}).values()):
                for token, target, stray in tape.moves[place]:
                    if count + 1 + tape.fewest[target] > tokens:
                        continue
                    steps += 1
                    if steps > MOST_STEPS:
                        raise TooManySteps
                    stream = copy_of(state.stream, fixed)
                    sent = shown_texts(stream.feed([token], last=target == tape.end))
                    seen = state.matched + len(sent)
                    if received[state.matched : seen] != sent:
                        continue
                    before = state.way
                    way = Way((token,), before, before.ways, before.strays + stray, before.ties)
                    states = reached[target].setdefault(count + 1, {})
                    key = (seen, state_of(stream, fixed))
                    known = states.get(key)
                    states[key] = _State(stream, seen, way if known is None else _together(known.way, way))
        reached[place] = {}
    ends = [
        state.way
        for state in reached[tape.end].get(tokens, {}).values()
        if state.matched == len(received) and reasoning_tokens in (None, state.stream.reasoning_tokens)
    ]
    if not ends:
        return None
    way = ends[0]
    for other in ends[1:]:
        way = _together(way, other)
    return Segmentation(list(way.ids()), way.ways == 1, way.ties == 1, way.strays)


def _together(one: Way, other: Way) -> Way:
    """The way that strays less, with the number of both."""
    better, worse = (other, one) if other.strays < one.strays else (one, other)
    ties = better.ties + worse.ties if better.strays == worse.strays else better.ties
    return Way(better.tokens, better.before, min(2, one.ways + other.ways), better.strays, min(2, ties))


class _Tape:
    """Ids laid out in bytes, a marker as one place, with the tokens that lead from each place on."""

    def __init__(self, ids: Sequence[int], situation: Situation) -> None:
        vocabulary, markers = situation.target.vocabulary, situation.target.markers
        self._id_of_bytes = vocabulary.id_of_bytes
        self._lost = [vocabulary.encode(white)[0] for white in _LOST]
        self._ends_of_texts = {markers.think_end, markers.section_begin, markers.stop}
        self._marker: dict[int, int] = {}
        self._spans: set[tuple[int, int]] = set()
        pieces, place = [], 0
        for token in ids:
            is_marker = token >= vocabulary.ordinary_size
            pieces.append(b"\0" if is_marker else vocabulary.bytes_of(token))
            if is_marker:
                self._marker[place] = token
            else:
                self._spans.add((place, place + len(pieces[-1])))
            place += len(pieces[-1])
        self._bytes = b"".join(pieces)
        self._marker_places = [*self._marker, place]
        self.end = place
        self.moves = [list(self._moves(place)) for place in range(self.end)]
        self.fewest = self._fewest()

    def _moves(self, place: int) -> Iterator[tuple[int, int, bool]]:
        """Each token that may come here, the place after it, and whether it strays from the ids."""
        marker = self._marker.get(place)
        if marker is not None:
            yield marker, place + 1, False
            if marker in self._ends_of_texts:
                yield from ((token, place, True) for token in self._lost)
            return
        text_ends = self._marker_places[bisect(self._marker_places, place)]
        for target in range(place + 1, min(text_ends, place + _LONGEST_TOKEN) + 1):
            token = self._id_of_bytes.get(self._bytes[place:target])
            if token is not None:
                yield token, target, (place, target) not in self._spans

    def _fewest(self) -> list[int]:
        """The least number of tokens from each place to the end."""
        fewest = [0] * (self.end + 1)
        for place in range(self.end - 1, -1, -1):
            fewest[place] = 1 + min(fewest[target] for _, target, _ in self.moves[place] if target > place)
        return fewest
