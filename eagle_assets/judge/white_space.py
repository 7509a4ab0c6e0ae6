"""Whether a provider takes white space away from the ends of texts: the target's word, edge by edge.

A text that comes without white space at an edge tells a little: where the provider takes it away, the model may have
written it with some too, and how likely that is the target says. A text that comes with white space tells much more:
the provider keeps it. Both are summed over responses until one side is likelier by the logarithm of one over the error
that is put up with, as for rival conventions (`arbitration`); what is left open is weighed by what is known so far.
Where white space would have changed the token count nothing is asked: the count speaks for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import exp, log, log1p

import numpy as np

from eagle_assets.judge.arbitration import CAP
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.questions import Question
from eagle_assets.judge.samples import in_batches, sampled
from eagle_assets.judge.scoring import Cost
from eagle_assets.judge.surprise import Trial, gain
from eagle_assets.judge.variants import LEADING_BLANK, Span, Variant, ending_of, reencoded, spans
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import GroupKey, Trimming
from eagle_assets.reconstruction.calibrating.kept import stripped_as
from eagle_assets.reconstruction.places import LOSABLE, Place, place_of
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.convention import Edge
from eagle_assets.targets.target import Target

EDGE_ERROR = 0.01
"""The chance that an edge is decided wrongly. It weighs less than a convention: what a provider loses at an edge it
loses in the few responses whose model wrote something there."""


@dataclass(frozen=True, slots=True)
class TextEdge:
    """An edge of a text. `without_trace` are, by its position, each LOSABLE that may have stood there and left no
    trace in the count; `is_white`: some white space stands there."""

    edge: Place
    is_white: bool
    without_trace: dict[int, Variant] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Witness:
    """An edge of a response whose ids explain everything, at which its provider may take white space away."""

    exchange_id: str
    provider: GroupKey
    trial: Trial
    at: TextEdge

    @property
    def group(self) -> tuple[GroupKey, Place]:
        """What it is a witness to: of each of them so many are heard at most."""
        return self.provider, self.at.edge

    @property
    def questions(self) -> Iterator[Question]:
        if self.at.without_trace:
            yield self.trial.question
            yield from map(self.trial.question_of, self.at.without_trace.values())


Witnesses = Callable[[], Iterable[Witness]]
"""All witnesses, as often as they are wanted."""


def witnesses_in(
    found: Reconstruction, trial: Trial | None, calibration: Calibration, target: Target
) -> Iterator[Witness]:
    """What a response can say, before the judge, of its provider's edges.

    White space that was put back does not show what was sent, so that such a response says nothing; nor does one of
    which other ids stand.
    """
    if trial is None or found.exposure is None or found.exposure.restored is not None or found.candidates:
        return
    group = calibration.of(target.name, found.provider, bool(found.evidence.get("streamed")))
    if group is None or not group.losses:
        return
    key = (group.model, group.provider, group.streamed)
    if key in calibration.earlier:  # it is not one thing that could be decided
        return
    asked_about = group.losses.keys() - group.kept.taken_from.keys()  # what differs by kind is not one thing either
    for edge in text_edges(trial, target):
        if stripped_as(edge.edge) in asked_about and (edge.is_white or edge.without_trace):
            yield Witness(found.exchange_id, key, trial, edge)


def weigh_edges(witnesses: Witnesses, bench: Bench, target: Target) -> dict[GroupKey, dict[Place, Trimming]]:
    """The target's word on each edge that responses say something of; an edge that is decided is not asked about any
    more."""
    tallies: dict[tuple[GroupKey, Place], _Tally] = defaultdict(_Tally)
    for batch in in_batches(sampled(witnesses), lambda group: tallies[group].is_decided):
        bench.ask(question for one in batch for question in one.questions)
        for one in batch:
            _hear(one, tallies[one.group], bench)
    found: dict[GroupKey, dict[Place, Trimming]] = defaultdict(dict)
    for (provider, edge), tally in tallies.items():
        found[provider][edge] = tally.trimming(edge, target.name, bench.name)
    return dict(found)


def cost_of_edges(witnesses: Witnesses, bench: Bench) -> Cost:
    """What it costs at most; it ends as soon as all edges of a provider are decided."""
    return bench.cost(question for one in sampled(witnesses) for question in one.questions)


def texts_of(trial: Trial, target: Target) -> Iterator[tuple[Span, bool]]:
    """The texts of a trial that are not empty, and whether each is its reasoning."""
    ids, markers = trial.output_ids, target.markers
    thinks = markers.think_begin in (*trial.prompt_ids[-1:], *ids[:1])
    for span in spans(ids, target.vocabulary):
        if span.start < span.end and span.after in (None, markers.think_begin, markers.think_end):
            yield span, thinks and span.after != markers.think_end


def text_edges(trial: Trial, target: Target) -> Iterator[TextEdge]:
    """The edges of a trial's reasoning and content."""
    ids, vocabulary = trial.output_ids, target.vocabulary
    for span, is_reasoning in texts_of(trial, target):
        first, last = (vocabulary.bytes_of(ids[place]) for place in (span.start, span.end - 1))
        start: Edge = "reasoning_start" if is_reasoning else "content_start"
        calls_follow = target.markers.section_begin in ids[span.end : span.end + 1]
        end: Place = "reasoning_end" if is_reasoning else place_of("content_end", calls_follow)
        ending = ending_of(ids, span, target)
        for edge, is_white, kind, change in (
            (start, first[:1].isspace(), LEADING_BLANK, _before),
            (end, last[-1:].isspace(), ending, _behind),
        ):
            lost = {
                position: variant
                for position, losable in enumerate(() if is_white else LOSABLE)
                for variant in reencoded(ids, span, vocabulary, kind, partial(change, losable))
                if len(variant.instead) == variant.end - variant.start
            }
            yield TextEdge(edge, is_white, lost)


def _before(losable: str, text: str) -> str:
    return losable + text


def _behind(losable: str, text: str) -> str:
    return text + losable


def _hear(one: Witness, tally: _Tally, bench: Bench) -> None:
    if one.at.is_white:
        tally.add_white()
        return
    given = bench.scores(one.trial.question)
    odds: dict[int, float] = {}
    for position, variant in one.at.without_trace.items():
        answer = bench.scores(one.trial.question_of(variant))
        if given is None or answer is None:
            return
        odds[position] = exp(min(CAP, gain(one.trial, variant, given, answer)))
    tally.add(odds)


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
        return abs(self.nats) >= log(1 / EDGE_ERROR)

    def add_white(self) -> None:
        self.nats += CAP
        self.responses += 1

    def add(self, odds: dict[int, float]) -> None:
        self.nats -= min(CAP, log1p(sum(odds.values())))
        self.responses += 1
        for position, found in odds.items():
            self.odds[position] += found
            self.asked[position] += 1

    def trimming(self, edge: Place, model: str, judge: str) -> Trimming:
        return Trimming(
            edge=edge,
            nats=round(self.nats, 2),
            responses=self.responses,
            # Of what was never asked about nothing is known: it may have been written as well as not.
            written=tuple(float(o / n) if n else 1.0 for o, n in zip(self.odds, self.asked, strict=True)),
            model=model,
            judge=judge,
        )
