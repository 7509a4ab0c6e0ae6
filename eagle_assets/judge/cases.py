"""Responses one by one before the judge, once it is known what it decided of all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.habits import Habits, ProviderKey, blank_among
from eagle_assets.judge.questions import Question
from eagle_assets.judge.rivals import CallNumbers, RivalIds
from eagle_assets.judge.scan import WINDOW, Experience, Scan
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.verdicts import Judged, judged, trusted_trial_of, with_habit
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.targets.target import Target

Explains = Callable[[Reconstruction, Sequence[int]], bool]
"""Whether other ids than a verdict's explain all that was seen of its response too."""


@dataclass(frozen=True, slots=True)
class Case:
    """A response, its verdict before the judge and after what it decided of all. `open` is what it may yet settle of
    this one."""

    provider: ProviderKey
    request: dict[str, Any]
    before: Reconstruction
    after: Reconstruction
    open: RivalIds | CallNumbers | None
    explains: Explains

    def trial(self, target: Target) -> Trial | None:
        """Its ids, where they are trusted."""
        return trusted_trial_of(self.after, self.request, target)


Some = TypeVar("Some", bound=Case)


def questions_of(cases: Iterable[Case]) -> Iterator[Question]:
    """What is asked of single responses that are open."""
    return (question for case in cases if case.open is not None for question in case.open.questions())


def trials_of(cases: Iterable[Case], target: Target) -> Iterator[Trial]:
    """What is trusted."""
    return (trial for trial in (case.trial(target) for case in cases) if trial is not None)


def judged_cases(
    cases: Iterator[Some], bench: Bench, target: Target, learnt: Experience, habits: Habits, limit: float
) -> Iterator[tuple[Some, Judged]]:
    """What the judge makes of each, in order; a window of them is in memory. What is lifted is wrong with a probability
    of `limit` at most."""
    scan = Scan(bench, target)
    while window := list(islice(cases, WINDOW)):
        bench.ask(questions_of(window))
        window = [
            case if case.open is None else replace(case, after=case.open.settled(bench, limit)) for case in window
        ]
        trials = [case.trial(target) for case in window]
        surprises = iter(scan.surprises_of([trial for trial in trials if trial is not None]))
        for case, trial in zip(window, trials, strict=True):
            surprise = next(surprises) if trial is not None else None
            found = judged(case.before, case.after, surprise, learnt.threshold, partial(case.explains, case.after))
            yield case, _in_view_of_habits(found, case, trial, habits, target)


def _in_view_of_habits(found: Judged, case: Case, trial: Trial | None, habits: Habits, target: Target) -> Judged:
    if trial is None or found.change in ("repaired", "contradicted"):
        return found
    blank = blank_among(trial, case.provider, habits, target)
    return found if blank is None else with_habit(found, *blank)
