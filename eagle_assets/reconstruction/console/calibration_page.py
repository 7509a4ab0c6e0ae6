"""A calibration as a table, as sentences that explain it, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from eagle_assets.openrouter.names import UNNAMED
from eagle_assets.reconstruction.calibrating.calibration import GroupCalibration
from eagle_assets.reconstruction.calibrating.decisions_in_words import decisions_in_words
from eagle_assets.reconstruction.calibrating.drift import Drift
from eagle_assets.reconstruction.calibrating.rules import as_supposed, in_words
from eagle_assets.reconstruction.console.explain import (
    GroupExplanation,
    Rival,
    Sighting,
    open_points,
    standings,
)
from eagle_assets.reconstruction.console.habits_in_words import habits_in_words
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.inverse import at_start, edges, without_blank
from eagle_assets.reconstruction.places import LOSABLE, Place
from eagle_assets.serving.convention import Edge
from eagle_assets.targets.vocabulary import Vocabulary

_MOST_STANDINGS = 3
_MOST_SIGHTINGS = 6
_MOST_UNEXPLAINED = 12

SeenAt = Mapping[tuple[str, Edge], str]
"""The word that stands at an edge of an exchange's text, by exchange id."""


def calibration_table(explanations: Iterable[GroupExplanation]) -> Table:
    """A row for each model, provider and kind of answer."""
    table = Table(title="Calibration", title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in ("model", "provider", "sent"):
        table.add_column(column)
    for column in ("counts", "close: text", "with calls"):
        table.add_column(column, justify="right")
    for column in ("what stands, and its likelihood", "white space", "settled, or what would settle it"):
        table.add_column(column)
    for explanation in explanations:
        group = explanation.group
        table.add_row(
            group.model.rpartition("/")[2],
            group.provider or UNNAMED,
            "stream" if group.streamed else "JSON",
            str(explanation.responses),
            *(_of(group.closed[calls], group.counted[calls]) for calls in (0, 1)),
            _standing(group),
            _white_space(group),
            _settled(explanation),
        )
    return table


def explanation_page(explanation: GroupExplanation, seen: SeenAt) -> RenderableType:
    """Which exchanges refuted which rival, and the residual."""
    group = explanation.group
    how = "streamed" if group.streamed else "not streamed"
    title = f"{group.provider or UNNAMED}, {group.model}, {how}: {explanation.responses} responses"
    head = Text.assemble((title, "bold"), f"\nlikeliest: {group.best.hypothesis.name}")
    parts: list[RenderableType] = [head]
    if group.servers:
        parts.append(Text(f"sent to the letter by the model of {' or '.join(group.servers)}", "green"))
    if explanation.drift is not None:
        parts.append(Text(drift_in_words(explanation.drift), "yellow"))
    parts += [Text(f"  {sentence}") for sentence in habits_in_words(group)]
    parts += [Text(f"  the target model: {sentence}", "green") for sentence in decisions_in_words(explanation.decided)]
    parts += [_rival(rival, seen) for rival in explanation.rivals]
    parts.append(_residual(explanation))
    return Group(*parts, "")


def row_of(explanation: GroupExplanation, explained: bool, seen: SeenAt) -> dict[str, Any]:
    """A row of the table for programs; with the rivals and their sightings where they are `explained`."""
    group = explanation.group
    row: dict[str, Any] = {
        "model": group.model,
        "provider": group.provider,
        "streamed": group.streamed,
        "responses": explanation.responses,
        "counted": {"text": group.counted[0], "with_calls": group.counted[1]},
        "closed": {"text": group.closed[0], "with_calls": group.closed[1]},
        "survivors": [{"convention": s.name, "likelihood": s.share, "closed": s.closed} for s in standings(group)],
        "servers": list(group.servers),
        "kept": sorted(group.kept.everything),
        "blanks_alone": sorted(group.kept.blanks_alone),
        "taken_from": {place: sorted(kinds) for place, kinds in sorted(group.kept.taken_from.items())},
        "losses": {edge: _rates(group, edge) for edge in sorted(group.losses)},
        "error_not_excluded": group.unmeasured_error(False),
        "settled": not open_points(group) and explanation.drift is None,
        "open": [{"what": point.what, "settled_by": point.settled_by} for point in open_points(group)],
        "residual": {_signed(difference): times for difference, times in _sorted(explanation.residual)},
        "drift": None if explanation.drift is None else _drift(explanation.drift),
    }
    if explained:
        row["habits"] = list(habits_in_words(group))
        row["decided_by_the_target"] = list(decisions_in_words(explanation.decided))
        row["rivals"] = [
            {
                "rule": rival.rule,
                "convention": rival.hypothesis.name,
                "fate": rival.fate,
                "nats": round(rival.nats, 2),
                "closes_instead": rival.closes_instead,
                "sightings": [
                    {"exchange_id": sighting.exchange_id, "seen": sighting_in_words(sighting, seen)}
                    for sighting in rival.sightings
                ],
            }
            for rival in explanation.rivals
        ]
        row["unexplained"] = list(explanation.unexplained)
    return row


def edges_to_show(explanations: Iterable[GroupExplanation]) -> dict[str, set[Edge]]:
    """The edges of each exchange whose words the explanations name."""
    wanted: dict[str, set[Edge]] = {}
    for explanation in explanations:
        for sighting in (s for rival in explanation.rivals for s in rival.sightings):
            if sighting.edge is not None:
                wanted.setdefault(sighting.exchange_id, set()).add(sighting.edge)
    return wanted


def words_at_edges(reading: Reading, wanted: Iterable[Edge]) -> Iterator[tuple[Edge, str]]:
    """The word at each of these edges of a usable reading, with the counts that its blank makes."""
    assert reading.situation is not None
    vocabulary = reading.situation.target.vocabulary
    for edge, text, _ in edges(reading.layouts[0].output, reading.situation):
        if edge in wanted:
            yield edge, _word(edge, text, vocabulary)


def sighting_in_words(sighting: Sighting, seen: SeenAt) -> str:
    """What was seen, in words: "start of the content without a blank: 'Oi'"."""
    word = seen.get((sighting.exchange_id, sighting.edge)) if sighting.edge is not None else None
    if sighting.difference is None and sighting.edge is None:
        return "arguments that are not compact JSON"
    if sighting.difference is None and sighting.edge is not None:
        return f"{in_words(sighting.edge)} without a blank" + (f": {word}" if word else "")
    counted = f"the count would be {sighting.difference:+d} off"
    return counted if word is None else f"{counted}: {word}"


def drift_in_words(drift: Drift) -> str:
    return (
        f"the convention changes between {drift.last_before} and {drift.first_after}: before, {drift.before.name}; "
        f"after, {drift.after.name}"
    )


def _word(edge: Edge, text: str, vocabulary: Vocabulary) -> str:
    """`' Oi' 2 tokens, 'Oi' 1`; the word alone where no blank stands beside it."""
    found = re.match(r"\s*\S{1,24}", text) if at_start(edge) else re.search(r"\S{0,24}\s*\Z", text)
    word = found[0] if found else ""
    bare = without_blank(edge, word)
    if bare == word:
        return repr(word)
    with_blank, without = len(vocabulary.encode(word)), len(vocabulary.encode(bare))
    return f"{word!r} {with_blank} token{'s' * (with_blank != 1)}, {bare!r} {without}"


def _rival(rival: Rival, seen: SeenAt) -> Text:
    weight = f"{abs(rival.nats):.1f} nats {'less' if rival.nats >= 0 else 'more'} likely"
    supposed = as_supposed(rival.rule, rival.hypothesis)
    page = Text.assemble(f"  rival: {supposed}: ", (rival.fate, _STYLES[rival.fate]), f", {weight}")
    if rival.closes_instead:
        page.append(f"\n    speaks for it: {rival.closes_instead} counts that close under it alone")
    for sighting in rival.sightings[:_MOST_SIGHTINGS]:
        page.append(f"\n    {sighting.exchange_id}: {sighting_in_words(sighting, seen)}", "dim")
    if len(rival.sightings) > _MOST_SIGHTINGS:
        page.append(f"\n    … and {len(rival.sightings) - _MOST_SIGHTINGS} more exchanges", "dim")
    return page


_STYLES = {"stands": "yellow", "refuted": "green", "not weighed": "dim"}


def _residual(explanation: GroupExplanation) -> Text:
    if not explanation.unexplained:
        return Text("  every count closes under the likeliest convention", "green")
    page = Text("  what the likeliest convention leaves of the counts (with calls):")
    most = max(explanation.residual.values())
    for difference, times in _sorted(explanation.residual):
        bar = "█" * max(1, round(30 * times / most))
        with_calls = explanation.residual_with_calls.get(difference, 0)
        page.append(f"\n    {_signed(difference):>15} {bar} {times} ({with_calls})")
    shown = explanation.unexplained[:_MOST_UNEXPLAINED]
    more = len(explanation.unexplained) - len(shown)
    page.append(f"\n    not explained: {', '.join(shown)}{f' … and {more} more' if more else ''}", "dim")
    return page


def _sorted(residual: Mapping[int | None, int]) -> list[tuple[int | None, int]]:
    return sorted(residual.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))


