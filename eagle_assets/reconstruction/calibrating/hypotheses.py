"""The closed list of conventions, as far as the responses of a group can tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from eagle_assets.reconstruction.calibrating.observation import EdgeView, Observation
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.counting import COUNTINGS, Counting
from eagle_assets.reconstruction.inverse import SOMETIMES_STRIPPED
from eagle_assets.serving.convention import EDGES, Edge

_FEW = 12  # responses that show at which edges a blank always stands


def possible_hypotheses(members: Sequence[Observation]) -> Iterator[Hypothesis]:
    """Every convention that can differ on these responses, the plainest first."""
    seen = edges_with_blanks(members)
    for size in range(len(seen) + 1):
        yield from _with(map(frozenset, combinations(seen, size)), members)


def coherent_hypotheses(members: Sequence[Observation]) -> Iterator[Hypothesis]:
    """The conventions that put no blanks in, or one wherever one always stands in a part of these responses."""
    part = max(_FEW, len(members) // 4)
    starts = range(0, len(members), part)
    yield from _with(dict.fromkeys((frozenset(), *(always_blank(members[i : i + part]) for i in starts))), members)


def edges_with_blanks(members: Sequence[Observation]) -> list[Edge]:
    """Edges at which a blank stands in any of these responses that may be the server's."""
    return [edge for edge in EDGES if any(_holds_blank(o.edges.get(edge)) for o in members)]


def always_blank(members: Sequence[Observation]) -> frozenset[Edge]:
    """Edges at which a blank stands wherever one can (but for one text in fifty, of another deployment)."""
    always, sometimes = set(), set()
    for edge in EDGES:
        views = [o.edges[edge] for o in members if edge in o.edges and o.edges[edge].can_hold_blank]
        without = sum(view.without_blank is None for view in views)
        if views and without * 50 <= len(views):
            always.add(edge)
        elif edge in SOMETIMES_STRIPPED and without < len(views):
            sometimes.add(edge)
    return frozenset(always | sometimes) if always - SOMETIMES_STRIPPED else frozenset()


def _with(blank_sets: Iterable[frozenset[Edge]], members: Sequence[Observation]) -> Iterator[Hypothesis]:
    rewrites = (False, True) if any(o.respaced is not None for o in members) else (False,)
    countings = [counting for counting in COUNTINGS if _may_count(counting, members)]
    for inserted in blank_sets:
        for counting in countings:
            if not counting.think_end_counted and inserted:
                continue  # who counts without markers counts what is sent, blanks and all
            for rewritten in rewrites:
                yield Hypothesis(inserted, counting, rewritten)


def _holds_blank(view: EdgeView | None) -> bool:
    return view is not None and view.can_hold_blank and view.without_blank is not None


def _may_count(counting: Counting, members: Sequence[Observation]) -> bool:
    """Whether the responses leave room for this counting. A generated `<think>` is missing in the prompt's count."""
    offsets = [o.prompt_offset for o in members if o.thinking and o.prompt_offset is not None]
    if counting.think_generated and offsets.count(-1) * 2 <= len(offsets):
        return False
    if not (counting.think_end_counted or any(o.thinking for o in members)):
        return False
    return not counting.section_end_open or any(o.has_calls for o in members)
