"""What the sandbox's model says to the packaged prompts, as training text and as outputs to be judged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from eagle_assets.configuration import PACKAGED_DATASETS_FILE, load_configuration
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question, Scorer, Scores
from eagle_assets.openrouter.requests import build_request, read_prompts
from eagle_assets.sandbox.outputs import ids_of, true_output
from eagle_assets.sandbox.replies import reply_to
from eagle_assets.sandbox.routing import digest_of
from eagle_assets.sandbox.small_target import SmallTarget
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import prompt_ids

TARGET = target_named("moonshotai/kimi-k2.5")
Sampled = Callable[[dict[str, Any]], list[int]]


@cache
def asked() -> list[tuple[dict[str, Any], list[int]]]:
    """Requests with their prompt ids: all that are bought, but for B7, whose answers are long."""
    configuration = load_configuration(PACKAGED_DATASETS_FILE)
    requests = [
        build_request(prompt, dataset, configuration)
        for name, dataset in configuration.bought.items()
        if name != "B7"
        for prompt in read_prompts(dataset.prompts)
    ]
    return [(request, prompt_ids(TARGET, request)) for request in requests]


def without_its_tail(request: dict[str, Any]) -> list[int]:
    """What the model says when its sampler cuts off what is rare: no blank ahead of a text, no line break behind it,
    and never off the canonical path (in the sandbox these come in 1 of 19 texts, 1 of 40, 1 of 20 outputs)."""
    rng = Random(digest_of(request, "model", "messages", "tools", "tool_choice", "reasoning", "seed"))
    tools = [] if request.get("tool_choice") == "none" else request.get("tools") or []
    reply = reply_to(request["messages"], tools, TARGET.thinks(dict(request)), rng)
    return ids_of(TARGET, reply)[: request.get("max_tokens")]


def answers(sampled: Sampled, *seeds: int) -> Iterator[tuple[list[int], list[int]]]:
    """An answer to each prompt for each seed, as (prompt ids, output ids)."""
    return ((prompt, sampled({**request, "seed": seed})) for seed in seeds for request, prompt in asked())


@cache
def small_target(sampled: Sampled = true_output, seeds: int = 12) -> SmallTarget:
    """Trained on answers to the same prompts under other seeds than those that are judged, from 1000 up."""
    return SmallTarget(TARGET, answers(sampled, *range(1000, 1000 + seeds)))


class InProcess:
    """A Scorer without a server."""

    name = "in process"

    def __init__(self, model: SmallTarget) -> None:
        self._model = model
        self.tokens = 0

    async def score(self, question: Question) -> Scores:
        await asyncio.sleep(0)
        self.tokens += question.tokens
        start = len(question.prompt_ids)
        found, _, top = self._model.logprobs([*question.prompt_ids, *question.output_ids], start, question.top)
        return Scores(found.astype(np.float32), top.astype(np.float32))


def bench(model: SmallTarget, folder: Path, scorer: Scorer | None = None) -> Bench:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Scorer]:
        yield scorer or InProcess(model)

    return Bench(opened(), folder, concurrency=8)


def first(rows: Iterable[tuple[list[int], list[int]]], number: int) -> list[tuple[list[int], list[int]]]:
    return [row for row, _ in zip(rows, range(number), strict=False)]
