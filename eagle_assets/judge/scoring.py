"""Asking the judge: many questions, a window of them in memory, each at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from eagle_assets.judge.questions import Question, QuestionRefused, Scorer
from eagle_assets.judge.score_file import ScoreFile

_QUESTIONS_PER_SYNC = 256


@dataclass(frozen=True, slots=True)
class Cost:
    """What questions cost: `tokens` the target has still to read for `questions`; `known` were answered before."""

    questions: int
    tokens: int
    known: int

    def __str__(self) -> str:
        before = f" ({self.known:,} are known from before)" if self.known else ""
        return f"{self.tokens:,} target tokens in {self.questions:,} sequences{before}"


@dataclass(slots=True)
class Progress:
    """How far it is. `refused` are questions that the judge would not answer, `reason` what it said of the first."""

    asked: int = 0
    tokens: int = 0
    refused: int = 0
    reason: str | None = None


def cost_of(questions: Iterable[Question], scores: ScoreFile) -> Cost:
    """Each question counts once, however often it comes; asks nobody."""
    seen: set[bytes] = set()
    tokens = known = 0
    for question in questions:
        if question in scores:
            known += 1
        elif question.key not in seen:
            seen.add(question.key)
            tokens += question.tokens
    return Cost(len(seen), tokens, known)


async def ask_all(questions: Iterable[Question], scorer: Scorer, scores: ScoreFile, concurrency: int) -> Progress:
    """Ask what is not known yet; `concurrency` questions are in flight, and no more than these in memory.

    Questions are drawn as there is room. What was answered is in `scores` at once, so that whoever is interrupted goes
    on where it was. Raises JudgeError, and JudgeBusy where the judge stays away, after the answers in flight came in.
    """
    progress, under_way, stop = Progress(), set[bytes](), asyncio.Event()
    waiting = iter(questions)

    async def work() -> None:
        for question in waiting:
            if stop.is_set():
                return
            if question in scores or question.key in under_way:
                continue
            under_way.add(question.key)
            try:
                scores.put(question, await scorer.score(question))
                progress.tokens += question.tokens
            except QuestionRefused as refusal:
                progress.refused += 1
                progress.reason = progress.reason or str(refusal)
            finally:
                under_way.discard(question.key)
            progress.asked += 1
            if progress.asked % _QUESTIONS_PER_SYNC == 0:
                scores.sync()

    workers = [asyncio.ensure_future(work()) for _ in range(concurrency)]
    try:
        await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        stop.set()
        await asyncio.gather(*workers)
    except asyncio.CancelledError:
        for worker in workers:
            worker.cancel()
        raise
    finally:
        stop.set()
        await asyncio.gather(*workers, return_exceptions=True)
        scores.sync()
    return progress
