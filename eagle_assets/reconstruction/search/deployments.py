"""Which of the known servers a provider runs: those whose models send its answers again to the letter.

A convention says where blanks stand and what is counted; a server says every frame. Like conventions, servers are
found by refutation: one that fails on answers which another sends to the letter is out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Literal

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey
from eagle_assets.reconstruction.calibrating.inversion import find_inversions
from eagle_assets.reconstruction.encoding import EncodedTexts, encodable
from eagle_assets.reconstruction.evidence.reading import Reading, read
from eagle_assets.reconstruction.search.character_parts import CHARACTER_PARTS, CharacterPart, parts_in, parts_seen
from eagle_assets.reconstruction.search.served_by import sends
from eagle_assets.serving.gateway import leaves_stop_uncounted, normalises, rewrites_calls, trims
from eagle_assets.serving.output import Call, Ids, Output, join_output
from eagle_assets.serving.served import Situation
from eagle_assets.serving.servers import KNOWN_SERVERS, Server
from eagle_assets.targets.kimi import target_named

_OF_A_KIND = 6  # answers of a model, with calls or without, that are enough to tell servers apart
_OF_PARTS = 12  # streams with parts of characters, of which some have several tokens a step and show less
_MOST_TOKENS = 600  # longer answers say no more, and take longer
_MOST_CANDIDATES = 4  # of an answer; one that may be so many things tells nothing
_REFUTED_BY = 3  # answers that another server sends to the letter and this one does not
_ENOUGH, _SHARE = 4, 0.6  # answers that a server must send to the letter, of those that have a candidate
_IN_PARTS = "\u0800"  # the first character of three bytes; tokens seldom end inside shorter ones
_ENOUGH_OF_A_MODEL = 2  # of these: a provider may run another server for another model

Source = tuple[str, bool]
"""Provider, streamed."""

Look = Literal["text", "calls"] | CharacterPart
"""What an answer shows: how texts are sent, or calls, or in a stream tokens of a kind that ends inside a character."""

SampleKind = tuple[str, str, bool, Look]
"""Model, provider, streamed, what it shows."""

_GATEWAYS = (trims, normalises, rewrites_calls, leaves_stop_uncounted)
BEHIND_GATEWAYS = tuple(server.behind(gateway) for gateway in _GATEWAYS for server in KNOWN_SERVERS)
"""Servers whose unstreamed answers a gateway changes; none is known to change the frames of a stream."""


class Samples:
    """A few answers of each provider, kept while exchanges go by: the first of each kind."""

    def __init__(self) -> None:
        self._kept: dict[Source, dict[tuple[str, Look], list[Exchange]]] = defaultdict(lambda: defaultdict(list))

    def wants(self, kind: SampleKind) -> bool:
        """Whether more of a kind are wanted."""
        _, _, _, look = kind
        return len(self._of(kind)) < (_OF_PARTS if look in CHARACTER_PARTS else _OF_A_KIND)

    def add(self, kind: SampleKind, exchange: Exchange) -> None:
        """Keep the exchange, if its kind is still wanted."""
        if self.wants(kind):
            self._of(kind).append(exchange)

    def _of(self, kind: SampleKind) -> list[Exchange]:
        model, provider, streamed, look = kind
        return self._kept[provider, streamed][model, look]

    def places(self) -> Iterator[tuple[Source, list[Exchange], list[Exchange]]]:
        """The answers kept of each provider, streamed or not, their kinds in turn, and apart those with parts."""
        for place, kinds in self._kept.items():
            whole = [kept for (_, look), kept in kinds.items() if look not in CHARACTER_PARTS]
            parts = [one for (_, look), kept in kinds.items() if look in CHARACTER_PARTS for one in kept]
            yield place, [k[i] for i in range(_OF_A_KIND) for k in whole if i < len(k)], parts


def sample_kind(reading: Reading) -> SampleKind | None:
    """What kind of sample a usable reading is; None if it is too long to be one, or where its markers stand is open."""
    situation = reading.situation
    if situation is None or not 0 < (reading.completion_tokens or 0) <= _MOST_TOKENS or reading.layout_notes:
        return None
    response = reading.response
    look: Look = "calls" if response.tool_calls else "text"
    texts = f"{response.reasoning or ''} {response.content or ''}"
    if situation.streamed and look == "text" and max(texts) >= _IN_PARTS:
        vocabulary = situation.target.vocabulary
        parts = parts_in(vocabulary.encode(encodable(texts)), vocabulary)
        look = next((part for part in CHARACTER_PARTS if part in parts), look)
    return situation.target.name, reading.provider or "", situation.streamed, look


def with_servers(calibration: Calibration, samples: Samples) -> Calibration:
    """The calibration with the servers that a provider may run for each model.

    None for a provider that changed in mid-file: its answers are not those of one server.
    """
    found: dict[GroupKey, tuple[str, ...]] = {}
    seen: dict[GroupKey, frozenset[CharacterPart]] = {}
    for place, exchanges, with_parts in samples.places():
        if ("", *place) in calibration.earlier:
            continue
        answers = _candidates(map(read, exchanges), calibration)
        standing = standing_servers(answers, KNOWN_SERVERS)
        if not standing and not place[1]:
            standing = standing_servers(answers, BEHIND_GATEWAYS)
        for model, own in _by_model(answers).items():
            sent = [s for s in standing if _sent(s, own) >= max(_ENOUGH_OF_A_MODEL, _SHARE * len(own))]
            found[model, *place] = tuple(server.name for server in sent)
            if sent and with_parts:
                parts = _candidates(map(read, with_parts), calibration)
                seen[model, *place] = parts_seen(sent, [*answers, *parts])
    groups = {
        key: replace(group, servers=found.get(key, ()), parts_seen=seen.get(key, frozenset()))
        for key, group in calibration.groups.items()
    }
    return replace(calibration, groups=groups)


Candidates = Sequence[tuple[Reading, Sequence[list[int]]]]
"""Answers, each with the ids that it may stand for."""


def standing_servers(answers: Candidates, servers: Sequence[Server]) -> tuple[Server, ...]:
    """The servers that these answers leave standing; none where no server sends most of them, or where another one
    sends several that this one does not: then there are two behind one name, and each answer may be of either."""
    if len(answers) < _ENOUGH:
        return ()
    left: dict[Server, list[tuple[Reading, Sequence[list[int]]]]] = {server: [] for server in servers}  # not sent
    for answer in answers:
        for server, of_server in left.items():
            if not _sent(server, (answer,)):
                of_server.append(answer)
        fewest = min(map(len, left.values()))
        left = {server: of_server for server, of_server in left.items() if len(of_server) < fewest + _REFUTED_BY}
    of_best = min(left.values(), key=len)
    if len(answers) - len(of_best) < max(_ENOUGH, _SHARE * len(answers)):
        return ()
    several = len(of_best) >= _REFUTED_BY and any(_sent(server, of_best) >= _REFUTED_BY for server in servers)
    return () if several else tuple(left)


def servers_of(group: GroupCalibration | None, has_calls: bool) -> tuple[Server, ...]:
    """The servers that may have sent a response of the group."""
    return () if group is None else servers_named(group.servers_that_speak(has_calls))


@lru_cache(maxsize=1 << 8)
def servers_named(names: tuple[str, ...]) -> tuple[Server, ...]:
    """The known servers of these names."""
    return tuple(server for server in (*KNOWN_SERVERS, *BEHIND_GATEWAYS) if server.name in names) if names else ()


@cache
def keeps_index(server: Server, target_name: str, streamed: bool) -> bool:
    """Whether the server reports the numbers that the model gives its calls: asked of its model, with a call whose
    number is none that a server would give."""
    target = target_named(target_name)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    thinks = target.thinking != "never"
    said = Output(False, "A." if thinks else None, thinks, "", True, (Call("functions.f:7", "{}", True),), True, True)
    ids: Output[Ids] = said.over(lambda text: tuple(target.vocabulary.encode(text)))
    situation = Situation(target, thinks, (tool,), 0, streamed)
    (call,) = server.render(join_output(ids, target.markers), situation).message.tool_calls
    return call.id == "functions.f:7"


def _sent(server: Server, answers: Candidates) -> int:
    """How many of the answers the server sends."""
    return sum(any(sends(server, ids, reading) for ids in candidates) for reading, candidates in answers)


def _by_model(answers: Candidates) -> dict[str, list[tuple[Reading, Sequence[list[int]]]]]:
    models = defaultdict(list)
    for reading, candidates in answers:
        assert reading.situation is not None
        models[reading.situation.target.name].append((reading, candidates))
    return models


def _candidates(readings: Iterable[Reading], calibration: Calibration) -> Candidates:
    found = []
    for reading in readings:
        situation = reading.situation
        assert situation is not None
        group = calibration.of(situation.target.name, reading.provider, situation.streamed)
        texts = EncodedTexts(situation.target.vocabulary)
        closing = (tuple(i.ids(texts, situation)) for i in find_inversions(reading, group, texts) if i.closes)
        distinct = [list(ids) for ids in dict.fromkeys(closing)]
        if 0 < len(distinct) <= _MOST_CANDIDATES:
            found.append((reading, distinct))
    return found
