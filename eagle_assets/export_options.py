"""What an export may be, for the datasets file, the command line and `training` alike. It imports next to nothing, so
that `--help` answers at once."""

from __future__ import annotations

from typing import Literal, get_args

Format = Literal["speculators", "specforge", "huggingface"]
FORMATS: tuple[Format, ...] = get_args(Format)

LeastVerdict = Literal["exact", "consistent"]
LEAST_VERDICTS: tuple[LeastVerdict, ...] = get_args(LeastVerdict)
"""The verdicts that shards hold, the strictest first."""

Dedup = Literal["prompt", "sequence"]
DEDUPS: tuple[Dedup, ...] = get_args(Dedup)
"""What rows are held against each other by, of which the first alone is kept."""

DEFAULT_LEAST_VERDICT: LeastVerdict = "consistent"
DEFAULT_SHARD_SIZE = "1GB"
DEFAULT_DRAFT_SIZE = 32_000
"""Ids that a drafter can propose."""
