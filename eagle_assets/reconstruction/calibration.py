"""Which conventions survive all responses of a provider, and how often its edges lose white space.

Calibration is by refutation: one text without a leading blank cannot come from a server that puts one there, and a
count that closes only without the blank speaks against a server that does not. What is left is weighed by
likelihood, and a rival within `RIVAL_MARGIN` of the best still stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from eagle_assets.reconstruction.counting import COUNTINGS, Counting
from eagle_assets.reconstruction.inverse import SOMETIMES_STRIPPED, at_start
from eagle_assets.reconstruction.observation import LOSABLE, EdgeView, IndexRisk, Observation, index_risk
from eagle_assets.reconstruction.survivor import Hypothesis, Scales, Survivor
from eagle_assets.serving.convention import EDGES, Edge

RIVAL_MARGIN = 10.0
"""Nats: a rival is refuted when the responses are e**10 times less likely under it. One response weighs 2.5 nats
by its count and 5 by its text, so that it takes several to settle anything."""

# White space round arguments is no part of the model's style; where it is lost, the count almost always shows it.
_TEXT_EDGES: tuple[Edge, ...] = ("reasoning_start", "reasoning_end", "content_start", "content_end")

_ENOUGH_OF_ITS_OWN = 30  # closed counts from which a model's own responses need no pooling with the others


def stripped_as(edge: Edge) -> Edge:
    """The edge that a parser strips alike: a content is a content, whatever stands before it."""
    return "content_start" if edge == "answer_start" else edge


@dataclass(frozen=True, slots=True)
class Rate:
    """`lost` of `measured` responses in which losing would have shown."""

    lost: float = 0
    measured: float = 0

    @property
    def estimate(self) -> float:
        """Posterior mean under Jeffreys' prior: half of all where nothing was measured."""
        return (self.lost + 0.5) / (self.measured + 1)


NOTHING_MEASURED = tuple(Rate() for _ in LOSABLE)


@dataclass(frozen=True, slots=True)
class GroupCalibration:
    """What the responses of one (model, provider, streamed) say; `model` is "" for all models together.

    `counted` and `closed` are responses without and with tool calls. `kept` are the edges at which white space of
    the model's was seen, so that none is taken away there. `losses` are measured per edge and LOSABLE.
    """

    model: str
    provider: str
    streamed: bool
    survivors: tuple[Survivor, ...]
    counted: tuple[int, int]
    closed: tuple[int, int]
    kept: frozenset[Edge]
    losses: Mapping[Edge, tuple[Rate, ...]]
    tool_ids_kept: bool

    @property
    def best(self) -> Survivor:
        return self.survivors[0]

    @property
    def edges_that_may_lose(self) -> frozenset[Edge]:
        """Edges at which white space of the model's may be lost: those where none was ever seen."""
        return frozenset(edge for edge in EDGES if stripped_as(edge) in self.losses)

    def closing_share(self, has_calls: bool) -> float:
        counted = self.counted[has_calls]
        return self.closed[has_calls] / counted if counted else 0.0

    def unmeasured_error(self, has_calls: bool) -> float:
        """Error that as many closed counts cannot exclude (Jeffreys' prior, nothing against).

        A few closed counts of responses with calls are enough for the others to speak for them too.
        """
        speaks_for_all = self.closed[1] >= 3 if has_calls else True
        return Rate(0, sum(self.closed) if speaks_for_all else self.closed[has_calls]).estimate


