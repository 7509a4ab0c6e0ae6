"""The verdict on one response: its candidates under the conventions that still stand, held against all evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from eagle_assets.reconstruction.arguments import other_spellings
from eagle_assets.reconstruction.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.counting import EVERYTHING_COUNTED
from eagle_assets.reconstruction.encoding import EncodedTexts, has_surrogate
from eagle_assets.reconstruction.frames import (
    FieldFrames,
    agreement,
    field_frames,
    ids_between_walls,
    one_token_deltas,
)
from eagle_assets.reconstruction.given_ids import agrees_with_message, given_ids
from eagle_assets.reconstruction.layouts import Layout, layout_notes, layouts
from eagle_assets.reconstruction.observation import edge_views, texts_to_count
from eagle_assets.reconstruction.reading import Reading
from eagle_assets.reconstruction.survivor import Hypothesis
from eagle_assets.reconstruction.verdict import Candidate, Reconstruction, Verdict
from eagle_assets.serving.convention import Edge
from eagle_assets.serving.output import Ids, Output, join_output

MAX_ERROR_OF_A_RESPONSE = 0.2
"""Probability of wrong ids behind a closed count, above which a response is not trusted. What the trusted ones of a
dataset may add up to on average is the user's `max_residual_error`, which a blocking check enforces."""

MAX_UNMEASURED_ERROR = 0.05
"""Error that a group has too few closed counts to exclude, above which it settles nothing."""

MIN_CLOSING_SHARE = 0.5
"""Share of a group's counts that must close before a closed count in it is evidence."""

_UNPROVABLE = frozenset(
    (
        "bad_frame",
        "several_choices",
        "reasoning_fields_differ",
        "transport_error",
        "args_missing",
        "args_doubled",
        "args_escaped",
        "args_reserialised",
        "cut_at_marker",
    )
)
"""Notes and suppositions under which a closed count is no proof: another explanation would close it too."""


@dataclass(frozen=True, slots=True)
class Inversion:
    """One way to read a response: a layout with a convention undone, and what the count says of it.

    `difference` is `completion_tokens` minus what the convention predicts; None without a count.
    """

    shown: Output[str]
    output: Output[str]
    hypothesis: Hypothesis
    difference: int | None
    codes: tuple[str, ...]

    @property
    def closes(self) -> bool:
        return self.difference == 0


def hypotheses_of(group: GroupCalibration | None) -> tuple[Hypothesis, ...]:
    """The conventions to try on a response, the likeliest first."""
    if group is None:
        return (Hypothesis(frozenset(), EVERYTHING_COUNTED),)
    return tuple(survivor.hypothesis for survivor in group.survivors)


def outputs_to_weigh(
    reading: Reading, hypotheses: Sequence[Hypothesis]
) -> Iterator[tuple[Layout, Hypothesis, Output[str]]]:
    """Every layout under every convention that can have shown it."""
    assert reading.situation is not None
    for hypothesis in hypotheses:
        for layout in layouts(reading):
            output = hypothesis.invert(layout.output, reading.situation)
            if output is not None:
                yield layout, hypothesis, output


def texts_to_judge(reading: Reading, calibration: Calibration) -> Iterator[str]:
    """Every text whose ids `judge` asks for."""
    if reading.unusable or reading.situation is None:
        return
    group = _group_of(reading, calibration)
    for layout in layouts(reading)[:1]:
        yield from texts_to_count(reading, layout)
    for layout, _, output in outputs_to_weigh(reading, hypotheses_of(group)):
        yield from output.segments()
        for _, respelled in other_spellings(output):
            yield from respelled.segments()
        del layout


def _group_of(reading: Reading, calibration: Calibration) -> GroupCalibration | None:
    assert reading.situation is not None
    return calibration.of(reading.situation.target.name, reading.provider, reading.situation.streamed)


def judge(
    reading: Reading, calibration: Calibration, texts: EncodedTexts, prompt_ids: list[int] | None
) -> Reconstruction:
    """The verdict on a reading. Never raises for what a server sent."""
    if reading.unusable or reading.situation is None:
        return _said(reading, "unusable", None, prompt_ids, reading.unusable, {})
    return _Case(reading, calibration, texts, prompt_ids).verdict()


def _said(
    reading: Reading,
    verdict: Verdict,
    output_ids: list[int] | None,
    prompt_ids: list[int] | None,
    reasons: Sequence[str],
    evidence: dict[str, Any],
    candidates: Sequence[Candidate] = (),
) -> Reconstruction:
    return Reconstruction(
        exchange_id=reading.exchange.exchange_id,
        verdict=verdict,
        output_ids=output_ids,
        prompt_ids=prompt_ids,
        reasons=tuple(dict.fromkeys((*reasons, *reading.count_notes))),
        evidence=evidence,
        candidates=tuple(candidates),
        provider=reading.provider,
        model=reading.response.model or reading.exchange.model,
    )


