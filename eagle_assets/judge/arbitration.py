"""Which of the conventions that still stand for a provider is the true one: a sequential probability ratio test.

What a provider shows came from the ids of its true convention, which the target generated, so it finds them likelier
than those of a rival. Texts and counts have their say too: a text that a convention cannot have shown, or a count that
does not agree with it, speaks against it, and to hear only the responses that both conventions explain would favour
the wrong one. One response may mislead, so no response counts for more than CAP; for each pair of conventions the
differences are summed over responses until one side is likelier by the logarithm of one over the error that is put up
with (Wald's test), or there are no more responses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nsmallest
from itertools import combinations
from math import inf, log

import numpy as np

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question
from eagle_assets.judge.scoring import Cost
from eagle_assets.judge.variants import narrowed
from eagle_assets.reconstruction.calibration import Arbitration, GroupKey
from eagle_assets.reconstruction.contests import Contest
from eagle_assets.reconstruction.survivor import CLOSES, DIFFERS

MOST_RESPONSES = 200
ERROR = 0.001
"""The chance that a provider's convention is decided wrongly, over all of its rivals."""

CAP = 3.0
"""Nats: the most that one response counts for."""

_AT_ONCE = 4  # responses of a provider that are asked about before it is looked whether that was enough
_LEAST_LOGPROB = -100.0  # in the place of −inf
_LOOKAHEAD = 16  # tokens behind the last difference on which candidates are weighed

Contests = Callable[[], Iterable[Contest]]
"""All contests, as often as they are wanted."""


def arbitrate(contests: Contests, bench: Bench) -> dict[GroupKey, tuple[Arbitration, ...]]:
    """What the target decides for each group; a group that it leaves undecided has no entry."""
    tallies: dict[GroupKey, _Tally] = defaultdict(_Tally)
    waiting: dict[GroupKey, list[Contest]] = defaultdict(list)
    for contest in _sampled(contests):
        if tallies[contest.group].is_decided:
            continue
        batch = waiting[contest.group]
        batch.append(contest)
        if len(batch) == _AT_ONCE:
            _hear(batch, tallies[contest.group], bench)
            batch.clear()
    for key, batch in waiting.items():
        _hear(batch, tallies[key], bench)
    return {key: found for key, tally in tallies.items() if (found := tally.arbitrations(bench.name))}


def cost_of_arbitration(contests: Contests, bench: Bench) -> Cost:
    """What it costs at most; it ends as soon as everything is decided."""
    return bench.cost(question for contest in _sampled(contests) for question in _questions(contest).values())


def _sampled(contests: Contests) -> Iterator[Contest]:
    """At most MOST_RESPONSES of each group, drawn by their names, in order."""
    names: dict[GroupKey, list[bytes]] = defaultdict(list)
    for contest in contests():
        names[contest.group].append(_drawn(contest))
    last = {key: nsmallest(MOST_RESPONSES, drawn)[-1] for key, drawn in names.items()}
    return (contest for contest in contests() if _drawn(contest) <= last[contest.group]) if last else iter(())


def _drawn(contest: Contest) -> bytes:
    return blake2b(contest.exchange_id.encode(), digest_size=8).digest()


def _hear(batch: Sequence[Contest], tally: _Tally, bench: Bench) -> None:
    if tally.is_decided:
        return
    asked = [_questions(contest) for contest in batch]
    bench.ask(question for questions in asked for question in questions.values())
    for contest, questions in zip(batch, asked, strict=True):
        likelihoods = _log_likelihoods(contest, questions, bench)
        if likelihoods is not None:
            tally.add(likelihoods)


def _log_likelihoods(contest: Contest, questions: Mapping[str, Question], bench: Bench) -> dict[str, float] | None:
    """Of the response under each convention: of its ids by the target, and of its count. None without an answer."""
    found: dict[str, float] = {}
    for name, reading in contest.readings.items():
        if reading is None:
            found[name] = -inf
            continue
        scores = bench.scores(questions[name]) if questions else None
        if questions and scores is None:
            return None
        of_ids = float(np.nansum(np.maximum(scores.tokens, _LEAST_LOGPROB))) if scores is not None else 0.0
        found[name] = of_ids + (CLOSES if reading.closes else DIFFERS)
    return found


def _questions(contest: Contest) -> dict[str, Question]:
    """Of each convention's ids, the part in which they are not all the same, behind what they begin with alike; none
    where they are all the same."""
    ids_of = {name: reading.output_ids for name, reading in contest.readings.items() if reading is not None}
    every = list(ids_of.values())
    if len(set(every)) < 2:
        return {}
    start = behind = len(every[0])
    for one, other in combinations(every, 2):
        first, end, _ = narrowed(one, other)
        if one != other:
            start, behind = min(start, first), min(behind, len(one) - end)
    behind = max(0, behind - _LOOKAHEAD)
    return {
        name: Question([*contest.prompt_ids, *ids[:start]], ids[start : len(ids) - behind])
        for name, ids in ids_of.items()
    }


@dataclass(slots=True)
class _Tally:
    """`nats` are, for each pair of conventions, by how much the first is likelier, over `responses` of them."""

    nats: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    responses: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, log_likelihoods: Mapping[str, float]) -> None:
        for one, other in combinations(sorted(log_likelihoods), 2):
            mine, theirs = log_likelihoods[one], log_likelihoods[other]
            if mine != theirs and abs(self.nats[one, other]) < self._enough:
                self.nats[one, other] += max(-CAP, min(CAP, mine - theirs))
                self.responses[one, other] += 1

    @property
    def is_decided(self) -> bool:
        """Whether each pair is; conventions that never differed are none."""
        return bool(self.nats) and all(abs(nats) >= self._enough for nats in self.nats.values() if nats)

    @property
    def _enough(self) -> float:
        return log(max(1, len({name for pair in self.nats for name in pair}) - 1) / ERROR)

    def arbitrations(self, judge: str) -> tuple[Arbitration, ...]:
        """What is refuted, each by the one that beats it by most; nothing where each is beaten by another."""
        beaten: dict[str, Arbitration] = {}
        for (one, other), nats in self.nats.items():
            if abs(nats) < self._enough:
                continue
            chosen, refuted = (one, other) if nats > 0 else (other, one)
            found = Arbitration(chosen, refuted, self.responses[one, other], round(abs(nats), 2), ERROR, judge)
            if refuted not in beaten or beaten[refuted].nats < found.nats:
                beaten[refuted] = found
        names = {name for pair in self.nats for name in pair}
        return tuple(beaten.values()) if names - beaten.keys() else ()
