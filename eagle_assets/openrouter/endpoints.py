"""A model's endpoints and their prices: who may answer under a routing, and what an answer costs at worst."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from eagle_assets.configuration import Routing
from eagle_assets.openrouter.names import plain_name
from eagle_assets.openrouter.values import as_count, as_dict, as_list, as_text

MILLION = 1_000_000
LOGPROBS = "logprobs"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for each token of the prompt, each token of the completion, and each request."""

    prompt: float
    completion: float
    request: float = 0.0

    @property
    def prompt_per_million(self) -> float:
        return self.prompt * MILLION

    @property
    def completion_per_million(self) -> float:
        return self.completion * MILLION


# Above every endpoint of the Kimi K2 family that was listed when this was written: a guess that errs upwards.
DEFAULT_PRICE = Price(prompt=2.5 / MILLION, completion=10.0 / MILLION)

# Providers render tool declarations in their own ways (FACTS 2), so that a prompt's count is only nearly known.
PROMPT_TOKENS_SPARE = 64
PROMPT_TOKENS_SPARE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One provider's offer of a model, a row of `GET /models/{slug}/endpoints`.

    `tag` is the slug that routing uses, with a variant where there is one ("chutes", "chutes/int4"). None means
    that the list does not say.
    """

    provider: str
    tag: str
    price: Price
    quantization: str | None = None
    context_tokens: int | None = None
    max_completion_tokens: int | None = None
    supported_parameters: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        return self.tag.split("/")[0]


def read_endpoints(document: object) -> tuple[Endpoint, ...]:
    """The endpoints in an answer to `GET /models/{slug}/endpoints`; rows without a usable price are left out."""
    rows = as_list(as_dict(as_dict(document).get("data")).get("endpoints"))
    return tuple(endpoint for row in map(as_dict, rows) if (endpoint := _endpoint(row)) is not None)


def allowed_endpoints(endpoints: Iterable[Endpoint], routing: Routing) -> tuple[Endpoint, ...]:
    """Endpoints that may answer a request sent with `routing`, in the list's order.

    Caps on `max_tokens` and `require_parameters` narrow the choice further, for one request and not another; they
    are left out here, so the dearest price is never taken too low.
    """
    fields = routing.as_request()
    ignored, only = slugs_of(fields["ignore"]), slugs_of(fields.get("only") or ())
    order = slugs_of(fields.get("order") or ()) if routing.allow_fallbacks is False else set()
    return tuple(
        e
        for e in endpoints
        if not is_named_by(e, ignored)
        and (not only or is_named_by(e, only))
        and (not order or is_named_by(e, order))
        and _within(e.price, routing.max_price.limits())
    )


def dearest_price(endpoints: Iterable[Endpoint]) -> Price | None:
    """The highest price of each kind, not all of it of one endpoint; None where there is no endpoint."""
    prices = [e.price for e in endpoints]
    if not prices:
        return None
    return Price(
        prompt=max(p.prompt for p in prices),
        completion=max(p.completion for p in prices),
        request=max(p.request for p in prices),
    )


def default_price(routing: Routing) -> Price:
    """The price to reckon with where the list of endpoints cannot be had: `max_price` where the routing sets it."""
    limits = routing.max_price.limits()
    return Price(
        prompt=limits["prompt"] / MILLION if "prompt" in limits else DEFAULT_PRICE.prompt,
        completion=limits["completion"] / MILLION if "completion" in limits else DEFAULT_PRICE.completion,
        request=limits.get("request", DEFAULT_PRICE.request),
    )


def evidence_to_ask_for(allowed: Sequence[Endpoint], routing: Routing) -> dict[str, Any]:
    """Fields of a request that ask for the bytes of each token, where one of the endpoints that may answer gives them.

    Under `require_parameters` asking would leave out all others: then only where every one of them gives them.
    """
    giving = [LOGPROBS in endpoint.supported_parameters for endpoint in allowed]
    asks = all(giving) if routing.require_parameters else any(giving)
    return {LOGPROBS: True} if giving and asks else {}


def worst_case_usd(prompt_tokens: int, max_tokens: int, price: Price) -> float:
    """The most that a request can cost: its prompt as counted here with something to spare, and all of `max_tokens`.

    `price` is the dearest that routing allows. The fee for buying credit is not in it.
    """
    spare = PROMPT_TOKENS_SPARE + PROMPT_TOKENS_SPARE_SHARE * prompt_tokens
    return (prompt_tokens + spare) * price.prompt + max_tokens * price.completion + price.request


def _endpoint(row: Mapping[str, Any]) -> Endpoint | None:
    provider = as_text(row.get("provider_name"))
    pricing = as_dict(row.get("pricing"))
    prompt, completion = _dollars(pricing.get("prompt")), _dollars(pricing.get("completion"))
    if provider is None or prompt is None or completion is None:
        return None
    return Endpoint(
        provider=provider,
        tag=(as_text(row.get("tag")) or plain_name(provider)).lower(),
        price=Price(prompt, completion, _dollars(pricing.get("request")) or 0.0),
        quantization=as_text(row.get("quantization")),
        context_tokens=as_count(row.get("context_length")),
        max_completion_tokens=as_count(row.get("max_completion_tokens")),
        supported_parameters=tuple(p for p in as_list(row.get("supported_parameters")) if isinstance(p, str)),
    )


def _dollars(value: object) -> float | None:
    """Prices are texts such as "0.0000006"; a negative one means that it is not fixed."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        price = float(value)
    except ValueError:
        return None
    return price if isfinite(price) and price >= 0 else None


def is_named_by(endpoint: Endpoint, slugs: set[str]) -> bool:
    """Whether a routing list, as `slugs_of` reads it, names this endpoint: by its tag, its slug or its display name."""
    return bool({endpoint.tag, endpoint.slug, plain_name(endpoint.provider)} & slugs)


def slugs_of(names: Iterable[str]) -> set[str]:
    """The names in a routing list, in each form that an endpoint may have them."""
    return {name.lower() for name in names} | {plain_name(name) for name in names if "/" not in name}


def _within(price: Price, max_price: Mapping[str, float]) -> bool:
    """`max_price` is in dollars for a million tokens, and for one request."""
    limit = max_price.get
    return (
        price.prompt_per_million <= limit("prompt", float("inf")) * (1 + 1e-9)
        and price.completion_per_million <= limit("completion", float("inf")) * (1 + 1e-9)
        and price.request <= limit("request", float("inf"))
    )
