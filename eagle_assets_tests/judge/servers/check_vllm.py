"""vLLM's own server on the CPU as the judge, with a tiny model: run by `make test-servers`, not by `make test`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eagle_assets.configuration import ServedJudge
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.opening import opened
from eagle_assets.judge.questions import QuestionRefused
from eagle_assets_tests.judge.servers.real_server import (
    CONTEXT,
    QUESTIONS,
    TOLERANCE,
    TOO_LONG,
    TinyModel,
    ask,
    assert_they_are_the_models_own,
    python,
    running,
)

ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@pytest.fixture(scope="module")
def judge(model: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedJudge]:
    command = [python(), "-m", "vllm.entrypoints.openai.api_server", "--model", model.folder]
    command += ["--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", str(CONTEXT)]
    command += ["--enforce-eager", "--skip-tokenizer-init", "--max-num-seqs", "4"]
    with running(command, ENVIRONMENT, tmp_path_factory.mktemp("log") / "vllm.log") as base_url:
        yield ServedJudge(kind="vllm", base_url=base_url)


def test_its_answers_are_the_models_own(judge: ServedJudge, model: TinyModel) -> None:
    assert_they_are_the_models_own(ask(judge, QUESTIONS), model)


def test_what_it_read_before_is_answered_alike(judge: ServedJudge) -> None:
    first, *others = ask(judge, [QUESTIONS[3]] * 6)
    for other in others:
        np.testing.assert_allclose(other.tokens, first.tokens, atol=TOLERANCE)


def test_what_does_not_fit_is_refused_and_stops_no_other(judge: ServedJudge, tmp_path: Path) -> None:
    with pytest.raises(QuestionRefused, match="context"):
        ask(judge, [TOO_LONG])
    with Bench(opened(judge, 4), tmp_path, 4) as bench:
        bench.ask([*QUESTIONS[:2], TOO_LONG])
        assert (bench.refused, bench.scores(TOO_LONG)) == (1, None)
        assert all(bench.scores(question) is not None for question in QUESTIONS[:2])
