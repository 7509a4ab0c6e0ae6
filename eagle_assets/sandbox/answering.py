"""A provider's answer to a request: the true ids, rendered under the provider's convention."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from eagle_assets.sandbox.envelope import Answer
from eagle_assets.sandbox.outputs import true_output
from eagle_assets.sandbox.providers import Provider
from eagle_assets.sandbox.routing import digest_of
from eagle_assets.serving.served import Situation
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import prompt_ids

DATED_NAMES = {"moonshotai/kimi-k2.5": "moonshotai/kimi-k2.5-0127"}


def answer_of(request: Mapping[str, Any], provider: Provider, generation_id: str, created: int) -> Answer:
    """`created` is a Unix time in seconds. Raises PromptError for messages or tools that have no rendering."""
    target = target_named(request["model"])
    situation = situation_of(request)
    ids = true_output(request)
    if provider.convention.think_generated and situation.thinking:
        ids = [target.markers.think_begin, *ids][: request.get("max_tokens")]
    steps = None
    if situation.streamed and provider.tokens_per_step > 1:
        steps = steps_of(len(ids), provider.tokens_per_step, Random(digest_of(request, "messages")))
    served = provider.convention.render(ids, situation, steps)
    prompt = prompt_ids(target, dict(request))
    return Answer(
        generation_id=generation_id,
        created=created,
        model=DATED_NAMES.get(target.name, target.name),
        target=target,
        provider=provider,
        served=served,
        prompt_ids=tuple(prompt[: len(prompt) + served.prompt_offset]),
        output_ids=tuple(ids),
    )


def load_target() -> None:
    """Load what the first answer would wait for: the vocabulary and the renderer of prompts."""
    target = target_named(next(iter(DATED_NAMES)))
    target.vocabulary.bytes_of(prompt_ids(target, {"messages": [{"role": "user", "content": "Hi"}]})[0])


def situation_of(request: Mapping[str, Any]) -> Situation:
    """What a server knows of a request besides the ids."""
    target = target_named(request["model"])
    return Situation(
        target=target,
        thinking=target.thinks(dict(request)),
        tools=tuple(request.get("tools") or ()),
        calls_in_history=sum(len(message.get("tool_calls") or ()) for message in request["messages"]),
        streamed=bool(request.get("stream")),
    )


def steps_of(tokens: int, most: int, rng: Random) -> list[int]:
    """How many tokens each decoding step brings: from 1 to `most`, `tokens` in all."""
    steps: list[int] = []
    while tokens > 0:
        steps.append(min(tokens, rng.randint(1, most)))
        tokens -= steps[-1]
    return steps
