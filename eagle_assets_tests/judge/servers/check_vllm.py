"""vLLM's own server on the CPU as the judge, with a tiny model: run by `make test-servers`, not by `make test`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest

from eagle_assets.configuration import ServedJudge
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.opening import opened
from eagle_assets.judge.questions import Question, QuestionRefused, Scores

PYTHON = Path(os.environ["VLLM_PYTHON"])
READY_WITHIN = 900  # seconds
CONTEXT = 512
QUESTIONS = [
    Question([163_584, 5, 6, 7], [8, 9, 163_586], 8),
    Question([5], [6, 7]),
    Question([], [6, 7, 8], 2),
    Question(list(range(1_000, 1_300)), list(range(500, 600))),
    Question([5, 6], [163_839, 163_607]),
]
ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, list[float]]]]:
    """The folder of a model, and what transformers says of QUESTIONS."""
    folder = tmp_path_factory.mktemp("model")
    asked = json.dumps([[list(q.prompt_ids), list(q.output_ids)] for q in QUESTIONS])
    command = [PYTHON, Path(__file__).with_name("tiny_model.py"), folder, asked]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    return folder, [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def server(model: tuple[Path, object], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", model[0], "--served-model-name", "tiny"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", str(CONTEXT)]
    command += ["--enforce-eager", "--skip-tokenizer-init", "--max-num-seqs", "4"]
    log = tmp_path_factory.mktemp("log") / "vllm.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **ENVIRONMENT}, start_new_session=True
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


def ask(base_url: str, questions: Sequence[Question]) -> list[Scores]:
    async def all_of_them() -> list[Scores]:
        async with opened(ServedJudge(kind="vllm", base_url=base_url), 4) as scorer:
            return list(await asyncio.gather(*map(scorer.score, questions)))

    return asyncio.run(all_of_them())


def test_its_answers_are_the_models_own(server: str, model: tuple[Path, list[dict[str, list[float]]]]) -> None:
    for question, found, expected in zip(QUESTIONS, ask(server, QUESTIONS), model[1], strict=True):
        first = 0 if question.prompt_ids else 1  # the first token of all has none
        assert np.isnan(found.tokens[:first]).all()
        np.testing.assert_allclose(found.tokens[first:], expected["tokens"], atol=2e-3)
        assert found.top.shape == (len(question.output_ids), question.top)
        if question.top:
            top = np.array(expected["top"])[:, : question.top]
            np.testing.assert_allclose(np.sort(found.top[first:], axis=1)[:, ::-1], top, atol=2e-3)


def test_what_it_read_before_is_answered_alike(server: str) -> None:
    first, *others = ask(server, [QUESTIONS[3]] * 6)
    for other in others:
        np.testing.assert_allclose(other.tokens, first.tokens, atol=2e-3)


def test_what_does_not_fit_is_refused_and_stops_no_other(server: str, tmp_path: Path) -> None:
    too_long = Question(list(range(CONTEXT)), [1])
    with pytest.raises(QuestionRefused, match="context"):
        ask(server, [too_long])
    with Bench(opened(ServedJudge(kind="vllm", base_url=server), 4), tmp_path, 4) as bench:
        bench.ask([*QUESTIONS[:2], too_long])
        assert (bench.refused, bench.scores(too_long)) == (1, None)
        assert all(bench.scores(question) is not None for question in QUESTIONS[:2])
