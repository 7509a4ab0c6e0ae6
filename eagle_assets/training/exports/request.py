"""What a user asks an export for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import msgspec

from eagle_assets.export_options import (
    DEFAULT_DRAFT_SIZE,
    DEFAULT_LEAST_VERDICT,
    DEFAULT_SHARD_SIZE,
    FORMATS,
    LEAST_VERDICTS,
    Dedup,
    Format,
    LeastVerdict,
)
from eagle_assets.lake.audit import Published
from eagle_assets.lake.code import digest_of_code
from eagle_assets.targets.target import Target

Split = Literal["train", "evaluation"]
SPLITS: tuple[Split, ...] = get_args(Split)
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_CODE = ("training/exports", "training/draft_vocabulary.py", "training/ragged.py", "export_options.py")


class ExportError(Exception):
    """An export cannot be made as asked; the message is one sentence that says what to do."""


def size_in_bytes(text: str) -> int:
    """`500MB`, `2 GiB` or a plain number of bytes. Raises ExportError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Z]*)", text.strip().upper())
    if match is None or match[2] not in _UNITS:
        raise ExportError(f"{text!r} is no size of a shard; write it like 500MB or 2GB")
    return int(float(match[1]) * _UNITS[match[2]])


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
    min_verdict: LeastVerdict = DEFAULT_LEAST_VERDICT
    dedup: Dedup | None = None
    eval_share: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    shard_bytes: int = size_in_bytes(DEFAULT_SHARD_SIZE)
    draft_size: int = DEFAULT_DRAFT_SIZE
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
        return LEAST_VERDICTS[: LEAST_VERDICTS.index(self.min_verdict) + 1]

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
