"""Blanks that a provider puts ahead of texts: no surprise in one response, and found in a provider's together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from eagle_assets.judge.arbitration import ERROR
from eagle_assets.judge.habits import Beginning, Habits, beginnings_in, blank_among, habits_of
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.variants import leading_blanks
from eagle_assets.sandbox.outputs import true_output
from eagle_assets_tests.judge.corpus import TARGET, answers, bench, small_target

KEY = ("Lakeside", True)


@cache
def right() -> list[Trial]:
    """Right outputs, of which one text in nineteen begins with a blank."""
    return [Trial(prompt, output) for prompt, output in answers(true_output, 5) if output]


def with_blanks(every: int) -> list[tuple[Trial, bool]]:
    """The same, a blank put ahead of the texts of each so many; and whether it was."""
    found = []
    for number, trial in enumerate(right()):
        planted = number % every == 0
        ids = list(trial.output_ids)
        for variant in sorted(leading_blanks(ids, TARGET), key=lambda v: -v.start) if planted else ():
            changed = variant.applied_to(ids)
            if TARGET.vocabulary.decode(changed[variant.start : variant.start + 1])[:1] == b" ":
                ids = changed
        found.append((Trial(trial.prompt_ids, ids), ids != list(trial.output_ids)))
    return found


def beginnings(trials: list[Trial]) -> Iterator[Beginning]:
    for number, trial in enumerate(trials):
        yield from beginnings_in(f"e{number}", KEY, trial, TARGET)


def habits_in(trials: list[Trial], folder: Path) -> Habits:
    with bench(small_target(), folder) as bench_:
        return habits_of(partial(beginnings, trials), bench_)


def test_what_a_model_writes_now_and_then_is_no_habit_of_its_provider(tmp_path: Path) -> None:
    assert habits_in(right(), tmp_path) == {}
    assert sum(one.without is not None for one in beginnings(right())) >= 5


@pytest.mark.parametrize("every", [1, 2, 4])
def test_blanks_that_are_put_in_are_found(every: int, tmp_path: Path) -> None:
    trials = with_blanks(every)
    habits = habits_in([trial for trial, _ in trials], tmp_path)
    assert set(habits) == {(KEY, "reasoning_start"), (KEY, "content_start")}
    found = [blank_among(trial, KEY, habits, TARGET) is not None for trial, _ in trials]
    planted = [was for _, was in trials]
    assert sum(hit and was for hit, was in zip(found, planted, strict=True)) >= 0.9 * sum(planted)
    for trial, (changed, was) in zip(right(), trials, strict=True):
        if not was:
            assert changed.output_ids == trial.output_ids
    assert all(habit.nats >= 6.9 and habit.blanks <= habit.responses <= 200 for habit in habits.values())
    if every == 1:
        assert all(habit.responses <= 12 for habit in habits.values())
    assert blank_among(trials[0][0], ("Another", True), habits, TARGET) is None
    assert ERROR == 0.001