class _Case:
    """One usable response on trial."""

    def __init__(
        self, reading: Reading, calibration: Calibration, texts: EncodedTexts, prompt_ids: list[int] | None
    ) -> None:
        assert reading.situation is not None
        self.index_error = calibration.index_error(reading.situation.calls_in_history, len(reading.response.tool_calls))
        self.reading = reading
        self.situation = reading.situation
        self.response = reading.response
        self.group = _group_of(reading, calibration)
        self.texts = texts
        self.prompt_ids = prompt_ids
        self.markers = self.situation.target.markers
        self.vocabulary = self.situation.target.vocabulary
        self.inversions = self._inversions()
        self.evidence: dict[str, Any] = self._plain_evidence()

    def verdict(self) -> Reconstruction:
        ids, source = given_ids(self.reading)
        if source:
            return self._by_given_ids(ids, source)
        if not self.inversions:
            return self._say("contradicted", None, ["no_convention_explains_the_text"])
        closing = [inversion for inversion in self.inversions if inversion.closes]
        walls = self._by_frames(closing)
        if walls is not None:
            return walls
        if not closing:
            return self._count_does_not_close()
        return self._by_count(closing)

    def _inversions(self) -> list[Inversion]:
        found = []
        for layout, hypothesis, output in outputs_to_weigh(self.reading, hypotheses_of(self.group)):
            difference = self._difference(output, hypothesis)
            found.append(Inversion(layout.output, output, hypothesis, difference, layout.codes))
        if not any(inversion.closes for inversion in found):
            for inversion in tuple(found):
                for code, output in other_spellings(inversion.output):
                    difference = self._difference(output, inversion.hypothesis)
                    if difference == 0:
                        codes = (*inversion.codes, code)
                        found.append(replace(inversion, output=output, difference=0, codes=codes))
        return found

    def _difference(self, output: Output[str], hypothesis: Hypothesis) -> int | None:
        count = self.reading.completion_tokens
        if count is None:
            return None
        counting = hypothesis.counting
        predicted = self.texts.length(output)
        predicted += counting.think_generated and self.situation.thinking
        predicted -= output.stopped and not counting.stop_counted
        predicted -= output.section_closed and counting.section_end_open
        return count - predicted

    def _ids(self, inversion: Inversion) -> list[int]:
        begun = inversion.hypothesis.counting.think_generated and self.situation.thinking
        output = replace(inversion.output, think_begun=begun)
        return self.texts.output_ids(output, self.markers)

    def _candidate(self, inversion: Inversion) -> Candidate:
        return Candidate(self._ids(inversion), inversion.hypothesis.name, inversion.difference)

    def _rival_ids(self, inversions: Sequence[Inversion]) -> list[Candidate]:
        """Candidates with other ids each, in order; an open section end makes two of one."""
        found: dict[tuple[int, ...], Candidate] = {}
        for inversion in inversions:
            candidate = self._candidate(inversion)
            found.setdefault(tuple(candidate.output_ids), candidate)
            if inversion.hypothesis.counting.section_end_open and inversion.output.section_closed:
                without = [i for i in candidate.output_ids if i != self.markers.section_end]
                found.setdefault(tuple(without), replace(candidate, output_ids=without))
        return list(found.values())

    def _say(
        self,
        verdict: Verdict,
        best: Inversion | None,
        reasons: Sequence[str],
        candidates: Sequence[Candidate] = (),
        output_ids: list[int] | None = None,
    ) -> Reconstruction:
        if best is not None:
            reasons = [*reasons, *best.codes]
            self.evidence["convention"] = best.hypothesis.name
            self.evidence["count_difference"] = best.difference
            output_ids = self._ids(best) if output_ids is None else output_ids
        notes = (*layout_notes(self.reading), *self._text_notes(), *self.response.notes)
        return _said(self.reading, verdict, output_ids, self.prompt_ids, [*reasons, *notes], self.evidence, candidates)

    def _plain_evidence(self) -> dict[str, Any]:
        evidence: dict[str, Any] = {
            "completion_tokens": self.response.completion_tokens,
            "prompt_tokens": self.response.prompt_tokens,
            "reasoning_tokens": self.response.reasoning_tokens,
            "finish_reason": self.response.finish_reason,
            "native_finish_reason": self.response.native_finish_reason,
            "streamed": self.situation.streamed,
            "deltas": len(self.response.deltas),
        }
        return {key: value for key, value in evidence.items() if value is not None}

    def _text_notes(self) -> list[str]:
        texts = [self.response.reasoning or "", self.response.content or ""]
        texts += [call.arguments or "" for call in self.response.tool_calls]
        notes = ["replacement_char"] if any("\ufffd" in text for text in texts) else []
        notes += ["half_surrogate"] if any(map(has_surrogate, texts)) else []
        return notes

    def _by_given_ids(self, ids: list[int] | None, source: str) -> Reconstruction:
        self.evidence["ids_from"] = source
        best = self.inversions[0] if self.inversions else None
        if ids is None:
            return self._say("unverified", best, [f"{source}_incomplete"])
        counted = {self.reading.completion_tokens}
        if self.response.finish_reason != "length" and ids[-1:] != [self.markers.stop]:
            return self._say("unverified", None, [f"{source}_without_stop"], output_ids=[*ids, self.markers.stop])
        if self.group is not None and not self.group.best.hypothesis.counting.stop_counted:
            counted.add((self.reading.completion_tokens or 0) + 1)
        if not agrees_with_message(ids, self.reading):
            return self._say("contradicted", None, ["given_ids_differ_from_text"], output_ids=ids)
        if len(ids) not in counted:
            verdict: Verdict = "unverified" if counted == {None} else "contradicted"
            return self._say(verdict, None, ["given_ids_differ_from_count"], output_ids=ids)
        if _UNPROVABLE.intersection(self.response.notes):
            return self._say("unverified", None, [], output_ids=ids)
        return self._say("exact", None, [source], output_ids=ids)

    def _count_does_not_close(self) -> Reconstruction:
        best = self.inversions[0]
        if best.difference is None:
            return self._say("unverified", best, ["no_count"], self._rival_ids(self.inversions)[1:4])
        reasons = [f"count_mismatch: {best.difference:+d}"]
        views = edge_views(self.reading, layouts(self.reading)[0], self.texts)
        if any(best.difference in view.with_lost for view in views.values()):
            reasons.append("possible_trim")
        settled = self.group is not None and self._settled() is None
        return self._say("contradicted" if settled else "unverified", best, reasons)

    def _by_count(self, closing: list[Inversion]) -> Reconstruction:
        best = closing[0]
        rivals = self._rival_ids(closing)
        reasons = self._doubts(best, rivals)
        if reasons:
            return self._say("unverified", best, reasons, rivals[1:4])
        return self._say("consistent", best, ["count_closes"])

    def _doubts(self, best: Inversion, rivals: Sequence[Candidate]) -> list[str]:
        """Why a closed count does not make the ids trusted; empty where it does."""
        doubts = []
        unsettled = self._settled()
        if unsettled is not None:
            doubts.append(unsettled)
        if len(rivals) > 1:
            doubts.append(self._rivalry(best))
        doubts += self._text_notes()
        # Providers that are known to tell reasoning from content can be believed where there is none.
        believed = {"finish_length"} if unsettled else {"finish_length", "think_position_unknown"}
        doubts += [note for note in layout_notes(self.reading) if note not in believed]
        doubts += [note for note in (*self.response.notes, *best.codes) if note in _UNPROVABLE]
        if self.group is not None and unsettled is None:
            doubts += self._residual_doubts(best, self.group)
        return doubts

    def _rivalry(self, best: Inversion) -> str:
        if best.hypothesis.counting.section_end_open and best.output.section_closed:
            return "section_end_undecided"
        return "leading_blank_undecided" if self._starts_with_blank(best) else "rival_conventions"

    def _starts_with_blank(self, best: Inversion) -> bool:
        return any(text.startswith(" ") for text in (best.shown.reasoning or "", best.shown.content))

    def _settled(self) -> str | None:
        """None where the group's responses settle its convention, else what is missing."""
        has_calls = bool(self.response.tool_calls)
        if self.group is None:
            return "provider_uncalibrated: no other response of it"
        if self.group.closing_share(has_calls) < MIN_CLOSING_SHARE:
            closed, counted = self.group.closed[has_calls], self.group.counted[has_calls]
            return f"provider_uncalibrated: {closed} of {counted} counts close"
        if self.group.unmeasured_error(has_calls) > MAX_UNMEASURED_ERROR:
            return f"provider_uncalibrated: only {self.group.closed[has_calls]} closed counts"
        return None

    def _residual_doubts(self, best: Inversion, group: GroupCalibration) -> list[str]:
        doubts = []
        errors: dict[str, float] = {}
        for edge, error in self._loss_errors(group).items():
            errors[f"white_space_may_be_lost: {edge.replace('_', ' ')}"] = error
        if self.response.tool_calls and not group.tool_ids_kept:
            errors["tool_index_unproven"] = self.index_error
        total = sum(errors.values())
        self.evidence["residual_error"] = round(total + group.unmeasured_error(bool(self.response.tool_calls)), 4)
        if total > MAX_ERROR_OF_A_RESPONSE:
            doubts.append(max(errors, key=lambda cause: errors[cause]))
        return doubts

    def _loss_errors(self, group: GroupCalibration) -> dict[Edge, float]:
        return group.loss_errors(edge_views(self.reading, layouts(self.reading)[0], self.texts))

    def _by_frames(self, closing: Sequence[Inversion]) -> Reconstruction | None:
        """What the frames of a stream decide; None where they decide nothing."""
        if not self.response.deltas or self.reading.completion_tokens is None:
            return None
        for inversion in self.inversions:
            if inversion.codes or (not inversion.output.stopped and inversion.output.calls):
                continue
            fields = self._frames_of(inversion)
            if fields is None:
                return None
            ids = self._one_token_a_frame(inversion, fields)
            if ids is not None:
                return self._by_one_token_deltas(inversion, *ids)
        return self._against_walls(closing)

    def _frames_of(self, inversion: Inversion) -> dict[str, FieldFrames] | None:
        shown = {"reasoning": self.response.reasoning or "", "content": self.response.content or ""}
        texts = {"reasoning": inversion.output.reasoning or "", "content": inversion.output.content}
        if shown["reasoning"] != (inversion.shown.reasoning or "") or shown["content"] != inversion.shown.content:
            return None
        found = {}
        for field, text in texts.items():
            frames = field_frames(self.response.deltas, field, shown[field], text)
            if frames is None:
                return None
            found[field] = frames
        return found

    def _one_token_a_frame(self, inversion: Inversion, fields: dict[str, FieldFrames]) -> tuple[list[int], bool] | None:
        """Ids when each delta of the texts is one token, and whether no others are possible."""
        text_tokens = self.texts.count(inversion.output.reasoning or "") + self.texts.count(inversion.output.content)
        if inversion.difference is None:
            return None
        deltas = sum(len(frames.deltas) for frames in fields.values())
        if deltas != text_tokens + inversion.difference:
            return None
        segments: dict[str, Ids] = {}
        unique = True
        texts = {"reasoning": inversion.output.reasoning or "", "content": inversion.output.content}
        for field, frames in fields.items():
            ids, only = one_token_deltas(frames, self.texts.ids(texts[field]), self.vocabulary)
            if ids is None:
                return None
            segments[field] = ids
            unique = unique and only
        begun = inversion.hypothesis.counting.think_generated and self.situation.thinking
        output = replace(inversion.output, think_begun=begun).over(self._ids_of_segment)
        reasoning = None if output.reasoning is None else segments["reasoning"]
        return join_output(replace(output, reasoning=reasoning, content=segments["content"]), self.markers), unique

    def _ids_of_segment(self, text: str) -> Ids:
        return self.texts.ids(text)

    def _by_one_token_deltas(self, inversion: Inversion, ids: list[int], unique: bool) -> Reconstruction:
        self.evidence["frames"] = "one token a delta"
        inversion = replace(inversion, difference=0)
        rivals = self._rival_ids([i for i in self.inversions if i.closes])
        doubts = self._doubts(inversion, rivals if len(rivals) > 1 else [])
        if doubts:
            return self._say("unverified", inversion, doubts, rivals[1:4], ids)
        whole = unique and not self.response.tool_calls and self._no_loss_possible()
        return self._say("exact" if whole else "consistent", inversion, ["one_token_deltas"], output_ids=ids)

    def _no_loss_possible(self) -> bool:
        return self.group is not None and not any(self._loss_errors(self.group).values())

    def _against_walls(self, closing: Sequence[Inversion]) -> Reconstruction | None:
        """Whether the deltas' ends contradict the canonical ids; then the ids between the walls, if these close."""
        best = next(chain(closing, self.inversions), None)
        fields = None if best is None else self._frames_of(best)
        if best is None or fields is None:
            return None
        segments = {"reasoning": best.output.reasoning or "", "content": best.output.content}
        if all(agreement(fields[f], self.texts.ids(t), self.vocabulary) for f, t in segments.items() if t):
            self.evidence["frames"] = "agree"
            return None
        self.evidence["frames"] = "disagree"
        if self._settled() is not None:
            return self._say("unverified", best, ["frames_disagree", self._settled() or ""])
        between = {field: ids_between_walls(frames, self.vocabulary) for field, frames in fields.items()}
        surplus = sum(map(len, between.values())) - sum(self.texts.count(text) for text in segments.values())
        if best.difference is None or surplus != best.difference:
            return self._say("contradicted", best, ["frames_disagree"])
        output = best.output.over(self._ids_of_segment)
        reasoning = None if output.reasoning is None else between["reasoning"]
        ids = join_output(replace(output, reasoning=reasoning, content=between["content"]), self.markers)
        return self._say("unverified", best, ["frames_disagree", "ids_between_walls"], output_ids=ids)
