"""A small target model: n-grams of token ids with back-off, good enough to prefer what it was trained on.

Witten-Bell interpolation over contexts of growing length, the longest of which sees back over a whole tool call; a
longer context that occurred as often as the shorter one says nothing new and is passed over. Three things are learnt
apart from the words, as any language model learns them: how often a text begins with a blank, how often a reasoning
ends with a line break, and how calls are numbered. What was never seen has a share of the uniform distribution, so that
every id has a probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from eagle_assets.targets.target import Target

ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Lengths of the contexts, in tokens."""

_NEAR = 12  # tokens at an end of a text that white space there may change
_NO_CONTEXT = np.uint64(0)
_MIX, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_Hashes = npt.NDArray[np.uint64]
_Ids = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Table:
    """What followed the contexts of one length: `keys` (sorted) name pairs of context and token, `contexts` (sorted)
    the contexts; `totals` are how often each occurred, `kinds` how many tokens followed it. `pairs` are the places of
    a context's pairs, one context after the other from `starts` on, the most frequent first."""

    keys: _Hashes
    counts: _Floats
    contexts: _Hashes
    totals: _Floats
    kinds: _Floats
    starts: _Ids
    followers: _Ids


class SmallTarget:
    """The trained model of a target."""

    def __init__(self, target: Target, sequences: Iterable[tuple[Sequence[int], Sequence[int]]]) -> None:
        """Train on outputs behind their prompts (prompt ids, output ids); nothing is learnt of the prompts' own ids."""
        self._size, self._think_end = target.vocabulary.size, target.markers.think_end
        self._reader = _Reader(target)
        hashes: list[list[_Hashes]] = [[] for _ in (0, *ORDERS, 0)]
        words: list[_Ids] = []
        habits = np.zeros((2, 2))  # how often followed, of how many
        for prompt, output in sequences:
            text = self._reader.read(np.array([*prompt, *output], dtype=np.int64), len(prompt))
            for found, context in zip(hashes, text.contexts, strict=True):
                found.append(context)
            words.append(text.words)
            habits += [(np.count_nonzero(found == 1), np.count_nonzero(found >= 0)) for found in text.habits]
        followed = np.concatenate(words)
        self._habits = (habits[:, 0] + 0.5) / (habits[:, 1] + 1)
        tables = [_table(np.concatenate(found), followed) for found in hashes]
        self._tables = {place: table for place, table in enumerate(tables) if len(table.contexts)}

    def logprobs(self, ids: Sequence[int], start: int, top: int = 0) -> tuple[_Floats, _Ids, _Floats]:
        """Of the ids from `start` on: their logprobs, and of each place the `top` likeliest ids that are known to
        follow, with theirs (−1 and −inf where there are fewer)."""
        text = self._reader.read(np.array(ids, dtype=np.int64), start)
        of_words = np.log(self._probabilities(text.contexts, text.words))
        found = np.bincount(text.places, of_words, minlength=text.length) + self._log_habits(text)
        if not top:
            return found, np.empty((len(found), 0), np.int64), np.empty((len(found), 0))
        followers = self._followers(text.contexts, top)
        wide = [np.repeat(context, top) for context in text.contexts]
        logprobs = np.log(self._probabilities(wide, np.maximum(followers, 0).ravel())).reshape(followers.shape)
        # Of several words at a place the first is what would follow there; a place without a word has none.
        places, first = np.unique(text.places, return_index=True)
        likely = np.full((len(found), top), -1, dtype=np.int64)
        likely[places] = followers[first]
        likely_logprobs = np.full(likely.shape, -np.inf)
        plain = np.log1p(-self._habits)
        likely_logprobs[places] = logprobs[first] + np.where(text.habits[0, places, None] >= 0, plain[0], 0.0)
        likely_logprobs[likely == self._think_end] += plain[1]
        likely_logprobs[likely < 0] = -np.inf
        order = np.argsort(-likely_logprobs, axis=1)
        return found, np.take_along_axis(likely, order, 1), np.take_along_axis(likely_logprobs, order, 1)

    def _log_habits(self, text: _Text) -> _Floats:
        share = self._habits[:, None]
        return np.select([text.habits == 1, text.habits == 0], [np.log(share), np.log1p(-share)], 0.0).sum(axis=0)

    def _probabilities(self, contexts: list[_Hashes], tokens: _Ids) -> _Floats:
        result = np.full(len(tokens), 1 / self._size)
        seen = np.full(len(tokens), np.inf)
        for order, table in self._tables.items():
            context = contexts[order]
            place = np.minimum(np.searchsorted(table.contexts, context), len(table.contexts) - 1)
            known = (table.contexts[place] == context) & (table.totals[place] != seen)
            keys = _paired(context, tokens)
            pair = np.minimum(np.searchsorted(table.keys, keys), len(table.keys) - 1)
            counts = np.where(table.keys[pair] == keys, table.counts[pair], 0.0)
            mixed = (counts + table.kinds[place] * result) / (table.totals[place] + table.kinds[place])
            result = np.where(known, mixed, result)
            seen = np.where(known, table.totals[place], seen)
        return result

    def _followers(self, contexts: list[_Hashes], top: int) -> _Ids:
        """The tokens that followed the longest context that is known, the most frequent first; −1 where there are
        fewer."""
        found = np.full((len(contexts[0]), top), -1, dtype=np.int64)
        columns = np.arange(top)
        for order, table in self._tables.items():
            context = contexts[order]
            place = np.minimum(np.searchsorted(table.contexts, context), len(table.contexts) - 1)
            known = table.contexts[place] == context
            wanted = table.starts[place][:, None] + columns
            inside = (columns < table.kinds[place][:, None]) & known[:, None]
            followers = table.followers[np.minimum(wanted, len(table.followers) - 1)]
            found = np.where(known[:, None], np.where(inside, followers, -1), found)
        return found


