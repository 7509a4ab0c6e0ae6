"""Whether deltas of a provider's streams are seen to be what a model's steps made, and no encoder's cut of the text.

It shows where the count says that the model left the canonical path. Deltas of its steps are then as many more than the
canonical tokens as the count is; those of an encoder are canonical all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagle_assets.reconstruction.calibrating.kept import Kept, stripped_as
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis


def shows_steps(members: Sequence[Observation], best: Hypothesis, kept: Kept) -> bool:
    """Whether deltas left the canonical path with the count, and did so more often than they stayed on it alone."""
    of_steps = of_an_encoder = 0
    for observation in members:
        difference, beyond = best.difference(observation), observation.deltas_beyond
        if difference and beyond is not None:
            of_steps += difference == beyond
            of_an_encoder += beyond == 0 and not _lost(difference, observation, kept)
    return of_steps > of_an_encoder


def _lost(difference: int, observation: Observation, kept: Kept) -> bool:
    """Whether white space that was taken away at one edge may be what the count has more."""
    keeping = kept.of(observation.kinds)
    losing = (view for edge, view in observation.edges.items() if stripped_as(edge) not in keeping)
    return any(difference in view.with_lost for view in losing)
