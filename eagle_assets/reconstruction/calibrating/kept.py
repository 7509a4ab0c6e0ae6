"""At which places of its texts a provider keeps white space of the model's, as its responses show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from eagle_assets.reconstruction.calibrating.observation import OTHER_KIND, AnswerKind, EdgeView, Observation
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.inverse import at_start
from eagle_assets.reconstruction.places import BLANK_PLACES, LOSABLE, Place

# White space round arguments is no part of the model's style; where it is lost, the count almost always shows it.
TEXT_EDGES: tuple[Place, ...] = ("reasoning_start", "reasoning_end", "content_start", "content_end", "message_end")
TEXT_PLACES: tuple[Place, ...] = (*TEXT_EDGES, *BLANK_PLACES)


def stripped_as(place: Place) -> Place:
    """The place that a parser strips alike: a content is a content, whatever stands before it."""
    return "content_start" if place == "answer_start" else place


@dataclass(frozen=True, slots=True)
class Kept:
    """Places at which white space is kept: all of it in `everything`, but for what is `taken_from` some kinds of
    answers, and in `blanks_alone` none but blanks for sure."""

    everything: frozenset[Place] = frozenset()
    blanks_alone: frozenset[Place] = frozenset()
    taken_from: Mapping[Place, frozenset[AnswerKind]] = field(default_factory=dict)

    def of(self, kinds: frozenset[AnswerKind]) -> frozenset[Place]:
        """The places at which all white space of an answer of these kinds is kept."""
        if not self.taken_from:
            return self.everything
        return frozenset(place for place in self.everything if kinds.isdisjoint(self.taken_from.get(place, ())))


def kept_white_space(members: Sequence[Observation], best: Hypothesis, of_all_models: Sequence[Observation]) -> Kept:
    """The places at which white space was seen that the server did not put there (two texts at least).

    What is left where calls are cut off is left where nothing is, but not the other way round: parsers often trim what
    stands before calls and nothing else. Where blanks stand time and again and never a line break, in the provider's
    responses `of_all_models`, it may take line breaks alone. Nothing is known to be kept of a provider that
    `serves_in_two_ways`.
    """
    seen, of_provider = _white_seen(members, best), _white_seen(of_all_models, best)
    shown = frozenset(place for place, found in seen.items() if found.texts >= 2)
    lacking = frozenset(place for place in shown if of_provider[place].lack_line_breaks(place))
    taken = _taken_from_some(members, best)
    everything = shown - lacking
    if "content_end" in everything and "message_end" not in shown:
        everything |= {"message_end"}
        taken["message_end"] = taken.get("content_end", frozenset())
    kept = Kept(everything, lacking - taken.keys(), {place: kinds for place, kinds in taken.items() if kinds})
    in_two_ways = serves_in_two_ways(members, best, lambda o: kept.of(o.kinds) | kept.blanks_alone, kept.blanks_alone)
    return Kept() if in_two_ways else kept


@dataclass(slots=True)
class _WhiteSeen:
    """Texts with white space of the model's at a place, and those of them in which a line break stands outermost."""

    texts: int = 0
    line_breaks: int = 0

    def lack_line_breaks(self, place: Place) -> bool:
        """Whether line breaks are missing that models write: at an end they are a third of all white space or more, at
        a start a tenth (`docs/known_truth.md`)."""
        enough = _ENOUGH_AT_A_START if at_start(place) else _ENOUGH_AT_AN_END
        return place in TEXT_PLACES and self.texts >= enough and not self.line_breaks


_ENOUGH_AT_A_START, _ENOUGH_AT_AN_END = 30, 8  # texts that show no line break once in twenty where some are kept


def _white_seen(members: Sequence[Observation], best: Hypothesis) -> dict[Place, _WhiteSeen]:
    seen: dict[Place, _WhiteSeen] = defaultdict(_WhiteSeen)
    for observation in members:
        for edge, view in observation.edges.items():
            white = written_at(edge, view, best)
            found = seen[stripped_as(edge)]
            found.texts += len(white) > 0
            found.line_breaks += white[: 1 if at_start(edge) else None][-1:] == "\n"
    return seen


