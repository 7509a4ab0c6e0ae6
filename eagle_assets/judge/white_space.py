"""Whether a provider takes white space away from the ends of texts: the target's word, edge by edge.

A text that comes without white space at an edge tells a little: where the provider takes it away, the model may have
written it with some too, and how likely that is the target says. A text that comes with white space tells much more:
the provider keeps it. Both are summed over responses until one side is likelier by the logarithm of one over the error
that is put up with, as for rival conventions (`arbitration`); what is left open is weighed by what is known so far.
Where white space would have changed the token count nothing is asked: the count speaks for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp, log, log1p

import numpy as np

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question
from eagle_assets.judge.samples import in_batches, sampled
from eagle_assets.judge.scoring import Cost
from eagle_assets.judge.surprise import Trial, gain
from eagle_assets.judge.variants import Variant, reencoded, spans
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey, Trimming
from eagle_assets.reconstruction.calibrating.losses import stripped_as
from eagle_assets.reconstruction.places import LOSABLE, Place
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.convention import Edge
from eagle_assets.targets.target import Target

ERROR = 0.01
"""The chance that an edge is decided wrongly. It weighs less than a convention: what a provider loses at an edge it
loses in the few responses whose model wrote something there."""

CAP = 3.0
"""Nats: the most that one response counts for; it may be another deployment's."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A response whose ids explain everything, with the edges at which its provider may take white space away."""

    exchange_id: str
    group: GroupKey
    edges: frozenset[Place]
    trial: Trial


@dataclass(frozen=True, slots=True)
class TextEdge:
    """An edge of a text. `without_trace` are, by its position, each LOSABLE that may have stood there and left no
    trace in the count; `is_white`: some white space stands there."""

    edge: Edge
    is_white: bool
    without_trace: dict[int, Variant] = field(default_factory=dict)


Witnesses = Callable[[], Iterable[Witness]]
"""All witnesses, as often as they are wanted."""


def witness(found: Reconstruction, trial: Trial | None, calibration: Calibration, target: Target) -> Witness | None:
    """What a response can say, before the judge, of its provider's edges; None where that is nothing.

    White space that was put back does not show what was sent, so that such a response says nothing.
    """
    if trial is None or "residual_error" not in found.evidence or "restored" in found.evidence:
        return None
    group = calibration.of(target.name, found.provider, bool(found.evidence.get("streamed")))
    if group is None or not group.losses:
        return None
    key = (group.model, group.provider, group.streamed)
    if key in calibration.earlier:  # it is not one thing that could be decided
        return None
    return Witness(found.exchange_id, key, frozenset(group.losses), trial)


def weigh_edges(witnesses: Witnesses, bench: Bench, target: Target) -> dict[GroupKey, dict[Place, Trimming]]:
    """The target's word on each edge that responses say something of."""
    tallies: dict[GroupKey, dict[Place, _Tally]] = defaultdict(dict)
    # An edge that is decided is not asked about any more; the others may come in later responses only.
    for batch in in_batches(sampled(witnesses), lambda key: False):
        of_group = tallies[batch[0].group]
        asked = [(one.trial, edges) for one in batch if (edges := _open_edges(one, of_group, target))]
        bench.ask(question for trial, edges in asked for question in _questions(trial, edges))
        for trial, edges in asked:
            for edge in edges:
                _hear(trial, edge, of_group.setdefault(edge.edge, _Tally()), bench)
    return {key: _rulings(found, target.name, bench.name) for key, found in tallies.items() if found}


def cost_of_edges(witnesses: Witnesses, bench: Bench, target: Target) -> Cost:
    """What it costs at most; it ends as soon as all edges of a provider are decided."""
    found = sampled(witnesses)
    return bench.cost(q for one in found for q in _questions(one.trial, _open_edges(one, {}, target)))


def text_edges(trial: Trial, target: Target) -> Iterator[TextEdge]:
    """The edges of a trial's reasoning and content."""
    ids, vocabulary, markers = trial.output_ids, target.vocabulary, target.markers
    thinks = markers.think_begin in (*trial.prompt_ids[-1:], *ids[:1])
    for span in spans(ids, vocabulary):
        if span.start == span.end or span.after not in (None, markers.think_begin, markers.think_end):
            continue
        is_reasoning = thinks and span.after != markers.think_end
        first, last = (vocabulary.bytes_of(ids[place]) for place in (span.start, span.end - 1))
        start: Edge = "reasoning_start" if is_reasoning else "content_start"
        end: Edge = "reasoning_end" if is_reasoning else "content_end"
        for edge, is_white, change in (
            (start, first[:1].isspace(), _before),
            (end, last[-1:].isspace(), _behind),
        ):
            lost = {
                position: variant
                for position, losable in enumerate(() if is_white else LOSABLE)
                for variant in reencoded(ids, span, vocabulary, "white space at an end", partial(change, losable))
                if len(variant.instead) == variant.end - variant.start
            }
            yield TextEdge(edge, is_white, lost)


def _before(losable: str, text: str) -> str:
    return losable + text


def _behind(losable: str, text: str) -> str:
    return text + losable


def _open_edges(one: Witness, tallies: dict[Place, _Tally], target: Target) -> list[TextEdge]:
    """The edges of a response that can say something of what is not decided yet."""
    return [
        edge
        for edge in text_edges(one.trial, target)
        if stripped_as(edge.edge) in one.edges
        and (edge.is_white or edge.without_trace)
        and not (edge.edge in tallies and tallies[edge.edge].is_decided)
    ]


def _questions(trial: Trial, edges: Sequence[TextEdge]) -> Iterator[Question]:
    variants = [variant for edge in edges for variant in edge.without_trace.values()]
    if variants:
        yield trial.question
        yield from map(trial.question_of, variants)


def _hear(trial: Trial, edge: TextEdge, tally: _Tally, bench: Bench) -> None:
    if edge.is_white:
        tally.add_white()
        return
    given = bench.scores(trial.question)
    answers = {position: bench.scores(trial.question_of(variant)) for position, variant in edge.without_trace.items()}
    if given is not None and all(answer is not None for answer in answers.values()):
        tally.add(
            {
                position: exp(min(CAP, gain(trial, edge.without_trace[position], given, answer)))
                for position, answer in answers.items()
                if answer is not None
            }
        )


@dataclass(slots=True)
class _Tally:
    """`nats` speak for a provider that keeps white space; `odds` are those of each LOSABLE, summed over as many
    responses as `asked` says."""

    nats: float = 0.0
    responses: int = 0
    odds: np.ndarray = field(default_factory=lambda: np.zeros(len(LOSABLE)))
    asked: np.ndarray = field(default_factory=lambda: np.zeros(len(LOSABLE)))

    @property
    def is_decided(self) -> bool:
        return abs(self.nats) >= log(1 / ERROR)

    def add_white(self) -> None:
        self.nats += CAP
        self.responses += 1

    def add(self, odds: dict[int, float]) -> None:
        self.nats -= min(CAP, log1p(sum(odds.values())))
        self.responses += 1
        for position, found in odds.items():
            self.odds[position] += found
            self.asked[position] += 1


def _rulings(tallies: dict[Place, _Tally], model: str, judge: str) -> dict[Place, Trimming]:
    return {
        edge: Trimming(
            edge=edge,
            nats=round(tally.nats, 2),
            responses=tally.responses,
            # Of what was never asked about nothing is known: it may have been written as well as not.
            written=tuple(float(o / n) if n else 1.0 for o, n in zip(tally.odds, tally.asked, strict=True)),
            model=model,
            judge=judge,
        )
        for edge, tally in tallies.items()
    }
