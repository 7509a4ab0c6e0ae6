"""A judge behind an inference server: one question over HTTP, tried again while the server is busy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import httpx
import msgspec
from httpx_aiohttp import HttpxAiohttpClient
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from eagle_assets.judge import sglang, vllm
from eagle_assets.judge.questions import JudgeBusy, JudgeError, Question, QuestionRefused, Scores
from eagle_assets.openrouter.decisions import RETRY_STATUSES
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.values import as_dict, as_list

ATTEMPTS = 6
_REFUSED = frozenset({400, 413, 422})  # this question is too long, or not to the server's liking; others may be
_MOST_SHOWN = 300  # characters of what a server says of a mistake


class InferenceServer:
    """Connections to one server. Use as an async context manager; raises JudgeBusy, JudgeError, QuestionRefused."""

    def __init__(self, base_url: str, connections: int, key: str | None = None, timing: Timing | None = None) -> None:
        timing = timing or Timing()
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self._client: httpx.AsyncClient = HttpxAiohttpClient(
            base_url=self.base_url + "/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=connections, keepalive_expiry=30.0),
            timeout=httpx.Timeout(timing.total, connect=timing.connect),
        )
        self._wait = wait_exponential(timing.wait_first, timing.wait_most) + wait_random(0, timing.wait_first)

    async def __aenter__(self) -> InferenceServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def post(self, path: str, document: Any) -> tuple[Any, bytes]:
        """The JSON document that answers, also as it came; what is busy or breaks off is tried again, at growing
        intervals."""
        return await self._ask("POST", path, msgspec.json.encode(document))

    async def get(self, path: str) -> tuple[Any, bytes]:
        """As `post`."""
        return await self._ask("GET", path, None)

    async def _ask(self, method: str, path: str, content: bytes | None) -> tuple[Any, bytes]:
        tries = AsyncRetrying(
            retry=retry_if_exception_type(JudgeBusy), stop=stop_after_attempt(ATTEMPTS), wait=self._wait, reraise=True
        )
        return await tries(self._ask_once, method, path, content)

    async def _ask_once(self, method: str, path: str, content: bytes | None) -> tuple[Any, bytes]:
        try:
            headers = {"Content-Type": "application/json"}
            response = await self._client.request(method, path, content=content, headers=headers)
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            raise JudgeBusy(f"the judge at {self.base_url} does not answer ({type(error).__name__}: {error})") from None
        if response.status_code in RETRY_STATUSES:
            raise JudgeBusy(f"the judge at {self.base_url} answers {response.status_code}: {_said(response)}")
        if response.status_code in _REFUSED:
            raise QuestionRefused(_said(response))
        if response.status_code != 200:
            raise JudgeError(
                f"the judge at {self.base_url} answers {response.status_code} to /{path}: {_said(response)}"
            )
        try:
            return msgspec.json.decode(response.content), response.content
        except msgspec.DecodeError:
            raise JudgeError(f"the judge at {self.base_url} does not answer /{path} in JSON") from None


class SglangScorer:
    """A Scorer: an SGLang server."""

    def __init__(self, server: InferenceServer) -> None:
        self.name = f"sglang {server.base_url}"
        self._server = server

    async def score(self, question: Question) -> Scores:
        document, answer = await self._server.post(sglang.PATH, sglang.request_of(question))
        return replace(sglang.scores_in(document, question), answer=answer)


class VllmScorer:
    """A Scorer: a vLLM server, and the name by which it serves the target; None takes its first model."""

    def __init__(self, server: InferenceServer, model: str | None = None) -> None:
        self.name = f"vllm {server.base_url}{f' {model}' if model else ''}"
        self._server = server
        self._model = model

    async def score(self, question: Question) -> Scores:
        if self._model is None:
            served, _ = await self._server.get("v1/models")
            models = as_list(as_dict(served).get("data"))
            self._model = str(as_dict(models[0] if models else None).get("id", ""))
        document, answer = await self._server.post(vllm.PATH, vllm.request_of(question, self._model))
        return replace(vllm.scores_in(document, question), answer=answer)


def _said(response: httpx.Response) -> str:
    """What the server said, short."""
    return " ".join(response.text.split())[:_MOST_SHOWN] or "nothing more"
