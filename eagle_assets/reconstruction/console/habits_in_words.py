"""What a provider does to its answers besides its convention, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from eagle_assets.reconstruction.calibrating.calibration import GroupCalibration
from eagle_assets.reconstruction.calibrating.observation import GivenIds, LineBreak
from eagle_assets.reconstruction.calibrating.rules import in_words
from eagle_assets.reconstruction.places import Place


def habits_in_words(group: GroupCalibration) -> Iterator[str]:
    """A sentence for each habit that was seen; none of what was not."""
    if group.tool_ids_kept:
        yield "calls have the numbers that the model gave them"
    if group.tool_ids_renumbered:
        yield "calls are numbered by the server, so that the model's own numbers are lost"
    if group.reasoning_surplus is not None:
        beside = " and </think>" if group.reasoning_surplus else ""
        yield f"reasoning_tokens counts the reasoning{beside}"
    if group.streamed and group.shows_steps:
        yield "deltas leave the canonical path where the count does: they are the model's steps, and can prove ids"
    if group.ids_given:
        yield _of_ids(group)
    if group.affixed:
        yield f"nearly all texts have the same at the {_places(group.affixed)}, which a server may have put there"
    if group.blanks_unexplained:
        yield f"a blank always stands at the {_places(group.blanks_unexplained)}, and no count says whose it is"
    if group.sorts_keys:
        yield "all arguments have sorted keys, against the schemas of tools too: a server may have sorted them"
    if group.line_breaks_alike is not None:
        yield f"all line breaks are {_LINE_BREAKS[group.line_breaks_alike]}, which a server may have made of others"


def _of_ids(group: GroupCalibration) -> str:
    given = group.ids_given
    seen = [f"{given[kind]} {meaning}" for kind, meaning in _IDS.items() if given.get(kind)]
    says = "they were generated" if group.gives_generated_ids else "an encoder on the way may have made them"
    return f"gives ids: {', '.join(seen)}; {says}"


_LINE_BREAKS: Mapping[LineBreak, str] = {
    "\r\n": "those of Windows",
    "\n": "single ones, and no line is blank",
    "\n\n": "blank lines",
}

_IDS: Mapping[GivenIds, str] = {
    "encoded": "canonical, as an encoder would give them too",
    "off_path": "off the canonical path",
    "contradicted": "against their text or count",
}


def _places(places: Iterable[Place]) -> str:
    return " and the ".join(map(in_words, sorted(places)))
