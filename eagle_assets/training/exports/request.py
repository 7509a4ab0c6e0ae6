"""What a user asks an export for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import msgspec

from eagle_assets.lake.audit import Published
from eagle_assets.lake.code import digest_of_code
from eagle_assets.targets.target import Target
from eagle_assets.training.draft_vocabulary import DEFAULT_SIZE

Format = Literal["speculators", "specforge", "huggingface"]
FORMATS: tuple[Format, ...] = get_args(Format)
Split = Literal["train", "evaluation"]
SPLITS: tuple[Split, ...] = get_args(Split)
VERDICT_ORDER = ("exact", "consistent")  # the verdicts that shards hold, the strictest first
DEFAULT_SHARD_BYTES = 1_000_000_000
_CODE = ("training/exports", "training/draft_vocabulary.py", "training/ragged.py")


class ExportError(Exception):
    """An export cannot be made as asked; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class ExportRequest:
    """An export. Two equal requests on the same published shards give the same bytes.

    `datasets` empty means all that may be read; where `of_file` is given, those among them that the datasets file
    names. `max_length` counts tokens: a longer sequence is left out, or with `cut` reduced to its first ones, where one
    of those was generated. `dedup` keeps the first row of each prompt, or of each whole sequence. `eval_share` of the
    prompts go to a split of their own. `weights` says how often rows of a dataset are to be met in training: 2 writes
    each twice, 0.5 writes half of them.
    """

    format: Format
    folder: Path
    datasets: tuple[str, ...] = ()
    max_length: int | None = None
    cut: bool = False
    min_verdict: Literal["exact", "consistent"] = "consistent"
    dedup: Literal["prompt", "sequence"] | None = None
    eval_share: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    shard_bytes: int = DEFAULT_SHARD_BYTES
    draft_size: int = DEFAULT_SIZE
    of_file: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ExportError(f"there is no format {self.format!r}; choose one of {', '.join(FORMATS)}")
        if self.max_length is not None and self.max_length < 1:
            raise ExportError(f"a maximum length of {self.max_length} leaves nothing; give a number of tokens above 0")
        if self.cut and self.max_length is None:
            raise ExportError("cutting needs a length: add --max-length N")
        if not 0 <= self.eval_share < 1:
            raise ExportError(f"an evaluation share of {self.eval_share:g} is none; give a number from 0 to below 1")
        for dataset, weight in self.weights.items():
            if not 0 < weight <= 100:
                raise ExportError(f"a weight of {weight:g} for {dataset} is none; give a number above 0, at most 100")
        if self.shard_bytes < 1:
            raise ExportError("a shard needs at least one byte; give a larger --shard-size")

    @property
    def verdicts(self) -> tuple[str, ...]:
        return VERDICT_ORDER[: VERDICT_ORDER.index(self.min_verdict) + 1]

    def options(self) -> dict[str, object]:
        """Everything but the folder, as the manifest states it."""
        return {
            "format": self.format,
            "datasets": list(self.datasets),
            "max_length": self.max_length,
            "longer_sequences": None if self.max_length is None else "cut" if self.cut else "left out",
            "min_verdict": self.min_verdict,
            "dedup": self.dedup,
            "eval_share": self.eval_share,
            "weights": dict(sorted(self.weights.items())),
            "shard_bytes": self.shard_bytes,
            "draft_size": self.draft_size,
        }

    def plan(self, target: Target, published: list[Published]) -> str:
        """What the bytes of the export follow from, as a digest: the options, the target, the shards, and the code."""
        shards = [[p.audit.dataset, [file.sha256 for file in p.audit.files]] for p in published]
        made_from = [digest_of_code(_CODE), self.options(), target.name, target.vocabulary.sha256, shards]
        return hashlib.sha256(msgspec.json.encode(made_from)).hexdigest()
