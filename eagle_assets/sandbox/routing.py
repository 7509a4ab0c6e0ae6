"""OpenRouter's choice of a provider, as far as a request's `provider` object steers it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

from eagle_assets.sandbox.providers import Provider

MILLION = Decimal(1_000_000)


def digest_of(request: Mapping[str, Any], *fields: str) -> bytes:
    """A digest of these fields of a request, the same whatever the order of their keys."""
    picked = {field: request[field] for field in fields if field in request}
    return hashlib.sha256(json.dumps(picked, sort_keys=True).encode()).digest()


def eligible(providers: Sequence[Provider], request: Mapping[str, Any]) -> tuple[Provider, ...]:
    """The providers that may answer, in the order in which they are preferred where the request gives one.

    Names are slugs, of any case. `max_price` is dollars a million tokens. As with the real router, an endpoint whose
    cap lies below `max_tokens` drops out silently.
    """
    routing = request.get("provider") or {}
    ignored, only, order = (_slugs(routing.get(key)) for key in ("ignore", "only", "order"))
    allowed = [
        p
        for p in providers
        if p.slug not in ignored
        and (not only or p.slug in only)
        and request.get("max_tokens", 1) <= p.max_completion_tokens
        and _within(p, routing.get("max_price") or {})
    ]
    if not order:
        return tuple(allowed)
    preferred = sorted((p for p in allowed if p.slug in order), key=lambda p: order.index(p.slug))
    if routing.get("allow_fallbacks") is False:
        return tuple(preferred)
    return (*preferred, *(p for p in allowed if p.slug not in order))


def choose(providers: Sequence[Provider], request: Mapping[str, Any]) -> Provider | None:
    """The provider that answers: the first of `order`, else one drawn by a digest of the conversation, so that the
    same request always meets the same one; the cheaper, the likelier, by the inverse square of the price as at
    OpenRouter. None where routing leaves nobody."""
    candidates = eligible(providers, request)
    if not candidates:
        return None
    if candidates[0].slug in _slugs((request.get("provider") or {}).get("order")):
        return candidates[0]
    weights = [float(provider.completion_price) ** -2 for provider in candidates]
    return Random(digest_of(request, "messages", "tools")).choices(candidates, weights)[0]


def _slugs(names: Sequence[str] | None) -> list[str]:
    return [name.lower() for name in names or ()]


def _within(provider: Provider, max_price: Mapping[str, float]) -> bool:
    prices = {"prompt": provider.prompt_price, "completion": provider.completion_price}
    return all(prices[kind] * MILLION <= Decimal(str(limit)) for kind, limit in max_price.items() if kind in prices)
