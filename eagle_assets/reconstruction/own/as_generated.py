"""What the team's own outputs show of the target model: the white space that it writes at the ends of texts, how it
numbers calls, how often it leaves the canonical path.

Their ids are given, so that nothing of it is lost, as it is at a provider that takes white space away or numbers calls
anew. They are observed as a server would send them that changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagle_assets.reconstruction.calibrating.observation import Observation, observe
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.own.known_outputs import KnownOutput, request_of
from eagle_assets.reconstruction.own.served_again import read_as_served
from eagle_assets.serving.conventions import VERBATIM
from eagle_assets.targets.target import Target


def as_generated(outputs: Sequence[KnownOutput], target: Target) -> list[Observation]:
    """The observation of each output that says something."""
    read = (
        read_as_served(known, request_of(known, target), target, VERBATIM, False, place)
        for place, known in enumerate(outputs)
    )
    seen = (
        observe(reading, reading.layouts[0], EncodedTexts(target.vocabulary), offset)
        for reading, offset in read
        if reading.layouts
    )
    return [observation for observation in seen if observation is not None]
