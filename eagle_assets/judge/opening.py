"""From the datasets file's `judge` to a judge that can be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import ValidationError

from eagle_assets.configuration import Judge, LocalJudge, ServedJudge
from eagle_assets.judge.questions import JudgeError, Scorer
from eagle_assets.judge.server import InferenceServer, SglangScorer, VllmScorer


def judge_named(sglang: str | None, vllm: str | None, folder: Path | None, model: str | None) -> Judge | None:
    """The judge that a command line names; None where it names none. Raises JudgeError where it names several, or one
    by what is no address."""
    try:
        named: list[Judge] = [ServedJudge(kind="sglang", base_url=sglang)] if sglang else []
        named += [ServedJudge(kind="vllm", base_url=vllm, model=model)] if vllm else []
    except ValidationError as error:
        raise JudgeError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    named += [LocalJudge(kind="transformers", folder=folder)] if folder else []
    if len(named) > 1:
        raise JudgeError("name one judge, not several: --sglang, --vllm or --folder")
    return named[0] if named else None


@asynccontextmanager
async def opened(judge: Judge, concurrency: int, key: str | None = None) -> AsyncIterator[Scorer]:
    """The judge, with at most `concurrency` connections to it. Raises JudgeError."""
    if isinstance(judge, LocalJudge):
        from eagle_assets.judge.causal_model import CausalModelScorer

        yield CausalModelScorer(judge.folder)
        return
    async with InferenceServer(judge.base_url, concurrency, key) as server:
        yield VllmScorer(server, judge.model) if judge.kind == "vllm" else SglangScorer(server)
