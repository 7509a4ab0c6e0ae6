"""Why a closed count does not make ids trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eagle_assets.reconstruction.calibrating.calibration import MAX_UNMEASURED_ERROR, GroupCalibration
from eagle_assets.reconstruction.calibrating.inversion import Inversion
from eagle_assets.reconstruction.calibrating.kept import stripped_as, written_at
from eagle_assets.reconstruction.calibrating.losses import is_unusual
from eagle_assets.reconstruction.calibrating.observation import EdgeView, index_shifted, line_breaks, shows_both
from eagle_assets.reconstruction.calibrating.rules import in_words
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.inverse import edges as edges_of
from eagle_assets.reconstruction.key_order import key_order
from eagle_assets.reconstruction.places import Place, index_risk, place_of
from eagle_assets.reconstruction.verdict import Candidate, Exposure

MIN_CLOSING_SHARE = 0.5
"""Share of a group's counts that must close before a closed count in it is evidence."""

UNPROVABLE = frozenset(
    (
        "bad_frame",
        "several_choices",
        "unread_output",
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

_RESPELT = frozenset(("args_escaped", "args_reserialised"))
_TOO_FAR_FOR_CHANCE = 16
"""Tokens by which a count is off, which nothing but another spelling makes up for to the token."""


@dataclass(slots=True)
class Doubts:
    """`reasons` is empty where the ids are trusted; `exposure` is what may be wrong with them all the same, None where
    the group settles nothing."""

    reasons: list[str] = field(default_factory=list)
    exposure: Exposure | None = None

    @property
    def exposure_but_for_numbers(self) -> Exposure | None:
        """The exposure where the numbers of the calls are all that is doubted."""
        return self.exposure if self.reasons == ["tool_index_unproven"] else None

    @property
    def loss_possible(self) -> bool:
        """Whether white space may have been lost at an edge without a trace."""
        return self.exposure is None or bool(self.exposure.lost)


def doubts(
    reading: Reading,
    best: Inversion,
    rivals: Sequence[Candidate],
    group: GroupCalibration | None,
    edges: Mapping[Place, EdgeView],
    served: bool,
    index_kept: bool,
) -> Doubts:
    """What speaks against trusting `best`; `rivals` are the candidates whose counts close, if they are several.

    `served`: a server that the provider may run sends the response to the letter, which settles how it was served.
    `index_kept`: the calls have the numbers that the model gave them.
    """
    found = Doubts()
    unsettled = None if served else what_is_unsettled(group, bool(reading.response.tool_calls))
    if unsettled is not None:
        found.reasons.append(unsettled)
    if len(rivals) > 1:
        found.reasons.append(_rivalry(best))
    elif not served and group is not None and best.hypothesis != group.best.hypothesis:
        # Under the likeliest convention white space may have been lost: the count closes under another by chance.
        found.reasons.append("rival_conventions")
    found.reasons += reading.text_notes
    # Providers that are known to tell reasoning from content can be believed where there is none.
    has_tools = reading.situation is not None and bool(reading.situation.tools)
    tells_reasoning = group is not None and group.tells_reasoning[has_tools] and not unsettled
    believed = {"finish_length", "think_position_unknown"} if tells_reasoning else {"finish_length"}
    found.reasons += [note for note in reading.layout_notes if note not in believed]
    if best.output.reasoning is not None and not (tells_reasoning or unsettled or shows_both(best.output)):
        found.reasons.append("think_position_unknown")
    if group is not None and group.affixed and reading.situation is not None:
        begun = best.shown.section_begun
        ends = (stripped_as(place_of(edge, begun)) for edge, _, _ in edges_of(best.shown, reading.situation))
        found.reasons += [f"affix_may_be_added: {in_words(place)}" for place in ends if place in group.affixed][:1]
    if group is not None and group.line_breaks_alike and line_breaks(best.shown):
        found.reasons.append("line_breaks_may_be_rewritten")
    if group is not None and group.sorts_keys and reading.situation is not None:
        ordered = key_order(reading.response.tool_calls, reading.situation.tools)
        found.reasons += ["argument_keys_may_be_sorted"] if ordered is not None else []
    if index_shifted(reading) and not index_kept:
        found.reasons.append("tool_index_unproven")
    proved = {"cut_at_marker"} if _is_cut_at_think_end(reading, best, group) else set()
    proved |= _RESPELT if abs(best.respelt) >= _TOO_FAR_FOR_CHANCE else set()
    found.reasons += [note for note in (*reading.response.notes, *best.codes) if note in UNPROVABLE - proved]
    if group is not None and group.reasoning_surplus is not None and best.reasoning_surplus is not None:
        expected = group.reasoning_surplus if best.output.reasoning_closed else 0
        differs = best.reasoning_surplus - expected
        found.reasons += [f"reasoning_tokens_differ: {differs:+d}"] if differs else []
    if group is not None and unsettled is None:
        found.exposure = _exposure(reading, group, edges, index_kept, best.hypothesis)
    return found


def _is_cut_at_think_end(reading: Reading, best: Inversion, group: GroupCalibration | None) -> bool:
    """Whether a thinking output that the token limit cut ends in `</think>`: all that `reasoning_tokens` counts is
    shown, and one token came behind it.

    White space and parts of characters that a server takes from the end would be counted in the reasoning; only in
    streams vLLM leaves parts out.
    """
    output = best.output
    at_think_end = bool(output.reasoning) and output.reasoning_closed and not (output.content or output.section_begun)
    counts_text_alone = group is not None and group.reasoning_surplus == 0 == best.reasoning_surplus
    return at_think_end and counts_text_alone and not (output.stopped or reading.response.streamed)


def what_is_unsettled(group: GroupCalibration | None, has_calls: bool) -> str | None:
    """None where the group's responses settle its convention for those with calls or without, else what is missing."""
    if group is None:
        return "provider_uncalibrated: no other response of it"
    if group.closing_share(has_calls) < MIN_CLOSING_SHARE:
        return "provider_uncalibrated: too few of its counts close"
    if group.unmeasured_error(has_calls) > MAX_UNMEASURED_ERROR:
        return "provider_uncalibrated: too few closed counts"
    return None


def _rivalry(best: Inversion) -> str:
    if best.leaves_section_end_open:
        return "section_end_undecided"
    blank = any(text.startswith(" ") for text in (best.shown.reasoning or "", best.shown.content))
    return "leading_blank_undecided" if blank else "rival_conventions"


def _exposure(
    reading: Reading, group: GroupCalibration, edges: Mapping[Place, EdgeView], index_kept: bool, best: Hypothesis
) -> Exposure:
    assert reading.situation is not None
    output = reading.layouts[0].output
    unseen = {
        edge: tuple(position for position, change in enumerate(view.with_lost) if change == 0)
        for edge, view in edges.items()
        if stripped_as(edge) in group.kept.blanks_alone or not written_at(edge, view, best)
    }
    calls = len(reading.response.tool_calls)
    numbered = calls and not index_kept
    return Exposure(
        lost={edge: positions for edge, positions in unseen.items() if positions},
        unusual=is_unusual(output, reading.situation, group.best.hypothesis),
        has_calls=bool(calls),
        index_risk=index_risk(reading.situation.calls_in_history, calls) if numbered else None,
    )