@dataclass(frozen=True)
class _Text:
    """Ids as the model reads them, `length` of them. `words` are what they would be without a blank ahead of a text and
    without a line break behind a reasoning, `places` where among the ids each word stands; the hashed `contexts` are of
    each word for each length (0 first; last the number of the call before, in the headers of calls). `habits` has a row
    for each habit: 1 at the ids where it was followed, 0 where it was not, −1 where it does not apply."""

    words: _Ids
    places: _Ids
    length: int
    contexts: list[_Hashes]
    habits: _Ids


class _Reader:
    def __init__(self, target: Target) -> None:
        self._vocabulary, self._markers = target.vocabulary, target.markers

    def read(self, ids: _Ids, start: int) -> _Text:
        """The ids from `start` on."""
        words, places, habits = self._without_habits(ids)
        first = int(np.searchsorted(places, start))
        near = max(0, first - ORDERS[-1])  # a context sees no farther back
        contexts = [context[first - near :] for context in _contexts(words[near:])]
        contexts.append(self._numbers(words)[first:])
        return _Text(words[first:], places[first:] - start, len(ids) - start, contexts, habits[:, start:])

    def _without_habits(self, ids: _Ids) -> tuple[_Ids, _Ids, _Ids]:
        """The words of all ids, their places, and where the ids follow habits."""
        habits = np.full((2, len(ids)), -1, dtype=np.int64)
        words, places, done = [], [], 0

        def replaced(first: int, end: int, instead: Sequence[int]) -> int:
            words.extend([ids[done:first], np.array(instead, dtype=np.int64)])
            places.extend([np.arange(done, first), np.full(len(instead), first)])
            return end

        for begin, end in self._texts(ids):
            near = ids[begin : min(end, begin + _NEAR)].tolist()
            head = self._vocabulary.decode(near)
            habits[0, begin] = is_blank = head.startswith(b" ") and not head[1:2].isspace()
            if is_blank:
                taken, instead = self._without_blank(near)
                done = replaced(begin, begin + taken, instead)
            if end < len(ids) and ids[end] == self._markers.think_end:
                near = ids[max(begin, done, end - _NEAR) : end].tolist()
                tail = self._vocabulary.decode(near)
                habits[1, end] = is_broken = tail.endswith(b"\n") and not tail.endswith(b"\n\n")
                if is_broken:
                    taken, instead = self._without_break(near)
                    done = replaced(end - taken, end, instead)
        replaced(len(ids), len(ids), ())
        return np.concatenate(words), np.concatenate(places), habits

    def _texts(self, ids: _Ids) -> Iterator[tuple[int, int]]:
        """Where reasoning and content stand that are not empty."""
        special = np.append(np.flatnonzero(ids >= self._vocabulary.ordinary_size), len(ids))
        for begin, end in pairwise(special.tolist()):
            if ids[begin] in (self._markers.think_begin, self._markers.think_end) and end > begin + 1:
                yield begin + 1, end

    def _without_blank(self, tokens: Sequence[int]) -> tuple[int, list[int]]:
        """How many tokens of a text's beginning a blank ahead changes, and what they are without it."""
        encode, size = self._vocabulary.encode, self._sizes
        instead = encode(self._vocabulary.decode(tokens)[1:].decode(errors="ignore"))
        bounds = [0, *accumulate(size(instead))]
        for taken, bound in enumerate(accumulate(size(tokens)), 1):
            if bound - 1 in bounds:
                return taken, instead[: bounds.index(bound - 1)]
        return len(tokens), instead

    def _without_break(self, tokens: Sequence[int]) -> tuple[int, list[int]]:
        """How many tokens of a text's end a line break behind changes, and what they are without it."""
        encode, size = self._vocabulary.encode, self._sizes
        instead = encode(self._vocabulary.decode(tokens)[:-1].decode(errors="ignore"))
        bounds = [0, *accumulate(size(instead[::-1]))]
        for taken, bound in enumerate(accumulate(size(tokens[::-1])), 1):
            if bound - 1 in bounds:
                return taken, instead[len(instead) - bounds.index(bound - 1) :]
        return len(tokens), instead

    def _sizes(self, tokens: Sequence[int]) -> Iterator[int]:
        return (len(self._vocabulary.bytes_of(token)) for token in tokens)

    def _numbers(self, ids: _Ids) -> _Hashes:
        """In the headers of calls, of the header's last id and the last one of the header before; else no context."""
        ends = ids == self._markers.argument_begin
        in_header = np.cumsum(ids == self._markers.call_begin) > np.cumsum(ends)
        in_header[1:] &= in_header[:-1]  # behind the marker itself
        places = np.maximum.accumulate(np.where(ends, np.arange(len(ids)), 0))
        number = np.where(places > 0, ids[places - 1], -1)
        before = np.concatenate([[0], ids[:-1]])
        mixed = _paired((number + 2).astype(np.uint64) * _MIX, before)
        return np.where(in_header, mixed | np.uint64(1), _NO_CONTEXT)


