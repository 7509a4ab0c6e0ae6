"""A server of others with a tiny model, on the CPU, and how its answers are held against the model's own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from eagle_assets.configuration import ServedJudge
from eagle_assets.judge.opening import opened
from eagle_assets.judge.questions import Question, Scores

READY_WITHIN = 900  # seconds
CONTEXT = 512
QUESTIONS = [
    Question([163_584, 5, 6, 7], [8, 9, 163_586], 8),
    Question([5], [6, 7]),
    Question([], [6, 7, 8], 2),
    Question(list(range(1_000, 1_300)), list(range(500, 600)), 3),
    Question([5, 6], [163_839, 163_607]),
]
TOO_LONG = Question(list(range(CONTEXT)), [1])
TOLERANCE = 2e-3  # nats


@dataclass(frozen=True)
class TinyModel:
    """The folder of a model, and what transformers says of QUESTIONS."""

    folder: Path
    answers: list[dict[str, Any]]


def python() -> Path:
    """That of the servers' environment."""
    return Path(os.environ["SERVERS_PYTHON"])


@contextmanager
def running(command: Sequence[str | Path], environment: Mapping[str, str], log: Path) -> Iterator[str]:
    """The base URL under which it answers; `--host` and `--port` are added to the command."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
            start_new_session=True,
        )
        try:
            base_url = f"http://127.0.0.1:{port}"
            _wait_for(base_url, process, log)
            yield base_url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _wait_for(base_url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_WITHIN
    while time.monotonic() < until:
        try:
            if httpx.get(f"{base_url}/health").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        assert process.poll() is None, log.read_text()[-4_000:]
        time.sleep(1)
    raise AssertionError(f"no server within {READY_WITHIN} s:\n{log.read_text()[-4_000:]}")


def ask(judge: ServedJudge, questions: Sequence[Question]) -> list[Scores]:
    async def all_of_them() -> list[Scores]:
        async with opened(judge, 4) as scorer:
            return list(await asyncio.gather(*map(scorer.score, questions)))

    return asyncio.run(all_of_them())


def assert_they_are_the_models_own(found: Sequence[Scores], model: TinyModel) -> None:
    """Answers to QUESTIONS."""
    for question, scores, expected in zip(QUESTIONS, found, model.answers, strict=True):
        first = 0 if question.prompt_ids else 1  # the first token of all has none
        assert np.isnan(scores.tokens[:first]).all()
        np.testing.assert_allclose(scores.tokens[first:], expected["tokens"], atol=TOLERANCE)
        assert scores.top.shape == (len(question.output_ids), question.top)
        if question.top:
            top = np.array(expected["top"])[:, : question.top]
            np.testing.assert_allclose(np.sort(scores.top[first:], axis=1)[:, ::-1], top, atol=TOLERANCE)