@dataclass(frozen=True, slots=True)
class Calibration:
    """Groups by (model, provider, streamed), and by ("", provider, streamed) for all models of a provider.

    `index_shifts` is how often the model numbers its calls otherwise than a renumbering server would, by IndexRisk,
    measured where providers keep its ids. `written` is how often the model writes each LOSABLE at an edge, measured
    over all providers: it is seen where they keep it, and shows in the count where they take it away.
    """

    groups: Mapping[tuple[str, str, bool], GroupCalibration] = field(default_factory=dict)
    index_shifts: Mapping[IndexRisk, Rate] = field(default_factory=dict)
    written: Mapping[str, Mapping[Edge, tuple[Rate, ...]]] = field(default_factory=dict)

    def loss_errors(self, group: GroupCalibration, model: str, edges: Mapping[Edge, EdgeView]) -> dict[Edge, float]:
        """For each edge, the probability that white space was lost there without a change of the count.

        No provider loses more than the model writes.
        """
        errors = {}
        for edge, view in edges.items():
            place = stripped_as(edge)
            if place in group.losses:
                lost = zip(group.losses[place], self._written(model, place), view.with_lost, strict=True)
                errors[edge] = sum(min(a.estimate, b.estimate) for a, b, change in lost if change == 0)
        return errors

    def _written(self, model: str, edge: Edge) -> tuple[Rate, ...]:
        return self.written.get(model, {}).get(edge, NOTHING_MEASURED)

    def index_error(self, calls_in_history: int, calls: int) -> float:
        """Probability that calls of an answer were numbered otherwise than a renumbering server shows them."""
        return self.index_shifts.get(index_risk(calls_in_history, calls), Rate()).estimate

    def of(self, model: str, provider: str | None, streamed: bool) -> GroupCalibration | None:
        """The group that speaks for a response: its model's own if that has enough to say, else the provider's."""
        own = self.groups.get((model, provider or "", streamed))
        pooled = self.groups.get(("", provider or "", streamed))
        if own is None or pooled is None or (sum(own.closed) >= _ENOUGH_OF_ITS_OWN and len(own.survivors) == 1):
            return own
        # Pooled only where the model's own responses do not speak against what the others say.
        agrees = any(survivor.hypothesis == pooled.best.hypothesis for survivor in own.survivors)
        return pooled if agrees else own


def calibrate_observations(observations: Iterable[Observation]) -> Calibration:
    """The calibration that all observations together lead to."""
    grouped: dict[tuple[str, str, bool], list[Observation]] = defaultdict(list)
    for observation in observations:
        grouped[observation.model, observation.provider, observation.streamed].append(observation)
        grouped["", observation.provider, observation.streamed].append(observation)
    groups = {key: calibrate_group(*key, members) for key, members in grouped.items()}
    return Calibration(groups, _index_shifts(groups, grouped), _written_by_model(groups, grouped))


def _written_by_model(
    groups: Mapping[tuple[str, str, bool], GroupCalibration],
    grouped: Mapping[tuple[str, str, bool], Sequence[Observation]],
) -> dict[str, dict[Edge, tuple[Rate, ...]]]:
    """How often each model writes each LOSABLE at each edge, over all its providers."""
    tallies: dict[str, dict[Edge, list[list[int]]]] = {}
    for (model, provider, streamed), members in grouped.items():
        if not model:
            continue
        group = groups["", provider, streamed]
        best = group.best.hypothesis
        edges = tallies.setdefault(model, {})
        for observation in members:
            difference = best.difference(observation)
            for edge, view in observation.edges.items():
                tally = edges.setdefault(stripped_as(edge), [[0, 0] for _ in LOSABLE])
                white = _written(edge, view, best)
                for counts, losable, change in zip(tally, LOSABLE, view.with_lost, strict=True):
                    if stripped_as(edge) in group.kept:
                        counts[0] += white == losable
                        counts[1] += 1
                    elif change and difference in (0, change):
                        counts[0] += difference == change
                        counts[1] += 1
    return {
        model: {edge: tuple(Rate(*counts) for counts in tally) for edge, tally in edges.items()}
        for model, edges in tallies.items()
    }


def _written(edge: Edge, view: EdgeView, best: Hypothesis) -> str:
    """The white space at an edge that is the model's: what stands there without the server's blank."""
    if edge in best.inserted and view.can_hold_blank:
        return view.white[1:] if at_start(edge) else view.white[:-1]
    return view.white


def _index_shifts(
    groups: Mapping[tuple[str, str, bool], GroupCalibration],
    grouped: Mapping[tuple[str, str, bool], Sequence[Observation]],
) -> dict[IndexRisk, Rate]:
    shifted: dict[IndexRisk, list[bool]] = defaultdict(list)
    for key, members in grouped.items():
        if key[0] and groups["", key[1], key[2]].tool_ids_kept:
            for observation in members:
                if observation.index_shifted is not None:
                    shifted[observation.index_risk].append(observation.index_shifted)
    return {risk: Rate(sum(found), len(found)) for risk, found in shifted.items()}


