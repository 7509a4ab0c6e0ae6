"""Whose answer it is: looked at again for every answer, because routing is a request and no promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eagle_assets.configuration import Routing
from eagle_assets.openrouter.endpoints import Endpoint, is_named_by, slugs_of
from eagle_assets.openrouter.names import plain_name
from eagle_assets.openrouter.values import as_dict, as_list
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.target import UnknownTarget

# The target is natively INT4; these are other weights (FACTS 3).
REQUANTISED = frozenset({"fp4", "nvfp4", "mxfp4"})

# One stray answer is kept out by its verdict; more of them mean that routing does not hold.
MAX_SHARE_OF_STRAYS = 0.05
ANSWERS_BEFORE_A_SHARE = 20


@dataclass(frozen=True, slots=True)
class Origin:
    """Who may answer for a target model under a routing, as far as the list of endpoints tells; names are plain."""

    model: str
    ignored: frozenset[str]
    only: frozenset[str]
    requantised: frozenset[str]

    @classmethod
    def allowed(cls, model: str, routing: Routing, endpoints: Sequence[Endpoint] = ()) -> Origin:
        fields = routing.as_request()
        quantizations: dict[str, set[str | None]] = {}
        for endpoint in endpoints:
            quantizations.setdefault(plain_name(endpoint.provider), set()).add(endpoint.quantization)
        return cls(
            model,
            _names(fields["ignore"], endpoints),
            _names(fields.get("only") or (), endpoints),
            frozenset(name for name, kinds in quantizations.items() if kinds <= REQUANTISED),
        )

    @classmethod
    def of_request(cls, model: str, request: Mapping[str, Any], endpoints: Sequence[Endpoint] = ()) -> Origin:
        """Who was allowed to answer a request, by the routing that it was sent with."""
        sent = as_dict(request.get("provider"))
        ignore, only = (tuple(map(str, as_list(sent.get(name)))) for name in ("ignore", "only"))
        return cls.allowed(model, Routing(ignore=ignore, only=only or None), endpoints)

    def stray(self, model: str | None, provider: str | None) -> str | None:
        """Why an answer by these may not be used, or None. What it does not say is not held against it."""
        name = plain_name(provider or "")
        if model and not _is_named(self.model, model):
            return f"another model: {model}"
        if name and name in self.ignored:
            return f"an excluded provider: {provider}"
        if name and self.only and name not in self.only:
            return f"a provider that was not asked: {provider}"
        if name in self.requantised:
            return f"requantised weights: {provider}"
        return None


def too_many(strays: int, answers: int) -> bool:
    """Whether so many strays among so many answers mean that nothing more should be bought."""
    return answers >= ANSWERS_BEFORE_A_SHARE and strays > MAX_SHARE_OF_STRAYS * answers


def _names(listed: Iterable[str], endpoints: Iterable[Endpoint]) -> frozenset[str]:
    """Plain names of the providers in a routing list; a variant of a provider ("chutes/fp4") is not the provider."""
    whole = slugs_of(name for name in listed if "/" not in name)
    return frozenset(map(plain_name, whole)) | {plain_name(e.provider) for e in endpoints if is_named_by(e, whole)}


def _is_named(model: str, answered_by: str) -> bool:
    try:
        return target_named(model).is_named(answered_by)
    except UnknownTarget:
        return answered_by.partition(":")[0] == model
