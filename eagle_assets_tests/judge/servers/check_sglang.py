"""SGLang's own server on the CPU as the judge, and as what a local dataset is made of, with a tiny model: run by
`make test-servers`, not by `make test`. Its kernels are not run: sglang_on_cpu.py says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from eagle_assets.configuration import ServedJudge
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.opening import opened
from eagle_assets.judge.questions import Question, QuestionRefused, Scores
from eagle_assets.reconstruction.own.local_forms import STOP_STRING, local_response
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

CHUNK = 64  # tokens
PROMPT = [5, 6, 7]


@dataclass(frozen=True)
class Deployment:
    """How the server was started: `cut` whether prompts that are too long are cut instead of refused."""

    judge: ServedJudge
    tokenizer: bool
    cached: bool
    cut: bool

    def post(self, path: str, **request: Any) -> bytes:
        answer = httpx.post(f"{self.judge.base_url}/{path}", json=request, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.content


@pytest.fixture(scope="module", params=["bare", "whole"])
def deployment(
    request: pytest.FixtureRequest, model: TinyModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    command: list[str | Path] = [python(), Path(__file__).with_name("sglang_on_cpu.py"), "--model-path", model.folder]
    command += ["--served-model-name", "tiny", "--device", "cpu", "--dtype", "float32"]
    command += ["--context-length", str(CONTEXT), "--chunked-prefill-size", str(CHUNK), "--max-total-tokens", "4096"]
    command += ["--attention-backend", "torch_native", "--grammar-backend", "none", "--skip-server-warmup"]
    bare = request.param == "bare"
    command += ["--skip-tokenizer-init"] if bare else ["--disable-radix-cache", "--allow-auto-truncate"]
    with running(command, {}, tmp_path_factory.mktemp("log") / "sglang.log") as base_url:
        yield Deployment(ServedJudge(kind="sglang", base_url=base_url), not bare, cached=bare, cut=not bare)


def cached_tokens(scores: Scores) -> int:
    return int(json.loads(scores.answer)["meta_info"]["cached_tokens"])


def test_its_answers_are_the_models_own_cold_and_warm_and_across_chunks(
    deployment: Deployment, model: TinyModel
) -> None:
    assert max(question.tokens for question in QUESTIONS) > 2 * CHUNK
    cold, warm = ask(deployment.judge, QUESTIONS), ask(deployment.judge, QUESTIONS)
    assert_they_are_the_models_own(cold, model)
    assert_they_are_the_models_own(warm, model)
    known = [max(0, len(question.prompt_ids) - 1) if deployment.cached else 0 for question in QUESTIONS]
    assert [cached_tokens(scores) for scores in warm] == known


def test_what_does_not_fit_is_refused_and_stops_no_other(deployment: Deployment, tmp_path: Path) -> None:
    cut_at_its_end = Question(list(range(CONTEXT - 10)), [1] * 9)
    with pytest.raises(QuestionRefused, match="cut the rest off" if deployment.cut else "exceeds the maximum"):
        ask(deployment.judge, [cut_at_its_end])
    with Bench(opened(deployment.judge, 4), tmp_path, 4) as bench:
        bench.ask([*QUESTIONS[:2], TOO_LONG, cut_at_its_end])
        assert (bench.refused, bench.scores(TOO_LONG)) == (2, None)
        assert all(bench.scores(question) is not None for question in QUESTIONS[:2])


def test_seven_tokens_less_than_the_context_fit(deployment: Deployment) -> None:
    (scores,) = ask(deployment.judge, [Question(list(range(CONTEXT - 17)), list(range(10)))])
    assert np.isfinite(scores.tokens).all()


def test_generated_ids_are_read_and_are_what_the_model_finds_likeliest(deployment: Deployment) -> None:
    greedy = {"temperature": 0, "max_new_tokens": 4}
    body = deployment.post("generate", input_ids=PROMPT, sampling_params=greedy, return_prompt_token_ids=True)
    found = local_response(body)
    assert (found.prompt_ids, found.finish_reason) == (PROMPT, "length")
    assert (found.prompt_tokens, found.completion_tokens) == (3, len(found.output_ids)) == (3, 4)
    assert found.text == (text_of(found.output_ids) if deployment.tokenizer else None)
    (scores,) = ask(deployment.judge, [Question(PROMPT, found.output_ids, 1)])
    np.testing.assert_allclose(scores.tokens, scores.top[:, 0], atol=TOLERANCE)

    stop = found.output_ids[1]
    body = deployment.post("generate", input_ids=PROMPT, sampling_params={**greedy, "stop_token_ids": [stop]})
    stopped = local_response(json.dumps({"input_ids": PROMPT, "response": json.loads(body)}).encode())
    assert (stopped.prompt_ids, stopped.output_ids) == (PROMPT, found.output_ids[:2])
    assert (stopped.finish_reason, stopped.completion_tokens) == ("stop", 2)


@pytest.mark.parametrize("deployment", ["whole"], indirect=True)
def test_chat_completions_give_their_ids(deployment: Deployment) -> None:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": text_of(PROMPT)}], "temperature": 0}
    asked = chat | {"max_tokens": 4, "return_token_ids": True}
    found = local_response(deployment.post("v1/chat/completions", **asked))
    assert (found.prompt_ids, found.prompt_tokens) == (PROMPT, 3)
    assert (len(found.output_ids), found.completion_tokens, found.finish_reason) == (4, 4, "length")
    assert found.message is not None
    assert found.message.content == text_of(found.output_ids)

    first, stop = found.output_ids[:2]
    stopped = local_response(deployment.post("v1/chat/completions", **asked, stop_token_ids=[stop]))
    assert (stopped.output_ids, stopped.finish_reason, stopped.completion_tokens) == ([first, stop], "stop", 2)
    by_a_text = local_response(deployment.post("v1/chat/completions", **asked, stop=[f"w{stop}"]))
    assert (by_a_text.output_ids, by_a_text.finish_reason) == ([first, stop], STOP_STRING)


def text_of(ids: list[int]) -> str:
    return "".join(f" w{token}" for token in ids)
