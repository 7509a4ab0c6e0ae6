"""The judge and what it has said, as one thing to work with from code that is not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from types import TracebackType

from eagle_assets.judge.questions import Question, Scorer, Scores
from eagle_assets.judge.score_file import ScoreFile
from eagle_assets.judge.scoring import Cost, Progress, ask_all, cost_of
from eagle_assets.judge.surprise import Surprise, Trial
from eagle_assets.judge.surprise_file import SurpriseFile


class Bench:
    """Asks what was never asked, and remembers. Use as a context manager.

    `judge` is opened and closed with it; `folder` is where scores are kept; `concurrency` questions are in flight.
    Raises JudgeError, JudgeBusy and JournalError.
    """

    def __init__(self, judge: AbstractAsyncContextManager[Scorer], folder: Path, concurrency: int) -> None:
        self._opening, self._folder, self._concurrency = judge, folder, concurrency
        self._stack = ExitStack()
        self.refused = 0
        self.reason: str | None = None

    def __enter__(self) -> Bench:
        with ExitStack() as stack:
            self._runner = stack.enter_context(asyncio.Runner())
            self._scorer: Scorer = self._runner.run(self._opening.__aenter__())
            stack.callback(lambda: self._runner.run(self._opening.__aexit__(None, None, None)))
            self._scores = stack.enter_context(ScoreFile(self._folder, self._scorer.name))
            self._surprises = stack.enter_context(SurpriseFile(self._folder, self._scorer.name))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()

    @property
    def damage(self) -> str | None:
        """What had to be cut off of the scores that were kept, as a sentence, where they were damaged."""
        return None if self._scores.damage is None else str(self._scores.damage)

    @property
    def name(self) -> str:
        """Who judges."""
        return self._scorer.name

    def cost(self, questions: Iterable[Question]) -> Cost:
        """What asking them would cost."""
        return cost_of(questions, self._scores)

    def ask(self, questions: Iterable[Question]) -> Progress:
        """Ask what is not known yet."""
        progress = self._runner.run(ask_all(questions, self._scorer, self._scores, self._concurrency))
        self.refused += progress.refused
        self.reason = self.reason or progress.reason
        return progress

    def surprise(self, trial: Trial) -> Surprise | None:
        """What was found of an output before; None where that is not known."""
        return self._surprises.get(trial)

    def keep(self, trial: Trial, found: Surprise) -> None:
        """Remember what was found of an output."""
        self._surprises.put(trial, found)

    def scores(self, question: Question) -> Scores | None:
        """What the judge said; None where it was not asked, or refused to answer."""
        return self._scores.get(question)
