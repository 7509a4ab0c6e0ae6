"""White space that a server took away, put back where the count wants it.

A server that strips leaves no more than the count of what it took. That tells neither what it was nor at which end of a
text, so all that may be are weighed against each other, by what the model writes where providers keep it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eagle_assets.reconstruction.calibrating.inversion import Inversion
from eagle_assets.reconstruction.calibrating.observation import EdgeView
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.inverse import at_start
from eagle_assets.reconstruction.places import LOSABLE, Place
from eagle_assets.reconstruction.search.served_by import sends
from eagle_assets.reconstruction.verdict import Restored
from eagle_assets.serving.convention import Edge
from eagle_assets.serving.output import Output
from eagle_assets.serving.servers import Server


@dataclass(frozen=True, slots=True)
class Restoration:
    """An inversion with white space put back, and what that was; `white` is the text of it."""

    inversion: Inversion
    restored: Restored
    white: str


def restorations(
    reading: Reading,
    inversion: Inversion,
    views: Mapping[Place, EdgeView],
    surplus: int | None,
    servers: Sequence[Server],
    texts: EncodedTexts,
) -> list[Restoration]:
    """What may have been lost, at one place, so that the count of an inversion closes and one of the servers sends it
    to the letter; what models write most first.

    `views` are the places where the provider may lose white space, `surplus` is what its `reasoning_tokens` count
    beside the reasoning's own tokens, None where they follow no rule.
    """
    difference, situation = inversion.difference, reading.situation
    if not difference or situation is None:
        return []
    known = surplus is not None and inversion.reasoning_surplus is not None
    missing_in_reasoning = inversion.reasoning_surplus - surplus if known else None  # type: ignore[operator]
    if missing_in_reasoning not in (None, 0, difference):
        return []
    in_reasoning = None if missing_in_reasoning is None else missing_in_reasoning == difference
    places = {
        place: view
        for place, view in views.items()
        if in_reasoning is None or place.startswith("reasoning") == in_reasoning
    }
    allowed = {
        place: tuple(position for position, change in enumerate(view.with_lost) if change == difference)
        for place, view in places.items()
    }
    found = []
    for position, white in enumerate(LOSABLE):
        for place in allowed:
            if position not in allowed[place]:
                continue
            output = _with(inversion.output, place, white)
            if texts.length(output) - texts.length(inversion.output) != difference:
                continue
            closing = replace(inversion, output=output, difference=0, reasoning_surplus=surplus)
            ids = closing.ids(texts, situation)
            if any(sends(server, ids, reading) for server in servers):
                rivals = {
                    other: tuple(p for p in positions if (other, p) != (place, position))
                    for other, positions in allowed.items()
                }
                restored = Restored(place, position, rivals, in_reasoning, missing=difference > 0)
                found.append(Restoration(closing, restored, white))
    return found


def _with(output: Output[str], place: Place, white: str) -> Output[str]:
    """The output with white space put at a place."""
    if place == "blank_content":
        return replace(output, content=white)
    if place.startswith("reasoning"):
        return replace(output, reasoning=_beside(place, output.reasoning or "", white))
    return replace(output, content=_beside(place, output.content, white))


def _beside(place: Edge, text: str, white: str) -> str:
    return white + text if at_start(place) else text + white