def _signed(difference: int | None) -> str:
    return "text impossible" if difference is None else f"{difference:+d}" if difference else "0"


def _standing(group: GroupCalibration) -> str:
    found = standings(group)
    lines = [f"{standing.name} {standing.share:.0%}" for standing in found[:_MOST_STANDINGS]]
    return _lines(lines + [f"… {len(found) - _MOST_STANDINGS} more"] * (len(found) > _MOST_STANDINGS))


def _white_space(group: GroupCalibration) -> str:
    kept = group.kept
    lines = [f"kept: {', '.join(map(in_words, sorted(kept.everything)))}"] if kept.everything else []
    for place, kinds in sorted(kept.taken_from.items()):
        lines.append(f"never seen in {' or '.join(sorted(kinds))}: {in_words(place)}")
    if kept.blanks_alone:
        lines.append(f"blanks, and never a line break: {', '.join(map(in_words, sorted(kept.blanks_alone)))}")
    for edge, rates in group.losses.items():
        lost = [f"{text!r} {rate}" for text, rate in _rates(group, edge).items() if not rate.startswith("0 ")]
        if any(rate.lost for rate in rates.usual.losable):
            lines.append(f"lost at the {in_words(edge)}: {', '.join(lost)}")
    return _lines(lines)


def _rates(group: GroupCalibration, edge: Place) -> dict[str, str]:
    """How often each LOSABLE was lost, of how many with usual white space in which it would have shown; only what was
    measured."""
    pairs = zip(LOSABLE, group.losses[edge].usual.losable, strict=True)
    return {losable: f"{rate.lost:.3g} of {rate.measured:.3g}" for losable, rate in pairs if rate.measured}


def _settled(explanation: GroupExplanation) -> str:
    lines = [f"{point.what} → {point.settled_by}" for point in open_points(explanation.group)]
    if explanation.drift is not None:
        lines.insert(0, drift_in_words(explanation.drift))
    if lines:
        return _lines(["no", *(f"· {line}" for line in lines)])
    return f"yes (error not excluded: {explanation.group.unmeasured_error(False):.1%})"


def _drift(drift: Drift) -> dict[str, Any]:
    return {
        "last_before": drift.last_before,
        "first_after": drift.first_after,
        "before": drift.before.name,
        "after": drift.after.name,
        "gain_in_nats": round(drift.gain, 2),
    }


def _of(some: int, of_all: int) -> str:
    return f"{some} of {of_all}" if of_all else ""


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)