def _taken_from_some(members: Sequence[Observation], best: Hypothesis) -> dict[Place, frozenset[AnswerKind]]:
    """The kinds of answers that never show white space at an edge where others do so often that it is no chance: many
    parsers trim what stands behind a reasoning, or beside calls, and nothing else."""
    texts: Counter[tuple[Place, AnswerKind]] = Counter()
    white: Counter[tuple[Place, AnswerKind]] = Counter()
    for observation in members:
        for edge, view in observation.edges.items():
            place, shows = stripped_as(edge), bool(written_at(edge, view, best))
            if place in TEXT_EDGES:
                texts.update((place, kind) for kind in observation.kinds)
                white.update((place, kind) for kind in observation.kinds if shows)
    found: dict[Place, frozenset[AnswerKind]] = {}
    for (place, kind), of_kind in texts.items():
        others = place, OTHER_KIND[kind]
        share_of_others = white[others] / (texts[others] + 1)
        if not white[place, kind] and (1 - share_of_others) ** of_kind < _CHANCE:
            found[place] = found.get(place, frozenset()) | {kind}
    return found


_CHANCE = 0.01  # of some thirty pairs of an edge and a kind, so that few that are kept are doubted


def serves_in_two_ways(
    members: Sequence[Observation], best: Hypothesis, seen: PlacesOf, blanks_alone: Container[Place] = ()
) -> bool:
    """Whether counts miss white space at an edge where other texts show some, or blanks where these have
    `blanks_alone`: what a provider keeps in one answer, one of its deployments or parsers takes away from another.
    `seen` are the places at which white space of an answer is looked for."""
    missed: dict[Place, _Missed] = defaultdict(_Missed)
    for observation in members:
        difference, places = best.difference(observation), seen(observation)
        for edge, view in observation.edges.items():
            if difference is not None and stripped_as(edge) in places and not written_at(edge, view, best):
                missed[stripped_as(edge)].add(difference, view.with_lost)
    return any(
        texts.beyond_chance(LOSABLE[: 1 if place in blanks_alone else None]) > _SURE for place, texts in missed.items()
    )


PlacesOf = Callable[[Observation], Container[Place]]

_SURE = 3.0  # standard deviations


class _Missed:
    """Texts that show no white space at an edge: how often the count misses just what some would be there, and how
    often it differs by as much where white space cannot be the reason."""

    def __init__(self) -> None:
        self._texts: list[Counter[tuple[int, int]]] = [Counter() for _ in LOSABLE]  # by change and difference

    def add(self, difference: int, with_lost: Sequence[int]) -> None:
        for texts, change in zip(self._texts, with_lost, strict=False):
            texts[change, difference] += 1

    def beyond_chance(self, losable: Sequence[str]) -> float:
        """How much more often than chance would have it one of the first LOSABLEs is missed, in standard deviations."""
        return max(_beyond_chance(texts) for texts, _ in zip(self._texts, losable, strict=False))


def _beyond_chance(texts: Mapping[tuple[int, int], int]) -> float:
    explained = expected = variance = 0.0
    for change in {change for change, _ in texts if change}:
        tested = sum(times for (other, _), times in texts.items() if other == change)
        others = sum(times for (other, _), times in texts.items() if other != change)
        by_chance = sum(times for (other, differs), times in texts.items() if other != change == differs)
        rate = (by_chance + 0.5) / (others + 1)
        explained += texts.get((change, change), 0)
        expected += tested * rate
        variance += tested * rate * (1 + tested / (others + 1))
    return (explained - expected) / sqrt(variance) if variance else 0.0


def written_at(place: Place, view: EdgeView, best: Hypothesis) -> str:
    """The white space at a place that is the model's."""
    return model_white(place, view.white, view.can_hold_blank, best)


def model_white(place: Place, white: str, can_hold_blank: bool, best: Hypothesis) -> str:
    """The white space at a place that is the model's: what stands there without the server's blank. Where the server
    puts some round texts, none of a text of white space alone can be told to be the model's."""
    if place in BLANK_PLACES:
        return "" if best.inserted else white
    if place in best.inserted and can_hold_blank:
        return white[1:] if at_start(place) else white[:-1]
    return white
