"""The judge over a real socket: servers that answer as SGLang's and vLLM's sources say, and in trouble."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from eagle_assets.configuration import ServedJudge
from eagle_assets.judge import sglang, vllm
from eagle_assets.judge.opening import opened
from eagle_assets.judge.questions import JudgeBusy, JudgeError, Question, QuestionRefused, Scores
from eagle_assets.judge.server import InferenceServer, SglangScorer, VllmScorer
from eagle_assets.openrouter.timing import Timing
from eagle_assets.sandbox.judge_server import JudgeServer
from eagle_assets_tests.judge.serving import PROMPT, TARGET, TAUGHT, serving, taught_target

MODEL = taught_target()
AT_ONCE = Timing(wait_first=0.01, wait_most=0.02)
KINDS = ("sglang", "vllm")


@pytest.fixture(scope="module")
def judge() -> Iterator[tuple[JudgeServer, str]]:
    server = JudgeServer(MODEL, TARGET, context_length=200)
    with serving(server.app) as url:
        yield server, url


def ask(url: str, kind: str, question: Question) -> Scores:
    async def asked() -> Scores:
        async with opened(ServedJudge(kind=kind, base_url=url), 2) as scorer:  # type: ignore[arg-type]
            return await scorer.score(question)

    return asyncio.run(asked())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("top", [0, 3])
def test_each_token_of_the_output_gets_the_models_own_logprob(
    judge: tuple[JudgeServer, str], kind: str, top: int
) -> None:
    question = Question(PROMPT, TAUGHT[2], top)
    found, _, likeliest = MODEL.logprobs([*PROMPT, *TAUGHT[2]], len(PROMPT), top)
    scores = ask(judge[1], kind, question)
    assert scores.tokens.dtype == np.float32
    np.testing.assert_allclose(scores.tokens, found, rtol=1e-5)
    assert scores.top.shape == (len(TAUGHT[2]), top)
    if kind == "sglang":
        np.testing.assert_allclose(scores.top, likeliest, rtol=1e-5)
    else:  # vLLM adds the token itself where it is not among them
        known = likeliest > -np.inf
        np.testing.assert_allclose(scores.top[known], likeliest[known], rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_prompt_the_first_token_has_no_logprob(judge: tuple[JudgeServer, str], kind: str) -> None:
    scores = ask(judge[1], kind, Question([], TAUGHT[0]))
    assert np.isnan(scores.tokens[0])
    assert np.isfinite(scores.tokens[1:]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_without_tokens_has_no_logprobs(judge: tuple[JudgeServer, str], kind: str) -> None:
    for top in (0, 4):
        assert ask(judge[1], kind, Question(PROMPT, [], top)).tokens.tolist() == []


def test_sglang_shows_the_last_id_of_the_vocabulary_as_0(judge: tuple[JudgeServer, str]) -> None:
    padding = TARGET.vocabulary.size - 1
    scores = ask(judge[1], "sglang", Question(PROMPT, [*TAUGHT[0], padding]))
    assert len(scores.tokens) == len(TAUGHT[0]) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_into_the_context_is_refused_with_the_servers_words(
    judge: tuple[JudgeServer, str], kind: str
) -> None:
    with pytest.raises(QuestionRefused, match="context length"):
        ask(judge[1], kind, Question(PROMPT, [5] * 300))


def test_sglang_keeps_seven_tokens_of_the_context_for_itself(judge: tuple[JudgeServer, str]) -> None:
    fits = Question(PROMPT, [5] * (200 - 7 - len(PROMPT)))
    assert len(ask(judge[1], "sglang", fits).tokens) == len(fits.output_ids)
    with pytest.raises(QuestionRefused, match=r"\(194 tokens\) exceeds the maximum"):
        ask(judge[1], "sglang", Question(PROMPT, [*fits.output_ids, 5]))


def test_a_prompt_that_sglang_cut_is_a_question_refused() -> None:
    """With `--allow-auto-truncate`, of a repetition: the ids that are left would pass for those that were asked for."""
    entries = [[None, 1, None], [-0.5, 1, None]]
    answer = {"meta_info": {"prompt_tokens": 2, "input_token_logprobs": entries}}
    with pytest.raises(QuestionRefused, match="the server read 2 of 3 tokens"):
        sglang.scores_in(answer, Question([1], [1, 1]))


def test_the_requests_are_as_the_servers_take_them() -> None:
    question = Question([7, 8, 9], [1, 2], top=40)
    assert sglang.request_of(question) == {
        "input_ids": [7, 8, 9, 1, 2],
        "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
        "return_logprob": True,
        "logprob_start_len": 2,
        "top_logprobs_num": 40,
        "return_text_in_logprobs": False,
        "stream": False,
    }
    assert vllm.request_of(question, "k2") == {
        "model": "k2",
        "prompt": [7, 8, 9, 1, 2],
        "max_tokens": 1,
        "temperature": 1.0,
        "prompt_logprobs": 20,
    }


def test_gaps_of_a_server_stay_gaps() -> None:
    entries = [[None, 9, None], [-0.5, 1, None], [None, 2, None]]
    scores = sglang.scores_in({"meta_info": {"input_token_logprobs": entries}}, Question([9], [1, 2]))
    assert scores.tokens[0] == np.float32(-0.5)
    assert np.isnan(scores.tokens[1])


def test_vllms_floor_stands_for_minus_infinity() -> None:
    places = [None, {"1": {"logprob": -9999.0, "rank": 163840, "decoded_token": "x"}}]
    scores = vllm.scores_in({"choices": [{"prompt_logprobs": places}]}, Question([9], [1]))
    assert scores.tokens[0] == -np.inf


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (sglang.scores_in, {"text": "hello", "meta_info": {}}),
        (sglang.scores_in, {"meta_info": {"input_token_logprobs": [[-1.0, 1, None], [-1.0, 7, None]]}}),
        (sglang.scores_in, {"meta_info": {"input_token_logprobs": [[-1.0, 2, None]]}}),
        (vllm.scores_in, {"choices": []}),
        (vllm.scores_in, {"choices": [{"prompt_logprobs": None}]}),
        (
            vllm.scores_in,
            {"choices": [{"prompt_logprobs": [None, {"1": {"logprob": -1.0}}, {"7": {"logprob": -1.0}}]}]},
        ),
    ],
)
def test_an_answer_about_other_ids_is_no_answer(read: Callable[[Any, Question], Scores], answer: Any) -> None:
    with pytest.raises(JudgeError, match="the judge's answer"):
        read(answer, Question([9], [1, 2]))


def troubled(statuses: list[int], then: Response) -> tuple[Starlette, list[int]]:
    """A server that first answers these statuses."""
    met: list[int] = []

    async def answer(_: Request) -> Response:
        met.append(statuses[len(met)] if len(met) < len(statuses) else then.status_code)
        return PlainTextResponse("wait a little", met[-1]) if len(met) <= len(statuses) else then

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]), met


def with_server(url: str, use: Callable[[InferenceServer], Awaitable[Any]]) -> Any:
    async def used() -> Any:
        async with InferenceServer(url, 1, timing=AT_ONCE) as server:
            return await use(server)

    return asyncio.run(used())


def test_a_busy_judge_is_asked_again() -> None:
    entries = [[None, 9, None], [-0.5, 1, None]]
    app, met = troubled([503, 429, 500], JSONResponse({"meta_info": {"input_token_logprobs": entries}}))
    with serving(app) as url:
        scores = with_server(url, lambda server: SglangScorer(server).score(Question([9], [1])))
    assert scores.tokens.tolist() == [-0.5]
    assert json.loads(scores.answer) == {"meta_info": {"input_token_logprobs": entries}}
    assert met == [503, 429, 500, 200]


def test_a_judge_that_stays_away_is_named() -> None:
    app, met = troubled([503] * 9, JSONResponse({}))
    with serving(app) as url, pytest.raises(JudgeBusy, match=f"{url} answers 503: wait a little"):
        with_server(url, lambda server: server.get("v1/models"))
    assert len(met) == 6
    with pytest.raises(JudgeBusy, match="does not answer"):
        with_server("http://127.0.0.1:1", lambda server: server.get("v1/models"))


@pytest.mark.parametrize(
    ("then", "said"), [(PlainTextResponse("nobody", 404), "404"), (PlainTextResponse("<html>"), "JSON")]
)
def test_what_is_no_such_server_is_not_asked_again(then: Response, said: str) -> None:
    app, met = troubled([], then)
    with serving(app) as url, pytest.raises(JudgeError, match=said):
        with_server(url, lambda server: VllmScorer(server, "k2").score(Question([9], [1])))
    assert len(met) == 1


def test_a_base_url_may_end_in_v1_and_the_served_model_is_looked_up(judge: tuple[JudgeServer, str]) -> None:
    assert np.isfinite(ask(f"{judge[1]}/v1", "vllm", Question(PROMPT, TAUGHT[0])).tokens).all()
