"""The verdict on one response: its candidates under the conventions that still stand, held against all evidence."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.inversion import Inversion, find_inversions, rival_candidates
from eagle_assets.reconstruction.calibrating.observation import EdgeView, edge_views, kinds_of
from eagle_assets.reconstruction.calibrating.rules import in_words
from eagle_assets.reconstruction.doubts import Doubts, doubts, what_is_unsettled
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.evidence.steps import Solution
from eagle_assets.reconstruction.frame_evidence import FrameEvidence
from eagle_assets.reconstruction.given_ids import given_ids
from eagle_assets.reconstruction.given_verdict import verdict_on_given
from eagle_assets.reconstruction.places import PLACES, Place
from eagle_assets.reconstruction.prompts import PromptVerdict
from eagle_assets.reconstruction.search.character_parts import are_seen
from eagle_assets.reconstruction.search.deployments import keeps_index, servers_named, servers_of
from eagle_assets.reconstruction.search.restored import restorations
from eagle_assets.reconstruction.search.segmentations import MOST_TOKENS, segmentation
from eagle_assets.reconstruction.search.served_by import sends, sends_one_by_one
from eagle_assets.reconstruction.search.variants import sent_variants
from eagle_assets.reconstruction.verdict import Candidate, Exposure, Reconstruction, Verdict
from eagle_assets.reconstruction.weighing import Weights, weighed

_MOST_CANDIDATES = 4


def judge(reading: Reading, weights: Weights, texts: EncodedTexts, prompt: PromptVerdict) -> Reconstruction:
    """The verdict on a reading, with that on its prompt beside it. Never raises for what a server sent."""
    group = group_of(reading, weights.calibration)
    found = find(reading, group, texts, prompt)
    if found.exposure is None:
        return found
    return weighed(found, weights.of(found.exposure, group, reading.target_name))


def find(
    reading: Reading, group: GroupCalibration | None, texts: EncodedTexts, prompt: PromptVerdict
) -> Reconstruction:
    """The verdict before its `exposure` is weighed. It stays the same as long as `facts_of_group` do."""
    if reading.unusable or reading.situation is None:
        return _said(reading, "unusable", None, prompt, reading.unusable, {})
    return _Case(reading, group, texts, prompt).verdict()


def group_of(reading: Reading, calibration: Calibration) -> GroupCalibration | None:
    """The group that speaks for a reading; None for one whose model is not known."""
    if reading.situation is None:
        return None
    return calibration.of(reading.target_name, reading.provider, reading.situation.streamed, reading.exchange.order)


def _said(
    reading: Reading,
    verdict: Verdict,
    output_ids: Sequence[int] | None,
    prompt: PromptVerdict,
    reasons: Sequence[str],
    evidence: dict[str, Any],
    candidates: Sequence[Candidate] = (),
    exposure: Exposure | None = None,
) -> Reconstruction:
    return Reconstruction(
        exchange_id=reading.exchange.exchange_id,
        verdict=verdict,
        output_ids=output_ids,
        prompt_ids=prompt.ids,
        reasons=tuple(dict.fromkeys((*reasons, *reading.count_notes))),
        evidence=evidence,
        candidates=tuple(candidates),
        provider=reading.provider,
        model=reading.response.model or reading.exchange.model,
        exposure=exposure,
    )


class _Case:
    """One usable response on trial."""

    def __init__(
        self, reading: Reading, group: GroupCalibration | None, texts: EncodedTexts, prompt: PromptVerdict
    ) -> None:
        assert reading.situation is not None
        self._reading = reading
        self._situation = reading.situation
        self._response = reading.response
        self._group = group
        self._texts = texts
        self._prompt = prompt
        calls = bool(reading.response.tool_calls)
        self._kinds = kinds_of(self._situation.thinking, bool(self._situation.tools), calls)
        self._inversions = find_inversions(reading, self._group, texts)
        self._servers = servers_of(group, calls)
        self._served = False  # whether a server that the provider may run sends the inversions to the letter
        # Ids that a server of some kind streams one a step, if none that is known, with the tokens that stray.
        self._nearer: list[tuple[list[int], int]] = []
        self._evidence = _plain_evidence(reading)
        self._evidence["prompt"] = f"{prompt.verdict}: {prompt.reason}"

    def verdict(self) -> Reconstruction:
        ids, source = given_ids(self._reading)
        return self._by_given_ids(ids, source) if source else self._by_text()

    def _by_text(self) -> Reconstruction:
        if not self._inversions:
            return self._say("contradicted", None, ["no_convention_explains_the_text"])
        closing = self._sent_by_a_server([inversion for inversion in self._inversions if inversion.closes])
        if not closing and (restored := self._by_restored_white_space()):
            return restored
        if self._response.deltas and self._reading.completion_tokens is not None:
            best = (closing or self._inversions)[0]
            decided = (
                self._by_one_token_steps(closing)
                or self._by_steps_of_a_server()
                or self._by_walls(best)
                or self._by_unclear_steps(best)
            )
            if decided is not None:
                return decided
        return self._by_count(closing) if closing else self._count_does_not_close()

    def _sent_by_a_server(self, closing: list[Inversion]) -> list[Inversion]:
        """Of inversions that leave something open, those that a server which the provider may run sends to the letter;
        all where nothing is open, and where none is sent, but for those that are spelt otherwise."""
        if not self._servers:
            return closing
        if any(inversion.respelt for inversion in closing):  # known servers spell anew what they are known to
            closing = [i for i in closing if self._is_sent(i.ids(self._texts, self._situation))]
            self._inversions = [i for i in self._inversions if not i.respelt or i in closing]
        if not closing:
            return self._served_by(sent_variants(self._reading, self._inversions, self._servers, self._texts))
        rivals = rival_candidates(closing, self._texts, self._situation)
        if len(rivals) < 2 and what_is_unsettled(self._group, bool(self._response.tool_calls)) is None:
            return closing
        ids = [(inversion, inversion.ids(self._texts, self._situation)) for inversion in closing]
        return self._served_by([i for i, said in ids if self._is_sent(said)]) or closing

    def _served_by(self, sent: list[Inversion]) -> list[Inversion]:
        """Take the inversions that a server sends to the letter, if there are any, for all that there are."""
        if sent:
            self._evidence["servers"] = [server.name for server in self._servers]
            self._inversions, self._served = sent, True
        return sent

    def _is_sent(self, ids: Sequence[int]) -> bool:
        return any(sends(server, ids, self._reading) for server in self._servers)

    def _is_what_a_server_held_back(self, ids: list[int], strays: int) -> bool:
        """Whether ids that some server may have streamed one by one, but not only they, need no further search: there
        is none of a known server, or it sends them so, and they are canonical."""
        if not self._servers or len(ids) > MOST_TOKENS:
            return True
        return not strays and any(sends_one_by_one(server, ids, self._reading) for server in self._servers)

    def _by_given_ids(self, ids: list[int] | None, source: str) -> Reconstruction:
        self._evidence["ids_from"] = source
        if ids is None:
            best = self._inversions[0] if self._inversions else None
            return self._say("unverified", best, [f"{source}_incomplete"])
        said = verdict_on_given(ids, source, self._reading, self._group)
        return self._say(said.verdict, None, said.reasons, output_ids=said.ids, exposure=said.exposure)

    def _by_one_token_steps(self, closing: Sequence[Inversion]) -> Reconstruction | None:
        """The ids that the deltas spell when each step of the stream made one token; None where none did."""
        for inversion in self._inversions:
            found = self._spelt_by_steps(inversion)
            if found is None:
                continue
            ids, solution, whole = found
            if not solution.unique and not self._is_what_a_server_held_back(ids, solution.strays):
                self._nearer.append((ids, solution.strays))
                continue
            self._evidence["frames"] = "one token a step"
            if inversion.ids(self._texts, self._situation) == ids:
                rivals = rival_candidates(closing, self._texts, self._situation)
            else:
                rivals = self._spelt_otherwise(inversion, ids)
            # What the frames spell closes by itself, canonical or not.
            inversion = replace(inversion, difference=0)
            doubt = self._doubts(inversion, rivals)
            if doubt.reasons:
                but_for = doubt.exposure_but_for_numbers
                return self._say("unverified", inversion, doubt.reasons, rivals[1:], ids, but_for)
            proved = solution.unique and whole and not self._response.tool_calls and not doubt.loss_possible
            # Without a count of it, nothing but a word of the server's says that a stop token was generated.
            proved = proved and self._reading.is_witnessed and inversion.hypothesis.counting.stop_counted
            # What a server that ends inside a character holds back shows nowhere.
            proved = proved and inversion.output.stopped
            # An encoder's cut of the text is one token a delta too, but never leaves the canonical path.
            proved = proved and (solution.strays > 0 or (self._group is not None and self._group.shows_steps))
            if proved:
                return self._say("exact", inversion, ["one_token_steps"], output_ids=ids)
            several = not solution.unique and solution.strays > 0
            return self._consistent(inversion, "one_token_steps", doubt, several, ids)
        return None

    def _spelt_by_steps(self, inversion: Inversion) -> tuple[list[int], Solution, bool] | None:
        """The ids nearest to the canonical ones that the deltas spell under one inversion; None where there are none,
        or several."""
        frames = FrameEvidence(self._reading, inversion, self._texts)
        found = frames.one_token_steps()
        if found is None or not found[1].clear:
            return None
        # A token more that no frame shows was lost at an edge, or is a marker at a cut: it splits no other token.
        if not inversion.closes and (frames.agrees() or not inversion.output.stopped):
            return None
        return found

    def _spelt_otherwise(self, inversion: Inversion, ids: list[int]) -> list[Candidate]:
        """The ids that the deltas spell, and behind them others that they spell under another convention; none where
        there are no others, or where a server that the provider may run sends these to the letter and no others."""
        others = [other for other in self._inversions if other.hypothesis != inversion.hypothesis]
        spelt = [(other, found[0]) for other in others if (found := self._spelt_by_steps(other)) is not None]
        rivals = [(other, rival) for other, rival in spelt if rival != ids]
        if not rivals:
            return []
        if self._is_sent(ids) and not any(self._is_sent(rival) for _, rival in rivals):
            self._served = True
            return []
        return [Candidate(said, of.hypothesis.name, 0) for of, said in ((inversion, ids), *rivals)]

    def _by_steps_of_a_server(self) -> Reconstruction | None:
        """The ids of which a server that the provider may run sends one a step; None where it sends none so."""
        if not self._servers or self._reading.layout_notes:
            return None
        found = segmentation(self._reading, self._inversions, self._servers, self._texts)
        if found is None:
            return None
        inversion, solution = found
        self._evidence["frames"] = "one token a step"
        self._evidence["servers"] = [server.name for server in self._servers]
        # The list of known servers is not closed: ids that stray less from the canonical ones stand against it, unless
        # it was seen how this one sends what they differ in.
        seen, vocabulary = self._group.parts_seen if self._group else frozenset(), self._situation.target.vocabulary
        nearer = [
            ids
            for ids, strays in self._nearer
            if strays < solution.strays and not are_seen(ids, solution.ids, seen, vocabulary)
        ]
        if nearer or not solution.clear:
            rivals = [Candidate(ids, inversion.hypothesis.name, 0) for ids in nearer]
            doubt = self._doubts(replace(inversion, difference=0), [])
            # Whoever can tell these apart has all of them, and knows what else may be wrong with each.
            exposure = doubt.exposure if solution.clear and not doubt.reasons else None
            reason = "several_segmentations"
            return self._say("unverified", inversion, [reason], rivals, solution.ids, exposure=exposure)
        self._served = True
        inversion = replace(inversion, difference=0)
        doubt = self._doubts(inversion, [])
        if doubt.reasons:
            but_for = doubt.exposure_but_for_numbers
            return self._say("unverified", inversion, doubt.reasons, output_ids=solution.ids, exposure=but_for)
        return self._consistent(inversion, "one_token_steps", doubt, not solution.unique, solution.ids)

    def _by_restored_white_space(self) -> Reconstruction | None:
        """White space that a known server took away, as the count wants it; None where there can be none."""
        group, best = self._group, self._inversions[0]
        if not self._servers or group is None or len(self._inversions) > 1:
            return None
        if set(self._reading.layout_notes) - {"think_position_unknown"}:
            return None
        if self._response.deltas and not FrameEvidence(self._reading, best, self._texts).agrees():
            return None
        views = self._edges(group.places_that_may_lose(self._kinds))
        found = restorations(self._reading, best, views, group.reasoning_surplus, self._servers, self._texts)
        if not found:
            return None
        first, *others = found
        self._served = True
        doubt = self._doubts(first.inversion, [])
        if doubt.reasons or doubt.exposure is None:
            return None
        place = first.restored.place
        lost = {edge: positions for edge, positions in doubt.exposure.lost.items() if edge != place}
        self._evidence["restored"] = {"place": place, "white_space": first.white, "difference": best.difference}
        self._evidence["servers"] = [server.name for server in self._servers]
        reason = f"white_space_restored: {in_words(place)}"
        candidates = [other.inversion.candidate(self._texts, self._situation) for other in others]
        exposure = replace(doubt.exposure, lost=lost, restored=first.restored)
        return self._say("consistent", first.inversion, [reason], candidates, exposure=exposure)

    def _by_walls(self, best: Inversion) -> Reconstruction | None:
        """What it means that deltas end inside canonical tokens; None where they do not."""
        frames = FrameEvidence(self._reading, best, self._texts)
        if not frames.readable:
            return None
        if frames.agrees():
            self._evidence["frames"] = "agree"
            return None
        self._evidence["frames"] = "disagree"
        unclear = frames.one_token_steps()
        if unclear is not None:
            return self._say("unverified", best, ["several_segmentations"], output_ids=unclear[0])
        between = frames.between_walls()
        unsettled = what_is_unsettled(self._group, bool(self._response.tool_calls))
        if between is not None:
            return self._say("unverified", best, ["frames_disagree", "ids_between_walls"], output_ids=between)
        if unsettled is not None:
            return self._say("unverified", best, ["frames_disagree", unsettled])
        return self._say("contradicted", best, ["frames_disagree"])

    def _by_unclear_steps(self, best: Inversion) -> Reconstruction | None:
        """Several segmentations that the frames allow where the canonical one does not close; else None."""
        found = None if best.closes else FrameEvidence(self._reading, best, self._texts).one_token_steps()
        if found is None:
            return None
        self._evidence["frames"] = "one token a step"
        return self._say("unverified", best, ["several_segmentations"], output_ids=found[0])

    def _by_count(self, closing: Sequence[Inversion]) -> Reconstruction:
        best = closing[0]
        rivals = rival_candidates(closing, self._texts, self._situation)
        doubt = self._doubts(best, rivals)
        if doubt.reasons:
            return self._say("unverified", best, doubt.reasons, rivals[1:], exposure=doubt.exposure_but_for_numbers)
        if self._calls_are_sent_otherwise(best):
            return self._say("unverified", best, ["server_sends_otherwise"])
        return self._consistent(best, "count_closes", doubt)

    def _calls_are_sent_otherwise(self, best: Inversion) -> bool:
        """Whether an answer with calls, in which servers change more than in any other, is not what the servers that
        the provider may run make of these ids."""
        if self._group is None or self._served or not self._response.tool_calls or self._situation.streamed:
            return False
        servers = servers_named(self._group.servers)
        ids = best.ids(self._texts, self._situation)
        return bool(servers) and not any(sends(server, ids, self._reading) for server in servers)

    def _count_does_not_close(self) -> Reconstruction:
        best = self._inversions[0]
        if best.difference is None:
            rivals = rival_candidates(self._inversions, self._texts, self._situation)
            return self._say("unverified", best, ["no_count"], rivals[1:])
        reasons = [f"count_mismatch: {best.difference:+d}"]
        if any(best.difference in view.with_lost for view in self._edges().values()):
            reasons.append("possible_trim")
        unsettled = what_is_unsettled(self._group, bool(self._response.tool_calls))
        return self._say("contradicted" if unsettled is None else "unverified", best, reasons)

    def _consistent(
        self, best: Inversion, reason: str, doubt: Doubts, several: bool = False, ids: list[int] | None = None
    ) -> Reconstruction:
        assert doubt.exposure is not None
        assert self._group is not None
        exposure = replace(doubt.exposure, other_segmentation=True) if several else doubt.exposure
        if best.codes and self._group.servers:  # a convention alone does not show what was supposed
            self._evidence["servers"] = list(self._group.servers)
        return self._say("consistent", best, [reason], output_ids=ids, exposure=exposure)

    def _doubts(self, best: Inversion, rivals: Sequence[Candidate]) -> Doubts:
        losing = self._group.places_that_may_lose(self._kinds) if self._group is not None else ()
        kept = bool(self._response.tool_calls) and self._index_kept()
        return doubts(self._reading, best, rivals, self._group, self._edges(losing), self._served, kept)

    def _index_kept(self) -> bool:
        """Whether calls are shown with the numbers that the model gave them."""
        target, streamed = self._reading.target_name, self._situation.streamed
        if self._group is None or self._group.tool_ids_kept:
            return self._group is not None
        if self._group.tool_ids_renumbered:
            return False
        return bool(self._servers) and all(keeps_index(server, target, streamed) for server in self._servers)

    def _edges(self, wanted: Container[Place] = PLACES) -> dict[Place, EdgeView]:
        return edge_views(self._reading, self._reading.layouts[0], wanted)

    def _say(
        self,
        verdict: Verdict,
        best: Inversion | None,
        reasons: Sequence[str],
        candidates: Sequence[Candidate] = (),
        output_ids: Sequence[int] | None = None,
        exposure: Exposure | None = None,
    ) -> Reconstruction:
        reasons = list(reasons)
        if best is not None:
            reasons += best.codes
            self._evidence["convention"] = best.hypothesis.name
            self._evidence["count_difference"] = best.difference
            output_ids = best.ids(self._texts, self._situation) if output_ids is None else output_ids
        reasons += [*self._reading.layout_notes, *self._reading.text_notes, *self._response.notes]
        others = candidates[: _MOST_CANDIDATES - 1]
        return _said(self._reading, verdict, output_ids, self._prompt, reasons, self._evidence, others, exposure)


def _plain_evidence(reading: Reading) -> dict[str, Any]:
    response = reading.response
    evidence: dict[str, Any] = {
        "completion_tokens": response.completion_tokens,
        "prompt_tokens": response.prompt_tokens,
        "reasoning_tokens": response.reasoning_tokens,
        "finish_reason": response.finish_reason,
        "native_finish_reason": response.native_finish_reason,
        "streamed": response.streamed,
        "deltas": len(response.deltas),
    }
    return {key: value for key, value in evidence.items() if value is not None}
