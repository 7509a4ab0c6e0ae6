"""Whether a provider's texts have a blank ahead of them that the target did not write: its habit, where a single one is
no surprise.

A model that begins one text in nineteen with a blank writes one text in nineteen that looks as if a server had put one
there: no test of single responses tells the two apart. A provider's responses together do. If a share s of its texts
got a blank from it, a text that begins with one is 1 − s + s · odds times as likely as it is otherwise, the odds being
those of the text without it, and one that does not is 1 − s times. The product over responses, averaged over shares, is
never more than 1 on average where nothing was put in, so that it exceeds 1 / ERROR with a probability of at most ERROR,
whenever one stops (Ville's inequality).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import exp, log

import numpy as np

from eagle_assets.judge.arbitration import CAP, ERROR
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question
from eagle_assets.judge.samples import in_batches, sampled
from eagle_assets.judge.scoring import Cost
from eagle_assets.judge.surprise import Trial, gain
from eagle_assets.judge.variants import Span, Variant, with_other_blank
from eagle_assets.judge.white_space import texts_of
from eagle_assets.serving.convention import Edge
from eagle_assets.targets.target import Target

_SHARES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99])

ProviderKey = tuple[str, bool]
"""Provider, streamed."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a text of a trusted response begins; `without` is the text without its blank, None where it has none."""

    exchange_id: str
    provider: ProviderKey
    edge: Edge
    trial: Trial
    without: Variant | None

    @property
    def group(self) -> tuple[ProviderKey, Edge]:
        """What it is heard about: of each so many are at most."""
        return self.provider, self.edge

    @property
    def questions(self) -> Iterator[Question]:
        if self.without is not None:
            yield self.trial.question
            yield self.trial.question_of(self.without)


Beginnings = Callable[[], Iterable[Beginning]]
"""All beginnings, as often as they are wanted."""


@dataclass(frozen=True, slots=True)
class Habit:
    """Of `responses` texts `blanks` begin with a blank, which is `nats` likelier where the provider puts one there than
    where the target alone does."""

    blanks: int
    responses: int
    nats: float


Habits = dict[tuple[ProviderKey, Edge], Habit]
"""The edges at which a provider was found to put blanks in; none of any other."""


def beginnings_in(exchange_id: str, provider: ProviderKey, trial: Trial, target: Target) -> Iterator[Beginning]:
    """How the reasoning and the content of a trusted response begin."""
    for span, is_reasoning in texts_of(trial, target):
        edge: Edge = "reasoning_start" if is_reasoning else "content_start"
        yield Beginning(exchange_id, provider, edge, trial, _without_blank(trial, span, target))


def blank_among(trial: Trial, provider: ProviderKey, habits: Habits, target: Target) -> tuple[int, Habit] | None:
    """The place of a blank ahead of a text of a trial that its provider is known to put there; None where none is."""
    if habits:
        for one in beginnings_in("", provider, trial, target):
            if one.without is not None and one.group in habits:
                return one.without.start, habits[one.group]
    return None


def cost_of_habits(beginnings: Beginnings, bench: Bench) -> Cost:
    """What it costs at most; it ends as soon as a habit is found."""
    return bench.cost(question for one in sampled(beginnings) for question in one.questions)


def habits_of(beginnings: Beginnings, bench: Bench) -> Habits:
    """What each provider was found to do."""
    tallies: dict[tuple[ProviderKey, Edge], _Tally] = defaultdict(_Tally)
    for batch in in_batches(sampled(beginnings), lambda group: tallies[group].is_decided):
        bench.ask(question for one in batch for question in one.questions)
        for one in batch:
            _hear(one, tallies[one.group], bench)
    return {group: tally.habit for group, tally in tallies.items() if tally.is_decided}


def _hear(one: Beginning, tally: _Tally, bench: Bench) -> None:
    if one.without is None:
        tally.add(0.0)
        return
    given, without = bench.scores(one.trial.question), bench.scores(one.trial.question_of(one.without))
    if given is not None and without is not None:
        tally.add(exp(min(CAP, gain(one.trial, one.without, given, without))))


def _without_blank(trial: Trial, span: Span, target: Target) -> Variant | None:
    begins_with_one = target.vocabulary.bytes_of(trial.output_ids[span.start]).startswith(b" ")
    return next(with_other_blank(trial.output_ids, span, target), None) if begins_with_one else None


@dataclass(slots=True)
class _Tally:
    """`likelier` is, for each of _SHARES, the logarithm of how much likelier the texts are."""

    likelier: np.ndarray = field(default_factory=lambda: np.zeros(len(_SHARES)))
    blanks: int = 0
    responses: int = 0

    def add(self, odds: float) -> None:
        """Odds of a text without its blank; 0 for a text that has none."""
        self.likelier += np.log(1 - _SHARES + _SHARES * odds)
        self.blanks += odds > 0
        self.responses += 1

    @property
    def nats(self) -> float:
        highest = float(self.likelier.max())
        return highest + log(float(np.exp(self.likelier - highest).mean()))

    @property
    def is_decided(self) -> bool:
        return self.nats >= log(1 / ERROR)

    @property
    def habit(self) -> Habit:
        return Habit(self.blanks, self.responses, round(self.nats, 1))
