"""What the sandbox knows of its own doings: what it billed, what it answered, how often each provider was asked."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from eagle_assets.sandbox.envelope import Answer
from eagle_assets.sandbox.providers import Provider


class Books:
    """Kept in memory; the truth of each answer goes to `truth_file` at once, as a JSON line that only a score reads."""

    def __init__(self, truth_file: Path | None, credit_usd: Decimal) -> None:
        self.truth_file = truth_file
        self.credit_usd = credit_usd
        self.billed_usd = Decimal(0)
        self._billed_by_provider: defaultdict[str, Decimal] = defaultdict(Decimal)
        self._requests: Counter[tuple[str, bool]] = Counter()
        self._generations: dict[str, dict[str, Any]] = {}
        self._asked_for: set[str] = set()

    def number_of_request(self, provider: Provider, streamed: bool) -> int:
        """Count this request; the number that it has among those of its kind, from 1."""
        self._requests[provider.name, streamed] += 1
        return self._requests[provider.name, streamed]

    def enter(self, answer: Answer, streamed: bool) -> None:
        """Bill an answer, and note its truth."""
        cost = sum(answer.provider.cost(answer.prompt_tokens, answer.served.completion_tokens), Decimal(0))
        self.billed_usd += cost
        self._billed_by_provider[answer.provider.name] += cost
        self._generations[answer.generation_id] = {
            "id": answer.generation_id,
            "model": answer.model,
            "provider_name": answer.provider.name,
            "streamed": streamed,
            "cancelled": False,
            "created_at": answer.created,
            "finish_reason": answer.served.finish_reason,
            "native_finish_reason": answer.served.finish_reason,
            "tokens_prompt": answer.prompt_tokens,
            "tokens_completion": answer.served.completion_tokens,
            "native_tokens_prompt": answer.prompt_tokens,
            "native_tokens_completion": answer.served.completion_tokens,
            "native_tokens_reasoning": answer.served.reasoning_tokens or 0,
            "total_cost": float(cost),
            "usage": float(cost),
        }
        if self.truth_file is not None:
            truth = {
                "exchange_id": answer.generation_id,
                "provider": answer.provider.name,
                "true_ids": answer.output_ids,
                "finish_reason": answer.served.finish_reason,
            }
            with self.truth_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(truth) + "\n")

    def generation(self, generation_id: str) -> dict[str, Any] | None:
        """What `/generation` says. Nothing the first time that an id is asked for: the real one takes a while."""
        if generation_id not in self._asked_for:
            self._asked_for.add(generation_id)
            return None
        return self._generations.get(generation_id)

    def key(self) -> dict[str, Any]:
        """What `/key` says, in dollars."""
        return {
            "label": "sandbox",
            "limit": float(self.credit_usd),
            "usage": float(self.billed_usd),
            "limit_remaining": float(self.credit_usd - self.billed_usd),
            "is_free_tier": False,
        }

    def summary(self) -> dict[str, Any]:
        """All that was billed, for a test or a score to hold against a client's own books."""
        requests: Counter[str] = Counter()
        for (name, _), count in self._requests.items():
            requests[name] += count
        return {
            "billed_usd": float(self.billed_usd),
            "billed_usd_by_provider": {name: float(cost) for name, cost in self._billed_by_provider.items()},
            "requests_by_provider": dict(requests),
            "generations": {i: g["total_cost"] for i, g in self._generations.items()},
        }
