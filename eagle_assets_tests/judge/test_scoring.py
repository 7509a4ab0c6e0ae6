"""Asking many questions: each at most once, whatever ends the process, and a window of them in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eagle_assets.judge.questions import JudgeError, Question, QuestionRefused, Scores
from eagle_assets.judge.score_file import ScoreFile
from eagle_assets.judge.scoring import ask_all, cost_of
from eagle_assets.openrouter.record_file import JournalError
from eagle_assets.sandbox.judge_server import JudgeServer
from eagle_assets_tests.judge.serving import TARGET, serving, taught_target

QUESTIONS = [Question([n], [1, 2, 3]) for n in range(40)]


class Counting:
    """A judge that answers the prompt's first id, and keeps count."""

    name = "counting"

    def __init__(self, refuses: int | None = None, breaks_at: int | None = None) -> None:
        self.asked: list[int] = []
        self.at_once = self.most_at_once = 0
        self._refuses, self._breaks_at = refuses, breaks_at

    async def score(self, question: Question) -> Scores:
        number = question.prompt_ids[0]
        self.asked.append(number)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if number == self._refuses:
            raise QuestionRefused("too long")
        if number == self._breaks_at:
            raise JudgeError("broken")
        return Scores(np.full(3, -number, np.float32), np.empty((3, 0), np.float32))


def test_what_was_answered_is_there_and_not_asked_again(tmp_path: Path) -> None:
    judge = Counting()
    with ScoreFile(tmp_path, judge.name) as scores:
        asyncio.run(ask_all(QUESTIONS[:10], judge, scores, 4))
    with ScoreFile(tmp_path, judge.name) as scores:
        assert str(cost_of(QUESTIONS + QUESTIONS, scores)) == (
            "120 target tokens in 30 sequences (20 are known from before)"
        )
        progress = asyncio.run(ask_all([*QUESTIONS, *QUESTIONS], judge, scores, 4))
        assert (progress.asked, progress.tokens) == (30, 120)
        assert sorted(judge.asked) == list(range(40))
        for question in QUESTIONS:
            found = scores.get(question)
            assert found is not None
            assert found.tokens.tolist() == [-question.prompt_ids[0]] * 3
        assert scores.get(Question([0], [1, 2, 3], top=2)) is None


def test_what_the_server_answered_is_kept_byte_for_byte(tmp_path: Path) -> None:
    asked = Question([7], [1, 2], top=3)
    said = Scores(np.array([-1, -2], np.float32), np.full((2, 3), -3, np.float32), b'{"text": "", "meta_info": {}}')
    with ScoreFile(tmp_path, "one") as scores:
        scores.put(asked, said)
    with ScoreFile(tmp_path, "one") as scores:
        found = scores.get(asked)
    assert found is not None
    assert (found.tokens.tolist(), found.top.tolist()) == (said.tokens.tolist(), said.top.tolist())
    assert found.answer == said.answer


def test_no_question_that_was_answered_stays_in_memory(tmp_path: Path) -> None:
    """Asked of three hundred sequences, no more are alive at any time than are in flight, and one for each worker."""
    alive: set[int] = set()
    most = 0

    class Watched(list[int]):
        def __init__(self, number: int) -> None:
            super().__init__([1, 2, 3])
            self.number = number
            alive.add(number)

        def __del__(self) -> None:
            alive.discard(self.number)

    class Watching(Counting):
        async def score(self, question: Question) -> Scores:
            nonlocal most
            most = max(most, len(alive))
            return await super().score(question)

    with ScoreFile(tmp_path, "counting") as scores:
        asyncio.run(ask_all((Question([n], Watched(n)) for n in range(300)), Watching(), scores, 4))
    assert 4 <= most <= 9


def test_scores_of_another_judge_are_not_taken_for_this_ones(tmp_path: Path) -> None:
    with ScoreFile(tmp_path, "one") as scores:
        asyncio.run(ask_all(QUESTIONS, Counting(), scores, 4))
    with ScoreFile(tmp_path, "other") as scores:
        assert len(scores) == 0


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    with ScoreFile(tmp_path, "one"), pytest.raises(JournalError, match="another process"):
        ScoreFile(tmp_path, "one")
    with ScoreFile(tmp_path, "one") as again:
        assert len(again) == 0


def test_questions_are_drawn_as_there_is_room(tmp_path: Path) -> None:
    judge, drawn = Counting(), 0

    def endless() -> Iterator[Question]:
        nonlocal drawn
        for question in QUESTIONS:
            drawn += 1
            assert drawn - len(judge.asked) + judge.at_once <= 4
            yield question

    with ScoreFile(tmp_path, judge.name) as scores:
        asyncio.run(ask_all(endless(), judge, scores, 4))
    assert judge.most_at_once <= 4
    assert drawn == 40


def test_a_refused_question_stops_no_other(tmp_path: Path) -> None:
    with ScoreFile(tmp_path, "counting") as scores:
        progress = asyncio.run(ask_all(QUESTIONS, Counting(refuses=3), scores, 4))
        assert (progress.asked, progress.refused, progress.reason) == (40, 1, "too long")
        assert scores.get(QUESTIONS[3]) is None
        assert len(scores) == 39


def test_a_judge_that_breaks_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    judge = Counting(breaks_at=20)
    with ScoreFile(tmp_path, judge.name) as scores, pytest.raises(JudgeError, match="broken"):
        asyncio.run(ask_all(QUESTIONS, judge, scores, 4))
    with ScoreFile(tmp_path, judge.name) as scores:
        assert len(scores) == len(judge.asked) - 1 < 40


ASKING = """
import asyncio, sys
from pathlib import Path
from eagle_assets.configuration import ServedJudge
from eagle_assets.judge.opening import opened
from eagle_assets.judge.questions import Question
from eagle_assets.judge.score_file import ScoreFile
from eagle_assets.judge.scoring import ask_all

async def main(url, folder):
    async with opened(ServedJudge(kind="sglang", base_url=url), 3) as scorer:
        with ScoreFile(folder, "one judge") as scores:
            def questions():
                for n in range(120):
                    if n == 23:
                        print("20 are answered", flush=True)
                    yield Question([n], [n, n + 1])
            await ask_all(questions(), scorer, scores, 3)
            print(len(scores), flush=True)

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


def test_a_kill_loses_what_is_in_flight_and_no_more(tmp_path: Path) -> None:
    server = JudgeServer(taught_target(), TARGET)
    with serving(server.app) as url:
        command = [sys.executable, "-c", ASKING, url, str(tmp_path)]
        first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert first.stdout is not None
        assert first.stdout.readline() == "20 are answered\n"
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
        before = server.asked
        with ScoreFile(tmp_path, "one judge") as scores:
            known = len(scores)
        assert known >= 20
        assert before - known <= 3
        again = subprocess.run(command, capture_output=True, text=True, check=True)
        assert again.stdout.split()[-1] == "120"
        assert server.asked - before == 120 - known
