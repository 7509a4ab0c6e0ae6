"""What the demo's providers answer to the packaged prompts, as recorded exchanges."""

from __future__ import annotations

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.sandbox.answering import answer_of
from eagle_assets.sandbox.envelope import json_body
from eagle_assets.sandbox.providers import Provider
from eagle_assets_tests.judge.corpus import asked


def exchanges_of(provider: Provider, number: int, start: int = 0) -> list[tuple[Exchange, list[int]]]:
    """Unstreamed answers to `number` prompts from `start` on, each with its true output ids."""
    found = []
    for order, (request, _) in enumerate(asked()[start : start + number]):
        plain = {**request, "stream": False, "return_token_ids": provider.gives_token_ids}
        answer = answer_of(plain, provider, f"gen-{provider.slug}-{start + order}", created=0)
        exchange = Exchange(answer.generation_id, request["model"], provider.name, 200, plain, json_body(answer))
        found.append((exchange, list(answer.output_ids)))
    return found
