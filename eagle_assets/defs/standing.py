"""What probes and the list of endpoints say of each provider: ranked, and who is better not asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eagle_assets.openrouter.endpoints import Endpoint
from eagle_assets.openrouter.origin import REQUANTISED
from eagle_assets.openrouter.probing import Probed
from eagle_assets.openrouter.wire import read_response
from eagle_assets.openrouter.written_routing import Advice
from eagle_assets.reconstruction.probing.probe_decision import REFUTATIONS_NEEDED, decide
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import (
    BARE_TOOL_IDS,
    BLANKS_ROUND_ADDED_TOKENS,
    STOP_NOT_COUNTED,
    THINK_GENERATED,
    VERBATIM,
)

RIVALS: tuple[Convention, ...] = (
    VERBATIM,
    BLANKS_ROUND_ADDED_TOKENS,
    BARE_TOOL_IDS,
    THINK_GENERATED,
    STOP_NOT_COUNTED,
)
UNEXPLAINED_SHARE = 0.25  # of a provider's answers: so often no model leaves the canonical path (2 in 64, FACTS 2)

# What the evidence can prove, best first.
PROOFS = ("gives its own ids", "one convention stands", "several conventions stand", "not probed", "none explains it")


@dataclass(frozen=True)
class Standing:
    """One provider. `proof` is one of PROOFS; `refused` says why it is better not asked, or is None."""

    slug: str
    proof: str
    conventions: tuple[str, ...]
    answers: int
    unexplained: int
    completion_usd_per_million: float
    probes_usd: float
    refused: str | None
    note: str | None

    def advice(self) -> Advice:
        """What the routing file says of it."""
        said = f"{self.proof}, ${self.completion_usd_per_million:g} a million tokens"
        return Advice(self.slug, f"{said} ({', '.join(self.conventions)})" if self.conventions else said, self.refused)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def standings(endpoints: Sequence[Endpoint], probed: Sequence[Probed]) -> list[Standing]:
    """Every provider in these endpoints, ranked: by what its evidence can prove, then by its price."""
    by_slug = {p.slug: p for p in probed}
    found = []
    for slug in sorted({endpoint.slug for endpoint in endpoints}):
        own = [endpoint for endpoint in endpoints if endpoint.slug == slug]
        found.append(_standing(slug, own, by_slug.get(slug)))
    if any(s.refused is None and s.proof != PROOFS[-1] for s in found):  # somebody must be left to ask
        found = [_refused_if_unexplained(s) for s in found]
    return sorted(found, key=lambda s: (s.refused is not None, PROOFS.index(s.proof), s.completion_usd_per_million))


def _refused_if_unexplained(standing: Standing) -> Standing:
    if standing.refused is not None or standing.proof != PROOFS[-1]:
        return standing
    said = f"no known convention explains {standing.unexplained} of its {standing.answers} answers to probes"
    return replace(standing, refused=said)


def _standing(slug: str, endpoints: Sequence[Endpoint], probed: Probed | None) -> Standing:
    price = round(max(endpoint.price.completion_per_million for endpoint in endpoints), 6)
    weights = sorted({endpoint.quantization for endpoint in endpoints if endpoint.quantization in REQUANTISED})
    refused = f"requantised weights ({', '.join(map(str, weights))})" if weights else None
    if probed is None or not probed.exchanges:
        note = probed.stopped if probed is not None else None
        return Standing(slug, "not probed", (), 0, 0, price, 0.0, refused, note)
    decision = decide(probed.exchanges, RIVALS)
    answers = len(probed.exchanges) - len(decision.unread)
    unexplained = len(decision.unexplained)
    if any(read_response(exchange).token_ids for exchange in probed.exchanges):
        proof = "gives its own ids"
    elif not decision.standing or (unexplained >= REFUTATIONS_NEEDED and unexplained > UNEXPLAINED_SHARE * answers):
        proof = "none explains it"
    else:
        proof = "one convention stands" if len(decision.standing) == 1 else "several conventions stand"
    return Standing(
        slug, proof, decision.standing, answers, unexplained, price, probed.spent_usd, refused, probed.stopped
    )
