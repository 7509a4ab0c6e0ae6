"""What is asked of the target model, and what it answers: the log-probability of each token of an output."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class JudgeError(Exception):
    """The judge cannot be asked, or its answer is of no use; one sentence that says what to do."""


class JudgeBusy(Exception):
    """The judge gave no answer this time; the same question may be answered later."""


class QuestionRefused(Exception):
    """The judge does not answer this question, and would not later; others it may. The message is the judge's."""


@dataclass(frozen=True, slots=True)
class Question:
    """How likely is `output_ids` behind `prompt_ids`? `top` is of how many likeliest tokens at each place to tell."""

    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    top: int = 0

    @property
    def key(self) -> bytes:
        """Names the question among all others: 16 bytes."""
        ids = np.array([self.top, len(self.prompt_ids), *self.prompt_ids, *self.output_ids], dtype="<i4")
        return hashlib.blake2b(ids.tobytes(), digest_size=16).digest()

    @property
    def tokens(self) -> int:
        """Tokens that the target model has to read."""
        return len(self.prompt_ids) + len(self.output_ids)


@dataclass(frozen=True, slots=True)
class Scores:
    """Natural logarithms, at temperature 1 and before any cut: `tokens` of shape (output tokens,), `top` of shape
    (output tokens, top) in any order, −inf where there are fewer. NaN where the judge said nothing: of the first token
    where there is no prompt, and wherever a server left a gap. `answer` is what the server said, byte for byte; empty
    where there is no server."""

    tokens: Floats
    top: Floats
    answer: bytes = b""

    @classmethod
    def of(cls, tokens: Sequence[float | None], top: Sequence[Sequence[float]], width: int) -> Scores:
        """From lists as they come over the wire; each row of `top` is filled up to `width`."""
        values = np.array([np.nan if value is None else value for value in tokens], dtype=np.float32)
        rows = np.full((len(values), width), -np.inf, dtype=np.float32)
        for row, found in zip(rows, top, strict=bool(width)):
            row[: min(width, len(found))] = found[:width]
        return cls(values, rows)


class Scorer(Protocol):
    """A judge that can be asked. Scores of one `name` are never taken for those of another."""

    @property
    def name(self) -> str: ...

    async def score(self, question: Question) -> Scores:
        """Raises JudgeBusy where it is worth trying again, QuestionRefused and JudgeError where it is not."""
        ...