def calibrate_group(model: str, provider: str, streamed: bool, members: Sequence[Observation]) -> GroupCalibration:
    """Weigh every convention of the closed list on the responses of one group (at least one)."""
    survivors = _survivors(members)
    best = survivors[0].hypothesis
    closing = [o for o in members if best.difference(o) == 0]
    kept = _kept_edges(members, best)
    return GroupCalibration(
        model=model,
        provider=provider,
        streamed=streamed,
        survivors=survivors,
        counted=_by_calls(members),
        closed=_by_calls(closing),
        kept=kept,
        losses={edge: _losses(edge, members, best) for edge in _TEXT_EDGES if edge not in kept},
        tool_ids_kept=any(o.index_shifted for o in members),
    )


def _survivors(members: Sequence[Observation]) -> tuple[Survivor, ...]:
    """The conventions that still stand, the likeliest first.

    A detokeniser that puts blanks in does so at every edge where the parser strips none. A set of edges that no such
    server has counts only where it explains the responses better than the coherent ones do.
    """
    coherent: tuple[frozenset[Edge], ...] = (frozenset(), _always_blank(members))
    scales = Scales(members)
    weighed = [scales.weigh(hypothesis) for hypothesis in _hypotheses(members)]
    known = max(s.log_likelihood for s in weighed if s.hypothesis.inserted in coherent)
    standing = [s for s in weighed if s.hypothesis.inserted in coherent or s.log_likelihood > known + 1e-6]
    standing.sort(key=lambda survivor: -survivor.log_likelihood)
    return tuple(s for s in standing if s.log_likelihood >= standing[0].log_likelihood - RIVAL_MARGIN)


def _always_blank(members: Sequence[Observation]) -> frozenset[Edge]:
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


def _hypotheses(members: Sequence[Observation]) -> Iterator[Hypothesis]:
    """The conventions that can differ on these responses, the plainest first."""
    with_blanks = [edge for edge in EDGES if any(_holds_blank(o.edges.get(edge)) for o in members)]
    rewritable = any(o.respaced is not None for o in members)
    for size in range(len(with_blanks) + 1):
        for inserted in combinations(with_blanks, size):
            for counting in filter(lambda c: _may_count(c, members), COUNTINGS):
                for rewrites in (False, True) if rewritable else (False,):
                    yield Hypothesis(frozenset(inserted), counting, rewrites)


def _holds_blank(view: EdgeView | None) -> bool:
    return view is not None and view.can_hold_blank and view.without_blank is not None


def _may_count(counting: Counting, members: Sequence[Observation]) -> bool:
    """Whether the responses leave room for this counting. A generated `<think>` is missing in the prompt's count."""
    offsets = [o.prompt_offset for o in members if o.thinking and o.prompt_offset is not None]
    if counting.think_generated and offsets.count(-1) * 2 <= len(offsets):
        return False
    return not counting.section_end_open or any(o.has_calls for o in members)


def _by_calls(members: Sequence[Observation]) -> tuple[int, int]:
    with_calls = sum(o.has_calls for o in members)
    return len(members) - with_calls, with_calls


def _kept_edges(members: Sequence[Observation], best: Hypothesis) -> frozenset[Edge]:
    """Edges at which white space was seen that the server did not put there (two texts at least)."""
    seen: dict[Edge, int] = defaultdict(int)
    for observation in members:
        for edge, view in observation.edges.items():
            seen[stripped_as(edge)] += len(_written(edge, view, best)) > 0
    return frozenset(edge for edge, times in seen.items() if times >= 2)


def _losses(edge: Edge, members: Sequence[Observation], best: Hypothesis) -> tuple[Rate, ...]:
    """How often each LOSABLE was lost at an edge, measured where losing it changes the count.

    The same difference also has other causes, which show where losing would not change the count; as many are
    taken off.
    """
    views = [(view, best.difference(o)) for o in members for e, view in o.edges.items() if stripped_as(e) == edge]
    rates = []
    for position in range(len(LOSABLE)):
        lost = measured = 0
        changes = []
        for view, difference in views:
            change = view.with_lost[position]
            if change:
                lost += difference == change
                measured += difference in (0, change)
                changes.append(change)
        usual = max(changes, key=changes.count, default=0)
        elsewhere = [difference for view, difference in views if not view.with_lost[position]]
        others = elsewhere.count(usual) / max(1, elsewhere.count(usual) + elsewhere.count(0))
        rates.append(Rate(max(0.0, lost - others * measured), measured))
    return tuple(rates)
