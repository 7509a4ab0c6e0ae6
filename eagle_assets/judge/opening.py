"""From the datasets file's `judge` to a judge that can be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from eagle_assets.configuration import Judge, LocalJudge
from eagle_assets.judge.questions import Scorer
from eagle_assets.judge.server import InferenceServer, SglangScorer, VllmScorer


@asynccontextmanager
async def opened(judge: Judge, concurrency: int, key: str | None = None) -> AsyncIterator[Scorer]:
    """The judge, with at most `concurrency` connections to it. Raises JudgeError."""
    if isinstance(judge, LocalJudge):
        from eagle_assets.judge.causal_model import CausalModelScorer

        yield CausalModelScorer(judge.folder)
        return
    async with InferenceServer(judge.base_url, concurrency, key) as server:
        yield VllmScorer(server, judge.model) if judge.kind == "vllm" else SglangScorer(server)
