"""A convention as calibration sees it: where it puts blanks in, how it counts, whether it rewrites arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import get_args

from eagle_assets.reconstruction.arguments import with_python_spacing
from eagle_assets.reconstruction.counting import EVERYTHING_COUNTED, Counting
from eagle_assets.reconstruction.inverse import SOMETIMES_STRIPPED, without_blanks
from eagle_assets.reconstruction.observation import Observation
from eagle_assets.serving.convention import Edge
from eagle_assets.serving.output import Output
from eagle_assets.serving.served import Situation

EDGES: tuple[Edge, ...] = get_args(Edge)

_REFUTED = log(0.005)  # a text that the convention cannot produce: a response of another deployment
_CLOSES, _DIFFERS = log(0.75), log(0.25 / 4)  # counts close under the true convention in 56 to 91 % (FACTS 4)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A convention of the closed list."""

    inserted: frozenset[Edge]
    counting: Counting
    rewrites_arguments: bool = False

    @property
    def name(self) -> str:
        where = ", ".join(edge.replace("_", " ") for edge in EDGES if edge in self.inserted)
        parts = [f"blanks round added tokens ({where})" if where else "verbatim"]
        if self.rewrites_arguments:
            parts.append("arguments rewritten compactly")
        if self.counting is not EVERYTHING_COUNTED:
            parts.append(self.counting.name)
        return ", ".join(parts)

    def invert(self, output: Output[str], situation: Situation) -> Output[str] | None:
        """The output that a shown one came from; None where the convention cannot have shown it."""
        plain = without_blanks(output, self.inserted, situation)
        if plain is None or not (self.rewrites_arguments and plain.calls):
            return plain
        return with_python_spacing(plain)

    def difference(self, observation: Observation) -> int | None:
        """What is left of the count under this convention; None where it cannot have shown the texts."""
        changes = self.counting.offset(observation.thinking, observation.has_calls)
        for edge, view in observation.edges.items():
            if edge in self.inserted and view.can_hold_blank:
                if view.without_blank is None and edge not in SOMETIMES_STRIPPED:
                    return None
                changes += view.without_blank or 0
        if self.rewrites_arguments and observation.has_calls:
            if observation.respaced is None:
                return None
            changes += observation.respaced
        return observation.difference - changes


@dataclass(frozen=True, slots=True)
class Survivor:
    """A hypothesis with what the responses of a group say of it."""

    hypothesis: Hypothesis
    closed: int
    refuted: int
    log_likelihood: float


def weigh(hypothesis: Hypothesis, members: Sequence[Observation]) -> Survivor:
    """Weigh a hypothesis by the texts, counts and prompt counts of a group's responses."""
    closed = refuted = 0
    likelihood = 0.0
    for observation in members:
        difference = hypothesis.difference(observation)
        if difference is None:
            refuted += 1
            likelihood += _REFUTED
        else:
            closed += difference == 0
            likelihood += _CLOSES if difference == 0 else _DIFFERS
        # A `<think>` that is generated is missing in the prompt's count, and only then is that one short.
        if observation.thinking and observation.prompt_offset in (0, -1):
            expected = -1 if hypothesis.counting.think_generated else 0
            likelihood += _CLOSES if observation.prompt_offset == expected else _DIFFERS
    return Survivor(hypothesis, closed, refuted, likelihood)
