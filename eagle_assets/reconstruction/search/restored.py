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
from eagle_assets.reconstruction.places import LOSABLE, REASONING_PLACES, Place
from eagle_assets.reconstruction.search.served_by import sends
from eagle_assets.reconstruction.verdict import Restored
from eagle_assets.serving.output import Output
from eagle_assets.serving.servers import Server

_LINE_BREAK_FIRST = (1, 0, 2)  # positions of LOSABLEs; what K2.5 writes in a reasoning that has no text


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
    counted = _counted_beside_reasoning(reading, inversion)
    missing_in_reasoning = None if surplus is None or counted is None else counted - surplus
    if missing_in_reasoning not in (None, 0, difference):
        return []
    in_reasoning = None if missing_in_reasoning is None else missing_in_reasoning == difference
    places = {
        place: view
        for place, view in views.items()
        if (place in REASONING_PLACES) == in_reasoning or (in_reasoning is None and place != "blank_reasoning")
    }
    allowed = {
        place: tuple(position for position, change in enumerate(view.with_lost) if change == difference)
        for place, view in places.items()
    }
    found = []
    for position in _LINE_BREAK_FIRST if "blank_reasoning" in allowed else range(len(LOSABLE)):
        white = LOSABLE[position]
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
                # A reasoning without text has no token that a model could have cut in two instead.
                missing = difference > 0 and place != "blank_reasoning"
                restored = Restored(place, position, rivals, in_reasoning, missing)
                found.append(Restoration(closing, restored, white))
    return found


def _counted_beside_reasoning(reading: Reading, inversion: Inversion) -> int | None:
    """What `reasoning_tokens` counts beside the tokens of the reasoning, of which there may be none."""
    if inversion.output.reasoning == "":
        return reading.response.reasoning_tokens or None
    return inversion.reasoning_surplus


def _with(output: Output[str], place: Place, white: str) -> Output[str]:
    """The output with white space put at a place."""
    if place == "blank_content":
        return replace(output, content=white)
    if place == "blank_reasoning":
        return replace(output, reasoning=white)
    if place in REASONING_PLACES:
        return replace(output, reasoning=_beside(place, output.reasoning or "", white))
    return replace(output, content=_beside(place, output.content, white))


def _beside(place: Place, text: str, white: str) -> str:
    return white + text if at_start(place) else text + white
