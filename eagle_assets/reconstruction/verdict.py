"""What is said of a response: a verdict, its reasons, the evidence, and the candidates that were weighed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import msgspec

from eagle_assets.reconstruction.places import IndexRisk, Place
from eagle_assets.targets.packed import PackedIds

Verdict = Literal["exact", "consistent", "unverified", "contradicted", "unusable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
TRUSTED: frozenset[Verdict] = frozenset(("exact", "consistent"))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Ids that some reading of the response leads to, and what the counts say of it.

    `count_difference` is `completion_tokens` minus what the convention predicts for these ids; None without a count.
    """

    output_ids: Sequence[int]
    convention: str
    count_difference: int | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "output_ids": _encodable(self.output_ids),
            "convention": self.convention,
            "count_difference": self.count_difference,
        }


@dataclass(frozen=True, slots=True)
class Restored:
    """White space that was put back since the count wants it: the LOSABLE at `position`, at `place`.

    `rivals` are, for each place where white space may be lost, the other LOSABLEs that the count allows there.
    `in_reasoning` says where the tokens are that are missing, None where that is not known. `missing`: tokens are
    missing, which a model that left the canonical path may have added elsewhere; else there are too many.
    """

    place: Place
    position: int
    rivals: Mapping[Place, tuple[int, ...]]
    in_reasoning: bool | None
    missing: bool


@dataclass(frozen=True, slots=True)
class Exposure:
    """What may be wrong with ids that everything explains: all of a response that its residual error depends on.

    `lost` are, by edge, the LOSABLEs (their positions) that leave no trace where they are lost; `unusual` says that
    the white space which is seen at other edges is none that is often written there. `index_risk` is set
    where the server numbers the calls itself. `other_segmentation`: frames leave several ways to cut a text.
    `restored` is white space that was put back. `given`: the ids are the server's own, but may be an encoding of its
    text.
    """

    lost: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)
    unusual: bool = False
    has_calls: bool = False
    index_risk: IndexRisk | None = None
    other_segmentation: bool = False
    restored: Restored | None = None
    given: bool = False


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """The verdict on one exchange. `output_ids` is None where there is none to give.

    `candidates` holds what else is possible, and is empty where the ids are settled. `exposure` is what may be wrong
    with ids that are `consistent`, or were before that was weighed, or would be if nothing spoke for the candidates.
    """

    exchange_id: str
    verdict: Verdict
    output_ids: Sequence[int] | None = None
    prompt_ids: list[int] | None = None
    reasons: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    provider: str | None = None
    model: str | None = None
    exposure: Exposure | None = None

    @property
    def trusted(self) -> bool:
        return self.verdict in TRUSTED

    def to_dict(self) -> dict[str, Any]:
        """The line that `eagle-assets reconstruct` writes, for msgspec to encode."""
        return {
            "exchange_id": self.exchange_id,
            "verdict": self.verdict,
            "output_ids": _encodable(self.output_ids),
            "prompt_ids": self.prompt_ids,
            "reasons": list(self.reasons),
            "evidence": self.evidence,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }


def _encodable(ids: Sequence[int] | None) -> Any:
    return msgspec.Raw(ids.written()) if isinstance(ids, PackedIds) else ids
