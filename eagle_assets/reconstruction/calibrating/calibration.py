"""What is known of providers: the conventions that survive, what they keep, and how often they lose white space."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from operator import itemgetter

from eagle_assets.reconstruction.calibrating.decisions import (
    NOTHING_DECIDED,
    Arbitration,
    Arbitrations,
    Decisions,
    GroupKey,
    Trimming,
)
from eagle_assets.reconstruction.calibrating.kept import Kept, stripped_as
from eagle_assets.reconstruction.calibrating.losses import (
    NOTHING_MEASURED,
    WHITES,
    Departed,
    EdgeRates,
    Rate,
    Rates,
)
from eagle_assets.reconstruction.calibrating.observation import AnswerKind, GivenIds, LineBreak
from eagle_assets.reconstruction.calibrating.survivor import RIVAL_MARGIN, Hypothesis, Survivor
from eagle_assets.reconstruction.once import once
from eagle_assets.reconstruction.places import PLACES, IndexRisk, Place
from eagle_assets.reconstruction.prompts import PromptCalibration
from eagle_assets.reconstruction.verdict import Restored
from eagle_assets.serving.convention import Edge

MAX_UNMEASURED_ERROR = 0.05
"""Error that a group has too few closed counts to exclude, above which it settles nothing."""

_NUMBERED_IN_TURN: Mapping[IndexRisk, int] = {"single": 13, "pair": 10}
"""Answers with calls from providers that report the numbers without `functions.`, as no server that numbers anew does:
Moonshot AI, AtlasCloud and Novita, as recorded. In all of them the model numbers as it was taught to (FACTS 2)."""

_ENOUGH_OF_ITS_OWN = 30  # closed counts from which a model's own responses need no pooling with the others


@dataclass(frozen=True)
class GroupCalibration:
    """What the responses of one (model, provider, streamed) say; `model` is "" for all models together.

    `counted` and `closed` are responses without and with tool calls, `measured` those of the closed ones that rates are
    measured on (`settled`). `kept` are the edges at which white space of the model's was seen, so that none is taken
    away there; `losses` are measured per edge and LOSABLE where some may be.
    `reasoning_surplus` is what `reasoning_tokens` counts beside the reasoning's own tokens (1: `</think>`), where it
    follows that rule in nearly every response; None where it follows none. `servers` names the known servers that
    send a model's responses to the letter, where there are any; `parts_seen` are the kinds of tokens ending inside a
    character (`search/character_parts.py`) which they were seen to send as their models do.
    `arbitrations` are the rivals that the target model refuted, which are no survivors any more; `trimmings` is its
    word on the places at which white space may be lost.
    `ids_given` counts the responses that give ids by what these are. `tells_reasoning`: reasoning and content come in
    their own fields, where no tools are declared, and where some are. `tool_ids_renumbered`: calls are numbered by a
    scheme of the server's, as no model numbers them. `affixed` are the ends of texts at which a server may have put
    something. `line_breaks_alike`: the kind of line breaks that it may have made of others. `sorts_keys`: it may have
    sorted those of arguments. `shows_steps`: the deltas of its streams are seen to be a model's steps.
    `blanks_unexplained` are the edges at which a blank always stands that the best convention has not put there.
    """

    model: str
    provider: str
    streamed: bool
    survivors: tuple[Survivor, ...]
    counted: tuple[int, int]
    closed: tuple[int, int]
    measured: tuple[int, int]
    kept: Kept
    losses: Mapping[Place, Rates]
    tool_ids_kept: bool
    reasoning_surplus: int | None = None
    arbitrations: tuple[Arbitration, ...] = ()
    trimmings: Mapping[Place, Trimming] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    parts_seen: frozenset[str] = frozenset()
    ids_given: Mapping[GivenIds, int] = field(default_factory=dict)
    tells_reasoning: tuple[bool, bool] = (False, False)
    tool_ids_renumbered: bool = False
    affixed: frozenset[Place] = frozenset()
    line_breaks_alike: LineBreak | None = None
    sorts_keys: bool = False
    shows_steps: bool = False
    blanks_unexplained: frozenset[Edge] = frozenset()

    @property
    def best(self) -> Survivor:
        return self.survivors[0]

    @cached_property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """The conventions that stand, the likeliest first."""
        return tuple(survivor.hypothesis for survivor in self.survivors)

    @property
    def lead(self) -> float:
        """Nats by which the best convention explains the responses better than the next; infinite without a next."""
        return self.best.log_likelihood - self.survivors[1].log_likelihood if len(self.survivors) > 1 else inf

    @property
    def gives_generated_ids(self) -> bool:
        """Whether ids that it gives were generated. A gateway that encodes its text anew never leaves the canonical
        path, which a model does now and then."""
        return self.ids_given.get("off_path", 0) > 0 and not self.gives_other_ids

    @property
    def gives_other_ids(self) -> bool:
        """Whether ids that it gives are too often not those generated: a model leaves the canonical path now and then,
        another encoder as a rule, and ids of something else than the text are not met twice by accident."""
        given = self.ids_given
        encoded, off_path = given.get("encoded", 0), given.get("off_path", 0)
        return off_path > max(3, encoded) or given.get("contradicted", 0) > max(1, (encoded + off_path) // 4)

    @once
    def servers_that_speak(self, has_calls: bool) -> tuple[str, ...]:
        """The servers that may have sent a response with calls or without; none while the group settles too little.

        The list of known servers is not closed: what no text and no count speaks against, such as a blank that is
        always there, may be the doing of another one.
        """
        settled = self.lead >= RIVAL_MARGIN / 2 and self.unmeasured_error(has_calls) <= MAX_UNMEASURED_ERROR
        return self.servers if settled else ()

    def places_that_may_lose(self, kinds: frozenset[AnswerKind]) -> frozenset[Place]:
        """Places at which white space of the model's may be lost in an answer of these kinds: where none was ever
        seen."""
        losing = self.losses.keys() - self.kept.of(kinds)
        return frozenset(place for place in PLACES if stripped_as(place) in losing)

    def closing_share(self, has_calls: bool) -> float:
        counted = self.counted[has_calls]
        return self.closed[has_calls] / counted if counted else 0.0

    @once
    def unmeasured_error(self, has_calls: bool) -> float:
        """Error that as many closed counts cannot exclude (Jeffreys' prior, nothing against).

        A few closed counts of responses with calls are enough for the others to speak for them too.
        """
        speaks_for_all = self.closed[1] >= 3 if has_calls else True
        return Rate(0, sum(self.measured) if speaks_for_all else self.measured[has_calls]).estimate


@dataclass(frozen=True)
class Calibration:
    """Groups by (model, provider, streamed), and by ("", provider, streamed) for all models of a provider.

    A provider that changed its convention has its `earlier` groups too, each with the place in the order of exchanges
    at which the next began. `prompts` is how providers render prompts.
    `index_shifts` is how often the model numbers its calls otherwise than a renumbering server would, by IndexRisk,
    measured where providers keep its ids. `written` is how often the model writes each LOSABLE at an edge, measured
    over all providers: it is seen where they keep it, and shows in the count where they take it away. `departed` is how
    often a model leaves the canonical path by a token.
    """

    groups: Mapping[GroupKey, GroupCalibration] = field(default_factory=dict)
    earlier: Mapping[GroupKey, tuple[tuple[float, GroupCalibration], ...]] = field(default_factory=dict)
    prompts: PromptCalibration = field(default_factory=PromptCalibration)
    index_shifts: Mapping[IndexRisk, Rate] = field(default_factory=dict)
    written: Mapping[str, Mapping[Place, Rates]] = field(default_factory=dict)
    departed: Mapping[str, Departed] = field(default_factory=dict)

    @property
    def decided(self) -> Arbitrations:
        """What the target model decided about each group; nothing of those about which it was not asked."""
        found = {key: Decisions(group.arbitrations, group.trimmings) for key, group in self.groups.items()}
        return {key: decided for key, decided in found.items() if decided != NOTHING_DECIDED}

    def _era(self, key: GroupKey, order: float | None) -> int:
        """The place among the eras of a group of the one that a place in the order of exchanges is in; the last without
        a place."""
        earlier = self.earlier.get(key)
        if not earlier:
            return 0
        return len(earlier) if order is None else bisect_right(earlier, order, key=itemgetter(0))

    def _in_era(self, key: GroupKey, era: int) -> GroupCalibration | None:
        earlier = self.earlier.get(key, ())
        return earlier[era][1] if era < len(earlier) else self.groups.get(key)

    def loss_error(
        self,
        group: GroupCalibration,
        model: str,
        place: Place,
        losable: Iterable[int],
        unusual: bool,
        at_most: bool = False,
    ) -> float:
        """The probability that one of these LOSABLEs was lost at a place, where it leaves no trace: held against that
        nothing was written there, as any other white space would show. No provider loses more than the model writes,
        and where the target model itself was asked, no more than it says.

        `place` is one of the group's `places_that_may_lose`; `unusual` is what the white space at the others is.
        `at_most`: what the probability hardly exceeds.
        """
        place = stripped_as(place)
        lost, wrote = group.losses[place].of(unusual), self._written(model, place).of(unusual)
        said = group.trimmings.get(place)
        by_target = said.lost if said is not None and said.model == model else lambda position: 1.0

        def rate(position: int) -> float:
            pair = lost.losable[position], wrote.losable[position]
            return min(by_target(position), *(r.at_most if at_most else r.estimate for r in pair))

        silent = sum(map(rate, losable))
        nothing = wrote.nothing.estimate if wrote.nothing.measured else 1 - silent
        return silent / (silent + nothing) if silent < 1 else 1.0

    def restored_error(self, restored: Restored, model: str, unusual: bool) -> float:
        """The probability that white space which was put back is not what was lost: held against all else that would
        have the same count. Certain where nobody keeps white space at that place."""

        def rates_at(place: Place) -> EdgeRates:
            return self._written(model, stripped_as(place)).of(unusual)

        if not rates_at(restored.place).nothing.measured:
            return 1.0
        likely = rates_at(restored.place).losable[restored.position].as_one_of(WHITES)
        rivals = sum(
            rate.as_one_of(WHITES)
            for place, positions in restored.rivals.items()
            for rate in (*(rates_at(place).losable[position] for position in positions), rates_at(place).other)
        )
        if restored.missing:
            rivals += self.departed.get(model, Departed()).of(restored.in_reasoning)
        return rivals / (rivals + likely)

    def _written(self, model: str, edge: Place) -> Rates:
        return self.written.get(model, {}).get(edge, NOTHING_MEASURED)

    def index_error(self, risk: IndexRisk) -> float:
        """Probability that calls of an answer were numbered otherwise than a renumbering server shows them."""
        seen = self.index_shifts.get(risk, Rate())
        return Rate(seen.lost, seen.measured + _NUMBERED_IN_TURN.get(risk, 0)).estimate

    def of(
        self, model: str, provider: str | None, streamed: bool, order: float | None = None
    ) -> GroupCalibration | None:
        """The group that speaks for a response: its model's own if that has enough to say, else the provider's."""
        own, of_all = (model, provider or "", streamed), ("", provider or "", streamed)
        return self._of_eras(*own, self._era(own, order), self._era(of_all, order))

    @once
    def _of_eras(self, model: str, provider: str, streamed: bool, era: int, era_of_all: int) -> GroupCalibration | None:
        of_model, of_all = (model, provider, streamed), ("", provider, streamed)
        own, pooled = self._in_era(of_model, era), self._in_era(of_all, era_of_all)
        if of_all in self.earlier and of_model not in self.earlier:
            return pooled  # the provider changed, of which one model's responses alone show too little
        if own is None or pooled is None or (sum(own.closed) >= _ENOUGH_OF_ITS_OWN and len(own.survivors) == 1):
            return own
        # Pooled only where the model's own responses do not speak against what the others say.
        best = pooled.best.hypothesis
        agrees = any(best in (s.hypothesis, *s.hypothesis.ways_to_settle()) for s in own.survivors)
        # Of its servers only those of the model speak: a provider may run another one for another model.
        return replace(pooled, servers=own.servers, parts_seen=own.parts_seen) if agrees else own
