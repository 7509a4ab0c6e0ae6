"""A small chat-completions router on a real socket, which keeps books and misbehaves as each prompt asks it to."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from eagle_assets.configuration import Configuration, LocalDataset
from eagle_assets.openrouter.requests import Prompt, build_request, request_key
from eagle_assets.openrouter.wanted import Wanted, WantedRequest

COST_USD = 0.001
HUGE = 50 << 20
KEY = "sk-or-v1-0123456789abcdef"


@dataclass
class Router:
    """`scripts` gives, for the text of a prompt, what to do at each asking; after its end, and without one: answer."""

    scripts: dict[str, list[str]] = field(default_factory=dict)
    pause: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    requests: list[dict[str, Any]] = field(default_factory=list)
    billed: dict[str, float] = field(default_factory=dict)
    generation_404s: int = 0
    price: str | None = "0.000001"
    at_once: int = 0
    most_at_once: int = 0
    url: str = ""
    meter: float = 0.0
    has_meter: bool = True
    meters_read: int = 0
    provider: str = "Chutes"
    model: str = "moonshotai/kimi-k2.5-0127"
    parameters: tuple[str, ...] = ()

    async def completions(self, request: Request) -> Response:
        if request.headers["authorization"] != f"Bearer {KEY}":
            told = f"No such key: {request.headers['authorization']}"
            return JSONResponse({"error": {"code": 401, "message": told}}, 401, {"X-Told": told})
        body = await request.json()
        text = body["messages"][0]["content"]
        script = self.scripts.get(text, [])
        step = script[self.asked[text]] if self.asked[text] < len(script) else "answer"
        self.asked[text] += 1
        self.requests.append(body)
        if step.isdigit():
            return Response(f"<html>{step}</html>", int(step), {"Retry-After": "0"})
        if step == "slow down":
            return JSONResponse({"error": {"code": 429, "message": "slow"}}, 429, {"Retry-After": "0.3"})
        if step == "flagged":
            metadata = {"reasons": ["violence"], "flagged_input": text, "provider_name": "Chutes"}
            return JSONResponse({"error": {"code": 403, "message": "flagged", "metadata": metadata}}, 403)
        if step == "error in 200":
            return JSONResponse({"error": {"code": 502, "message": "gone"}, "user_id": "u"})
        generation = f"gen-{len(self.billed)}"
        self.meter += COST_USD
        self.billed[generation] = COST_USD
        return StreamingResponse(
            self.stream(generation, step), 200, {"X-Generation-Id": generation}, media_type="text/event-stream"
        )

    async def stream(self, generation: str, step: str) -> AsyncIterator[bytes]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            yield b": OPENROUTER PROCESSING\n\n"
            if step == "stall":
                await asyncio.sleep(30)
            if step == "huge":
                yield frame(generation, choices=[{"index": 0, "delta": {"content": "!" * HUGE}, "finish_reason": None}])
            while step == "endless":
                yield frame(generation, choices=[{"index": 0, "delta": {"content": "!" * 65_536}}])
                await asyncio.sleep(0)
            for word in ("Oh", ", yes", "."):
                await asyncio.sleep(self.pause / 3)
                yield frame(generation, choices=[{"index": 0, "delta": {"content": word}, "finish_reason": None}])
            if step == "cut":
                raise ConnectionAbortedError
            who = {"model": self.model, "provider": self.provider} if step == "stray" else {}
            yield frame(generation, **who, choices=[{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}])
            usage: dict[str, Any] = {"prompt_tokens": 9, "completion_tokens": 4, "cost": COST_USD}
            if step == "no cost":
                del usage["cost"]
            yield frame(generation, **who, choices=[], usage=usage)
            yield b"data: [DONE]\n\n"
        finally:
            self.at_once -= 1

    async def generation(self, request: Request) -> Response:
        cost = self.billed.get(request.query_params["id"])
        if cost is None or self.generation_404s > 0:
            self.generation_404s -= 1
            return JSONResponse({"error": {"code": 404, "message": "not found"}}, 404)
        return JSONResponse({"data": {"id": request.query_params["id"], "total_cost": cost}})

    async def endpoints(self, request: Request) -> Response:
        if self.price is None:
            return JSONResponse({"error": {"code": 500, "message": "no"}}, 500)
        pricing = {"prompt": self.price, "completion": self.price}
        endpoint = {"provider_name": "Chutes", "tag": "chutes", "pricing": pricing}
        return JSONResponse({"data": {"endpoints": [{**endpoint, "supported_parameters": list(self.parameters)}]}})

    async def key(self, request: Request) -> Response:
        self.meters_read += 1
        return JSONResponse({"data": {"usage": self.meter}}, 200 if self.has_meter else 404)


def frame(generation: str, *, model: str = "moonshotai/kimi-k2.5-0127", provider: str = "Chutes", **more: Any) -> bytes:
    head = {"id": generation, "provider": provider, "model": model}
    return b"data: " + json.dumps({**head, **more}).encode() + b"\n\n"


@contextmanager
def serving(router: Router) -> Iterator[Router]:
    """Serve `router` on a free port of this machine; its `url` is the base URL."""
    app = Starlette(
        routes=[
            Route("/chat/completions", router.completions, methods=["POST"]),
            Route("/generation", router.generation),
            Route("/key", router.key),
            Route("/models/{author}/{slug}/endpoints", router.endpoints),
        ]
    )
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(256)
    router.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield router
    finally:
        server.should_exit = True
        thread.join()


def wanted(
    prompts: Sequence[Prompt], configuration: Configuration, dataset: str = "B3", prompt_tokens: int = 9
) -> Wanted:
    """The requests of some prompts, as they are published, all of them with so many tokens."""
    source = configuration.bought.get(dataset) or configuration.own.get(dataset)
    assert not isinstance(source, LocalDataset)
    requests = [build_request(prompt, source, configuration) if source is not None else {} for prompt in prompts]
    rows = [
        WantedRequest(prompt.prompt_id, request_key(request), request, prompt_tokens)
        for prompt, request in zip(prompts, requests, strict=True)
    ]
    names, keys = (pa.chunked_array([[row[place] for row in rows]], pa.string()) for place in (0, 1))
    return Wanted(names, keys, lambda places: (rows[place] for place in places.tolist()))
