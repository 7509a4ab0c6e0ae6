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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf, log

import numpy as np

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question
from eagle_assets.judge.samples import in_batches, sampled
from eagle_assets.judge.scoring import Cost
from eagle_assets.judge.surprise import LEAST_LOGPROB, LOOKAHEAD
from eagle_assets.judge.variants import narrowed
from eagle_assets.reconstruction.calibrating.decisions import Arbitration, GroupKey
from eagle_assets.reconstruction.calibrating.survivor import CLOSES, DIFFERS
from eagle_assets.reconstruction.contests import Contest

ERROR = 0.001
"""The chance that what the judge decides is decided wrongly: which convention of a provider is true, over all its
rivals; whether it puts blanks ahead of its texts; which ids of one response are, over all that it may have."""

CAP = 3.0
"""Nats: the most that one response counts for; it may be another deployment's."""

Contests = Callable[[], Iterable[Contest]]
"""All contests, as often as they are wanted."""


def arbitrate(contests: Contests, bench: Bench) -> dict[GroupKey, tuple[Arbitration, ...]]:
    """What the target decides for each group; a group that it leaves undecided has no entry."""
    tallies: dict[GroupKey, _Tally] = defaultdict(_Tally)
    for batch in in_batches(sampled(contests), lambda key: tallies[key].is_decided):
        _hear(batch, tallies[batch[0].group], bench)
    return {key: found for key, tally in tallies.items() if (found := tally.arbitrations(bench.name))}


def cost_of_arbitration(contests: Contests, bench: Bench) -> Cost:
    """What it costs at most; it ends as soon as everything is decided."""
    return bench.cost(question for contest in sampled(contests) for question in questions_of(contest).values())


def _hear(batch: Sequence[Contest], tally: _Tally, bench: Bench) -> None:
    asked = [questions_of(contest) for contest in batch]
    bench.ask(question for questions in asked for question in questions.values())
    for contest, questions in zip(batch, asked, strict=True):
        likelihoods = log_likelihoods(contest, questions, bench)
        if likelihoods is not None:
            tally.add(likelihoods)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Logarithms, of a response under a convention: of its ids by the target, and of its count; both −inf where the
    convention cannot have shown it."""

    of_ids: float
    of_count: float

    @property
    def total(self) -> float:
        return self.of_ids + self.of_count


_IMPOSSIBLE = Likelihood(-inf, -inf)


def log_likelihoods(contest: Contest, questions: Mapping[str, Question], bench: Bench) -> dict[str, Likelihood] | None:
    """Of the response under each convention. None without an answer."""
    found: dict[str, Likelihood] = {}
    for name, reading in contest.readings.items():
        if reading is None:
            found[name] = _IMPOSSIBLE
            continue
        scores = bench.scores(questions[name]) if questions else None
        if questions and scores is None:
            return None
        of_ids = float(np.nansum(np.maximum(scores.tokens, LEAST_LOGPROB))) if scores is not None else 0.0
        found[name] = Likelihood(of_ids, CLOSES if reading.closes else DIFFERS)
    return found


def questions_of(contest: Contest) -> dict[str, Question]:
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
    behind = max(0, behind - LOOKAHEAD)
    return {
        name: Question([*contest.prompt_ids, *ids[:start]], ids[start : len(ids) - behind])
        for name, ids in ids_of.items()
    }


@dataclass(slots=True)
class _Heard:
    """A pair of conventions. `nats`: by how much the first is likelier over `responses`; `of_ids` are the sums of what
    the target says of the ids of each, where both can have shown a response."""

    nats: float = 0.0
    responses: int = 0
    of_ids: tuple[float, float] = (0.0, 0.0)

    def add(self, mine: Likelihood, theirs: Likelihood) -> None:
        self.nats += max(-CAP, min(CAP, mine.total - theirs.total))
        self.responses += 1
        if _IMPOSSIBLE not in (mine, theirs):
            self.of_ids = self.of_ids[0] + mine.of_ids, self.of_ids[1] + theirs.of_ids


@dataclass(slots=True)
class _Tally:
    """What was heard of each pair of conventions."""

    pairs: dict[tuple[str, str], _Heard] = field(default_factory=lambda: defaultdict(_Heard))

    def add(self, likelihoods: Mapping[str, Likelihood]) -> None:
        for one, other in combinations(sorted(likelihoods), 2):
            mine, theirs = likelihoods[one], likelihoods[other]
            if mine.total != theirs.total and abs(self.pairs[one, other].nats) < self._enough:
                self.pairs[one, other].add(mine, theirs)

    @property
    def is_decided(self) -> bool:
        """Whether each pair is; conventions that never differed are none."""
        return bool(self.pairs) and all(abs(p.nats) >= self._enough for p in self.pairs.values() if p.nats)

    @property
    def _enough(self) -> float:
        return log(max(1, len({name for pair in self.pairs for name in pair}) - 1) / ERROR)

    def arbitrations(self, judge: str) -> tuple[Arbitration, ...]:
        """What is refuted, each by the one that beats it by most; nothing where each is beaten by another."""
        beaten: dict[str, Arbitration] = {}
        for names, heard in self.pairs.items():
            if abs(heard.nats) < self._enough:
                continue
            way = 1 if heard.nats > 0 else -1
            (chosen, refuted), nats = names[::way], round(abs(heard.nats), 2)
            sums = (round(heard.of_ids[::way][0], 2), round(heard.of_ids[::way][1], 2))
            found = Arbitration(chosen, refuted, heard.responses, nats, ERROR, judge, sums)
            if refuted not in beaten or beaten[refuted].nats < found.nats:
                beaten[refuted] = found
        names_met = {name for pair in self.pairs for name in pair}
        return tuple(beaten.values()) if names_met - beaten.keys() else ()
