"""A convention as calibration sees it: where it puts blanks in, how it counts, whether it rewrites arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

import numpy as np

from eagle_assets.reconstruction.arguments import with_python_spacing
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.counting import EVERYTHING_COUNTED, Counting
from eagle_assets.reconstruction.inverse import SOMETIMES_STRIPPED, without_blanks
from eagle_assets.serving.convention import EDGES, Edge
from eagle_assets.serving.output import Output
from eagle_assets.serving.served import Situation

CANNOT_BE = log(0.005)  # a text that the convention cannot produce: a response of another deployment
CLOSES, DIFFERS = log(0.75), log(0.25 / 4)  # counts close under the true convention in 56 to 91 % (FACTS 4)

RIVAL_MARGIN = 10.0
"""Nats: a rival is refuted when the responses are e**10 times less likely under it. One response weighs 2.5 nats
by its count and 5 by its text, so that it takes several to settle anything."""


@dataclass(frozen=True)
class Hypothesis:
    """A convention of the closed list."""

    inserted: frozenset[Edge]
    counting: Counting
    rewrites_arguments: bool = False

    @cached_property
    def name(self) -> str:
        where = ", ".join(edge.replace("_", " ") for edge in EDGES if edge in self.inserted)
        parts = [f"blanks round added tokens ({where})" if where else "verbatim"]
        if self.rewrites_arguments:
            parts.append("arguments rewritten compactly")
        if self.counting != EVERYTHING_COUNTED:
            parts.append(self.counting.name)
        return ", ".join(parts)

    def ways_to_settle(self) -> tuple[Hypothesis, ...]:
        """The conventions that it may stand for: several where it leaves open what texts and counts cannot tell."""
        return tuple(replace(self, counting=counting) for counting in self.counting.ways_to_settle())

    def invert(self, output: Output[str], situation: Situation) -> Output[str] | None:
        """The output that a shown one came from; None where the convention cannot have shown it."""
        plain = without_blanks(output, self.inserted, situation)
        if plain is not None and self.counting.section_end_generated is False:
            plain = replace(plain, section_closed=False)
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

    def reasoning_surplus(self, observation: Observation) -> int | None:
        """What `reasoning_tokens` counts beside the reasoning's tokens under this convention; None if not known."""
        if observation.reasoning_surplus is None:
            return None
        removed = 0
        for edge in ("reasoning_start", "reasoning_end"):
            view = observation.edges.get(edge)
            if view is not None and edge in self.inserted and view.can_hold_blank:
                removed += view.without_blank or 0
        return observation.reasoning_surplus - removed


@dataclass(frozen=True, slots=True)
class Survivor:
    """A hypothesis with what the responses of a group say of it."""

    hypothesis: Hypothesis
    closed: int
    refuted: int
    log_likelihood: float


class Scales:
    """The responses of a group as columns, on which hypotheses are weighed all at once.

    Gives for each what `Hypothesis.difference` gives for each response.
    """

    def __init__(self, members: Sequence[Observation]) -> None:
        self._difference = np.array([o.difference for o in members])
        self._thinking = np.array([o.thinking for o in members])
        self._has_calls = np.array([o.has_calls for o in members])
        self._respaced = np.array([o.respaced or 0 for o in members])
        self._cannot_respace = np.array([o.has_calls and o.respaced is None for o in members])
        self._change, self._lacks_blank = {}, {}
        for edge in EDGES:
            views = [o.edges.get(edge) for o in members]
            possible = [v is not None and v.can_hold_blank for v in views]
            blank = [v.without_blank if v is not None and p else 0 for v, p in zip(views, possible, strict=True)]
            self._change[edge] = np.array([change or 0 for change in blank])
            lacking = np.array([change is None for change in blank])
            self._lacks_blank[edge] = lacking & (edge not in SOMETIMES_STRIPPED)
        # A `<think>` that is generated is missing in the prompt's count, and only then is that one short.
        offsets = [o.prompt_offset for o in members if o.thinking]
        self._prompts = {True: offsets.count(-1), False: offsets.count(0)}

    def weigh(self, hypothesis: Hypothesis) -> Survivor:
        """Weigh a hypothesis by the texts, counts and prompt counts of the group's responses."""
        counting = hypothesis.counting
        left = self._difference - counting.think_generated * self._thinking + (not counting.stop_counted)
        left = left + counting.section_end_open * self._has_calls
        left = left + (not counting.think_end_counted) * self._thinking
        refuted = np.zeros(len(left), dtype=bool)
        for edge in hypothesis.inserted:
            left = left - self._change[edge]
            refuted |= self._lacks_blank[edge]
        if hypothesis.rewrites_arguments:
            left = left - self._respaced
            refuted |= self._cannot_respace
        refutations, closed = int(refuted.sum()), int(((left == 0) & ~refuted).sum())
        expected, unexpected = counting.think_generated, not counting.think_generated
        likelihood = refutations * CANNOT_BE + (closed + self._prompts[expected]) * CLOSES
        likelihood += (len(left) - refutations - closed + self._prompts[unexpected]) * DIFFERS
        return Survivor(hypothesis, closed, refutations, likelihood)
