"""What a provider does to its answers besides its convention, as nearly all of them show it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

from eagle_assets.reconstruction.calibrating.kept import TEXT_EDGES, stripped_as
from eagle_assets.reconstruction.calibrating.observation import LineBreak, Observation
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.places import Place

_ENOUGH_FOR_A_RULE, _SHARE_FOR_A_RULE = 9, 0.9  # responses that follow a rule before breaking it is evidence
_ENOUGH_FOR_A_RULE_OF_OTHERS = 3  # where the provider's other responses, streamed or not, follow the same
_ENOUGH_FOR_A_SCHEME = 5  # answers whose calls are numbered otherwise than the history would have it
_ENOUGH_SORTED = 4  # answers with keys that are sorted against the schema
_NATURAL = frozenset(".。!?！？")  # what texts end with as a rule
_ENOUGH_ALIKE, _SHARE_ALIKE = 8, 0.95  # texts that show what stands at the end of nearly all, and which share that is


def affixed(members: Sequence[Observation]) -> frozenset[Place]:
    """Ends of texts at which nearly every one has the same character, such as a line break, that is no letter: a server
    may have put it there. Blanks that a detokeniser may have put in are not meant, conventions account for them."""
    seen: dict[Place, Counter[str]] = defaultdict(Counter)
    for observation in members:
        for edge, view in observation.edges.items():
            if not (view.can_hold_blank and view.outermost == " "):
                seen[stripped_as(edge)][view.outermost] += 1
    found = set()
    for place, characters in seen.items():
        ((character, times),) = characters.most_common(1)
        alike = times >= max(_ENOUGH_ALIKE, _SHARE_ALIKE * characters.total())
        of_text = place in TEXT_EDGES and not character.isalnum() and character not in _NATURAL
        if alike and (of_text or character.isspace()):
            found.add(place)
    return frozenset(found)


def numbering_of(members: Sequence[Observation]) -> Literal["kept", "renumbered"] | None:
    """Whether calls have the model's own numbers: these are neither always in turn from the history's last nor from one
    number on, as a server's are. None: not known."""
    if not any(o.index_shifted for o in members):
        return None
    first = [o.first_index for o in members if o.index_shifted is not None]
    in_turn = [numbers for numbers in first if numbers is not None]
    if len(in_turn) < len(first) or all(len(set(numbers)) > 1 for numbers in zip(*in_turn, strict=True)):
        return "kept"
    shifted = sum(o.index_shifted is True for o in members)
    return "renumbered" if shifted >= _ENOUGH_FOR_A_SCHEME else None


def line_breaks_alike(members: Sequence[Observation]) -> LineBreak | None:
    """The kind of line breaks that a server may have made of others: those of Windows, where all are, as a model seldom
    writes them, and single ones or blank lines, where answers with a reasoning have none of the other, as they seldom
    lack it (`docs/known_truth.md`)."""
    breaks = [o.line_breaks for o in members if o.line_breaks]
    of_thinking = [o.line_breaks for o in members if o.line_breaks and o.thinking]
    if len(breaks) >= _ENOUGH_FOR_A_RULE and all(kinds == {"\r\n"} for kinds in breaks):
        return "\r\n"
    if len(of_thinking) >= _ENOUGH_FOR_A_RULE:
        if all("\n\n" not in kinds for kinds in of_thinking):
            return "\n"
        if all("\n" not in kinds for kinds in of_thinking):
            return "\n\n"
    return None


def sorts_keys(members: Sequence[Observation]) -> bool:
    """Whether all arguments have sorted keys, a few of them against the schema, as a model seldom writes them (6 of 34
    known ones): a server may have sorted them."""
    orders = Counter(o.key_order for o in members)
    return not orders["unsorted"] and orders["against_schema"] >= _ENOUGH_SORTED


def reasoning_surplus_of(closing: Sequence[Observation], best: Hypothesis, of_others: int | None = None) -> int | None:
    """What `reasoning_tokens` counts beside the reasoning's own tokens. A few responses are enough where they follow
    the rule `of_others`."""
    found = [surplus for o in closing if (surplus := best.reasoning_surplus(o)) is not None]
    usual = max(found, key=found.count, default=0)
    enough = _ENOUGH_FOR_A_RULE if usual != of_others else _ENOUGH_FOR_A_RULE_OF_OTHERS
    follows = len(found) >= enough and found.count(usual) >= _SHARE_FOR_A_RULE * len(found)
    return usual if follows and usual in (0, 1) else None
