"""Files of exchanges as OpenRouter sends them: each answer another, and as long as real thinking answers are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import exp, log
from pathlib import Path
from pydoc_data.topics import topics
from random import Random
from typing import Any

from eagle_assets.configuration import PACKAGED_DATASETS_FILE, load_configuration
from eagle_assets.openrouter.requests import build_request, read_prompts
from eagle_assets.sandbox.envelope import Answer, event_stream, json_body
from eagle_assets.sandbox.outputs import ids_of, true_output
from eagle_assets.sandbox.providers import all_providers
from eagle_assets.sandbox.replies import Reply
from eagle_assets.serving.conventions import VERBATIM
from eagle_assets.serving.served import Message, Served, Situation
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import prompt_ids

SHORTEST, LONGEST = 2_000, 20_000
"""Characters of an answer, log-uniform: real thinking answers have about 500 to 5,000 tokens."""

_TARGET = target_named("moonshotai/kimi-k2.5")
_PROVIDERS = [replace(all_providers()[0], name=name) for name in ("Lakeside", "Harbour", "Tundra", "Copperline")]


@dataclass
class Written:
    """What a file holds: the texts of its answers, and the tokens that were generated, markers included."""

    texts: list[str] = field(default_factory=list)
    tokens: int = 0


def write_exchanges(path: Path, exchanges: int, streamed: bool) -> Written:
    """Write exchanges of four providers that show texts as they are; each frame of a stream holds one token."""
    written = Written()
    with path.open("wb") as file:
        for exchange in made_exchanges(range(exchanges), streamed):
            file.write(json.dumps(exchange.line, ensure_ascii=False).encode() + b"\n")
            written.texts += exchange.texts
            written.tokens += exchange.tokens
    return written


@dataclass(frozen=True)
class Made:
    """An exchange as a line of a file, the texts of its answer, and the tokens that were generated."""

    line: dict[str, Any]
    texts: tuple[str, str]
    tokens: int


def made_exchanges(numbers: range, streamed: bool) -> Iterator[Made]:
    """Exchanges by number, each another."""
    rng, pool = Random(1 + numbers.start), list(passages())
    for number in numbers:
        length = exp(rng.uniform(log(SHORTEST), log(LONGEST)))
        texts = (_text(pool, rng, 0.7 * length), _text(pool, rng, 0.3 * length))
        ids = ids_of(_TARGET, Reply(*texts))
        yield Made(_line(number, texts, ids, rng.choice(pool), streamed), texts, len(ids))


def passages() -> Iterator[str]:
    """Paragraphs of prose, code, sums and Chinese: Python's own reference, and the sandbox's answers."""
    configuration = load_configuration(PACKAGED_DATASETS_FILE)
    texts, vocabulary = list(topics.values()), _TARGET.vocabulary
    for dataset in configuration.bought.values():
        for prompt in read_prompts(dataset.prompts):
            if not prompt.tools:
                ids = true_output(build_request(prompt, dataset, configuration))
                texts.append(vocabulary.decode([token for token in ids if token < vocabulary.ordinary_size]).decode())
    for text in map(vocabulary.without_marker_text, texts):  # a fast tokenizer takes such text for markers
        yield from (part for part in re.split(r"\n\s*\n", text) if 40 < len(part) < 1_500)


def _text(pool: Sequence[str], rng: Random, length: float) -> str:
    parts: list[str] = []
    while sum(map(len, parts)) < length:
        parts.append(rng.choice(pool).strip())
    return "\n\n".join(parts)


def _line(number: int, texts: tuple[str, str], ids: Sequence[int], question: str, streamed: bool) -> dict[str, Any]:
    provider = _PROVIDERS[number % len(_PROVIDERS)]
    request: dict[str, Any] = {
        "model": _TARGET.name,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 16_384,
        "stream": streamed,
    }
    if streamed:
        served = VERBATIM.render(ids, Situation(_TARGET, thinking=True, streamed=True))
    else:
        served = Served(Message(*texts), (), "stop", len(ids), None, 0)
    answer = Answer(
        generation_id=f"gen-{number}",
        created=1_764_547_200 + number,
        model="moonshotai/kimi-k2.5-0127",
        target=_TARGET,
        provider=provider,
        served=served,
        prompt_ids=tuple(prompt_ids(_TARGET, request)),
        output_ids=(),
    )
    events = list(event_stream(answer)) if streamed else []
    sizes = map(len, events)
    return {
        "exchange_id": answer.generation_id,
        "model": answer.model,
        "provider": provider.name,
        "status": 200,
        "request": request,
        "body": (b"".join(events) if streamed else json_body(answer)).decode(),
        "arrivals": _arrivals(sizes),
    }


def _arrivals(sizes: Iterator[int]) -> list[tuple[int, float]]:
    """Byte offset and time of each event, as the client records them."""
    offset, arrivals = 0, []
    for number, size in zip(count(), sizes, strict=False):
        arrivals.append((offset, round(0.8 + number / 64, 4)))
        offset += size
    return arrivals
