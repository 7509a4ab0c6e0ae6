"""What the demo's providers answer to the packaged prompts, as recorded exchanges."""

from __future__ import annotations

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.sandbox.answering import answer_of
from eagle_assets.sandbox.envelope import event_stream, json_body
from eagle_assets.sandbox.providers import Provider
from eagle_assets_tests.judge.corpus import asked


def exchanges_of(
    provider: Provider, number: int, start: int = 0, streamed: bool = False
) -> list[tuple[Exchange, list[int]]]:
    """Answers to `number` prompts from `start` on, each with its true output ids. Where there are no more prompts they
    begin anew, with a seed."""
    found = []
    prompts = asked()
    for order in range(start, start + number):
        rounds, place = divmod(order, len(prompts))
        request, _ = prompts[place]
        plain = {**request, "stream": streamed, "return_token_ids": provider.gives_token_ids}
        plain |= {"seed": rounds} if rounds else {}
        answer = answer_of(plain, provider, f"gen-{provider.slug}-{order}", created=0)
        body = b"".join(event_stream(answer)) if streamed else json_body(answer)
        exchange = Exchange(answer.generation_id, request["model"], provider.name, 200, plain, body)
        found.append((exchange, list(answer.output_ids)))
    return found