def _contexts(ids: _Ids) -> list[_Hashes]:
    """For each place and each length of context (0 first), a hash of the ids before it; at the beginning of a sequence,
    a context that is too short is one of its own."""
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * _MIX
    mixed ^= mixed >> _SHIFT
    hashes = [np.ones(len(ids), dtype=np.uint64)]
    current = np.zeros(len(ids), dtype=np.uint64)
    for length in range(1, ORDERS[-1] + 1):
        before = np.zeros(len(ids), dtype=np.uint64)
        before[length:] = mixed[:-length]
        current = current * _MIX + before
        if length in ORDERS:
            hashes.append(current ^ (current >> _SHIFT))
    return hashes


def _paired(contexts: _Hashes, tokens: _Ids) -> _Hashes:
    keys = contexts * _MIX + (tokens.astype(np.uint64) + np.uint64(7)) * np.uint64(0xD6E8FEB86659FD93)
    return keys ^ (keys >> _SHIFT)


def _table(contexts: _Hashes, tokens: _Ids) -> _Table:
    contexts, tokens = contexts[contexts != _NO_CONTEXT], tokens[contexts != _NO_CONTEXT]
    order = np.lexsort((tokens, contexts))
    contexts, tokens = contexts[order], tokens[order]
    is_new = (np.diff(contexts, prepend=~contexts[:1]) != 0) | (np.diff(tokens, prepend=-1) != 0)
    first = np.flatnonzero(is_new)
    counts = np.diff([*first, len(contexts)]).astype(np.float64)
    pair_contexts, pair_tokens = contexts[first], tokens[first]
    by_count = np.lexsort((-counts, pair_contexts))
    names, starts, kinds = np.unique(pair_contexts, return_index=True, return_counts=True)
    keys = _paired(pair_contexts, pair_tokens)
    by_key = np.argsort(keys)
    return _Table(
        keys=keys[by_key],
        counts=counts[by_key],
        contexts=names,
        totals=np.add.reduceat(counts, starts),
        kinds=kinds.astype(np.float64),
        starts=starts.astype(np.int64),
        followers=pair_tokens[by_count],
    )
