"""The loopback server that stands in for OpenRouter: same interface, known ids, several providers with habits."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from eagle_assets.configuration import ALWAYS_EXCLUDED
from eagle_assets.sandbox.answering import answer_of
from eagle_assets.sandbox.books import Books
from eagle_assets.sandbox.envelope import COMMENT, KEEP_ALIVE, Answer, error_body, event_stream, json_body
from eagle_assets.sandbox.faults import ANOTHER_MODEL, Faults, Replays
from eagle_assets.sandbox.providers import Provider, all_providers
from eagle_assets.sandbox.routing import choose, digest_of
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import PromptError, prompt_ids
from eagle_assets.targets.target import UnknownTarget

EVENTS_PER_WRITE = 16
CREDIT_USD = Decimal(100)


class CutStream(ConnectionError):
    """Ends a response in the middle, as a provider does that breaks off; the connection closes."""


class Sandbox:
    """The application; `truth_file` gets a line for each answer, `credit_usd` is what its key may spend."""

    def __init__(
        self,
        truth_file: Path | None = None,
        credit_usd: Decimal = CREDIT_USD,
        faults: Faults | None = None,
        replays: Replays | None = None,
    ) -> None:
        self.books = Books(truth_file, credit_usd)
        self.faults, self.replays = faults or Faults(), replays or Replays()
        self._streams = 0
        self.providers = all_providers()
        self.app = Starlette(
            routes=[
                Route("/api/v1/chat/completions", self.complete, methods=["POST"]),
                Route("/api/v1/generation", self.generation),
                Route("/api/v1/models/{author}/{slug}/endpoints", self.endpoints),
                Route("/api/v1/key", self.key),
                Route("/sandbox/books", self.show_books),
            ]
        )

    async def complete(self, http: Request) -> Response:
        if not _authorised(http):
            return _error("No auth credentials found", 401)
        try:
            request = json.loads(await http.body())
        except ValueError:
            return _error("The request's body is not JSON", 400)
        problem = problem_with(request)
        if problem:
            return _error(problem, 400)
        if self.books.billed_usd >= self.books.credit_usd:
            return _error("Insufficient credits. Add more to keep on using the API.", 402)
        if (recorded := self.replays.answer(request)) is not None:
            return recorded
        provider = choose(self.providers, request)
        if provider is None:
            return _error("No allowed providers are available for the selected model.", 404)
        streamed = bool(request.get("stream"))
        self._streams += streamed
        if streamed and self.faults.is_excluded(self._streams):
            provider = next(p for p in self.providers if p.slug in ALWAYS_EXCLUDED)
        number = self.books.number_of_request(provider, streamed)
        return self.failure(provider, request["model"], number) or self.success(provider, request, streamed, number)

    def failure(self, provider: Provider, model: str, number: int) -> Response | None:
        """The error that the provider's habits give this request, if any."""
        habits = provider.habits
        if _is_due(habits.rate_limited_every, number):
            raw = f"{model} is temporarily rate-limited upstream. Please retry shortly."
            metadata = {"raw": raw, "provider_name": provider.name}
            return _error("Provider returned error", 429, metadata, headers={"Retry-After": "1"})
        if _is_due(habits.bad_gateway_every, number):
            return Response("<html><body><h1>502 Bad Gateway</h1></body></html>", 502, media_type="text/html")
        if _is_due(habits.error_in_200_every, number):
            metadata = {"raw": "upstream overloaded", "provider_name": provider.name}
            body = KEEP_ALIVE * habits.keep_alives + error_body("Provider returned error", 503, metadata)
            return Response(body, 200, media_type="application/json")
        return None

    def success(self, provider: Provider, request: dict[str, Any], streamed: bool, number: int) -> Response:
        answer = answer_of(request, provider, self._generation_id(request), created=int(time.time()))
        if streamed and self.faults.is_foreign(self._streams):
            answer = replace(answer, model=ANOTHER_MODEL)
        self.books.enter(answer, streamed)
        headers = {"X-Generation-Id": answer.generation_id}
        if not streamed:
            body = KEEP_ALIVE * provider.habits.keep_alives + json_body(answer)
            return Response(body, headers=headers, media_type="application/json")
        events = self._events(answer, self._streams, cut=number == provider.habits.cuts_stream)
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")

    def _generation_id(self, request: dict[str, Any]) -> str:
        if self.faults.same_ids:
            return f"gen-{digest_of(request, 'model', 'messages', 'tools', 'max_tokens').hex()[:20]}"
        return f"gen-{secrets.token_hex(10)}"

    async def _events(self, answer: Answer, stream: int, cut: bool) -> AsyncIterator[bytes]:
        events = list(event_stream(answer))
        if cut:
            events = events[: len(events) // 2]
        yield COMMENT * answer.provider.habits.keep_alives
        writes = [b"".join(events[i : i + EVENTS_PER_WRITE]) for i in range(0, len(events), EVENTS_PER_WRITE)]
        async for write in self.faults.spoilt(writes, stream):
            yield write
        if cut:
            raise CutStream

    async def generation(self, http: Request) -> Response:
        if not _authorised(http):
            return _error("No auth credentials found", 401)
        generation_id = http.query_params.get("id", "")
        data = self.books.generation(generation_id)
        return JSONResponse({"data": data}) if data else _error(f"Generation {generation_id} not found", 404)

    async def endpoints(self, http: Request) -> Response:
        model = "{author}/{slug}".format(**http.path_params)
        try:
            target = target_named(model)
        except UnknownTarget:
            return _error(f"Model {model} not found", 404)
        endpoints = [provider.endpoint(target.name) for provider in self.providers]
        return JSONResponse({"data": {"id": target.name, "name": target.name, "endpoints": endpoints}})

    async def key(self, http: Request) -> Response:
        if not _authorised(http):
            return _error("No auth credentials found", 401)
        return JSONResponse({"data": self.books.key()})

    async def show_books(self, http: Request) -> Response:
        return JSONResponse(self.books.summary())


def problem_with(request: Any) -> str | None:
    """What is wrong with a request's body, in a sentence; None where nothing is."""
    if not isinstance(request, dict):
        return "The request's body is not an object"
    max_tokens = request.get("max_tokens", 1)
    if not isinstance(max_tokens, int) or max_tokens < 1:
        return "max_tokens has to be a whole number above 0"
    if not isinstance(request.get("provider") or {}, dict):
        return "provider has to be an object"
    try:
        prompt_ids(target_named(str(request.get("model"))), request)
    except UnknownTarget:
        return f"{request.get('model')} is not a valid model ID"
    except PromptError as error:
        return str(error)
    return None


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number % every == 0


def _authorised(http: Request) -> bool:
    scheme, _, key = http.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and bool(key.strip())


def _error(
    message: str, status: int, metadata: dict[str, Any] | None = None, headers: dict[str, str] | None = None
) -> Response:
    return Response(error_body(message, status, metadata), status, headers=headers, media_type="application/json")
