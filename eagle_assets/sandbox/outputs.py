"""The true output of the sandbox's model: ids as a pure function of the request, the same for every provider.

Rates follow what was measured of Kimi K2.5 (FACTS 2 and 4): 1 in 19 segments begins with a blank, 2 in 64 outputs
leave the canonical path; here a few more do, so that a small run shows some.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from random import Random
from typing import Any

from eagle_assets.sandbox.replies import Reply, reply_to
from eagle_assets.sandbox.routing import digest_of
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.target import Target
from eagle_assets.targets.vocabulary import Vocabulary

LEADING_BLANK = 1 / 19
TRAILING_LINE_BREAK = 1 / 40
NONCANONICAL = 1 / 20
SAME_COUNT_AMONG_NONCANONICAL = 1 / 4


def true_output(request: Mapping[str, Any]) -> list[int]:
    """Ids that the target generates for this request, the stop token included unless `max_tokens` cut it off.

    Neither the provider nor `stream` changes them. Raises UnknownTarget, and KeyError without messages.
    """
    target = target_named(request["model"])
    rng = Random(digest_of(request, "model", "messages", "tools", "tool_choice", "reasoning", "seed"))
    tools = [] if request.get("tool_choice") == "none" else request.get("tools") or []
    reply = reply_to(request["messages"], tools, target.thinks(dict(request)), rng)
    ids = ids_of(target, with_blanks(reply, rng))
    if rng.random() < NONCANONICAL:
        ids = off_the_canonical_path(target.vocabulary, ids, rng)
    return ids[: request.get("max_tokens")]


def with_blanks(reply: Reply, rng: Random) -> Reply:
    """The reply, now and then with a blank ahead of a text, or a line break after the reasoning."""
    reasoning, content = reply.reasoning, reply.content
    if reasoning:
        reasoning = " " * (rng.random() < LEADING_BLANK) + reasoning + "\n" * (rng.random() < TRAILING_LINE_BREAK)
    if content:
        content = " " * (rng.random() < LEADING_BLANK) + content
    return Reply(reasoning, content, reply.calls)


def ids_of(target: Target, reply: Reply) -> list[int]:
    """The reply in the target's output grammar, each text encoded canonically."""
    encode, markers = target.vocabulary.encode, target.markers
    ids: list[int] = []
    if reply.reasoning is not None:
        ids += [*encode(reply.reasoning), markers.think_end]
    ids += encode(reply.content)
    if reply.calls:
        ids.append(markers.section_begin)
        for call in reply.calls:
            ids += [markers.call_begin, *encode(call.id), markers.argument_begin]
            ids += [*encode(call.arguments), markers.call_end]
        ids.append(markers.section_end)
    return [*ids, markers.stop]


def off_the_canonical_path(vocabulary: Vocabulary, ids: list[int], rng: Random) -> list[int]:
    """The same bytes with one token cut in two, or (same count) the border between two tokens moved; the ids as they
    are where no token can be cut."""
    changes = [_cut_in_two, _border_moved]
    if rng.random() < SAME_COUNT_AMONG_NONCANONICAL:
        changes.reverse()
    places = list(range(len(ids) - 1))
    rng.shuffle(places)
    for change, place in itertools.product(changes, places):
        changed = change(vocabulary, ids, place, rng)
        if changed is not None:
            return changed
    return ids


def _cut_in_two(vocabulary: Vocabulary, ids: list[int], place: int, rng: Random) -> list[int] | None:
    if ids[place] in vocabulary.special_text:
        return None
    pieces = _ways_to_cut(vocabulary, vocabulary.bytes_of(ids[place]))
    return [*ids[:place], *rng.choice(pieces), *ids[place + 1 :]] if pieces else None


def _border_moved(vocabulary: Vocabulary, ids: list[int], place: int, rng: Random) -> list[int] | None:
    pair = (ids[place], ids[place + 1])
    if vocabulary.special_text.keys() & set(pair):
        return None
    pieces = [p for p in _ways_to_cut(vocabulary, vocabulary.decode(pair)) if p != pair]
    return [*ids[:place], *rng.choice(pieces), *ids[place + 2 :]] if pieces else None


def _ways_to_cut(vocabulary: Vocabulary, piece: bytes) -> list[tuple[int, int]]:
    """All pairs of tokens that spell `piece`."""
    ids = vocabulary.id_of_bytes
    cuts = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
    return [(ids[left], ids[right]) for left, right in cuts if left in ids and right in ids]
