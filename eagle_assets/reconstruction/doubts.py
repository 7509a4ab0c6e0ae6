"""Why a closed count does not make ids trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eagle_assets.reconstruction.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.encoding import has_surrogate
from eagle_assets.reconstruction.inversion import Inversion
from eagle_assets.reconstruction.observation import EdgeView
from eagle_assets.reconstruction.reading import Reading
from eagle_assets.reconstruction.verdict import Candidate
from eagle_assets.serving.convention import Edge

MAX_ERROR_OF_A_RESPONSE = 0.2
"""Probability of wrong ids behind a closed count, above which a response is not trusted. What the trusted ones of a
dataset may add up to on average is the user's `max_residual_error`, which a blocking check enforces."""

MAX_UNMEASURED_ERROR = 0.05
"""Error that a group has too few closed counts to exclude, above which it settles nothing."""

MIN_CLOSING_SHARE = 0.5
"""Share of a group's counts that must close before a closed count in it is evidence."""

UNPROVABLE = frozenset(
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


@dataclass(slots=True)
class Doubts:
    """`reasons` is empty where the ids are trusted; `error` is the probability that they are wrong all the same.

    `loss_possible`: white space may have been lost at an edge without a trace.
    """

    reasons: list[str] = field(default_factory=list)
    error: float | None = None
    loss_possible: bool = True


def doubts(
    reading: Reading,
    best: Inversion,
    rivals: Sequence[Candidate],
    group: GroupCalibration | None,
    calibration: Calibration,
    edges: Mapping[Edge, EdgeView],
) -> Doubts:
    """What speaks against trusting `best`; `rivals` are the candidates whose counts close, if they are several."""
    found = Doubts()
    unsettled = what_is_unsettled(reading, group)
    if unsettled is not None:
        found.reasons.append(unsettled)
    if len(rivals) > 1:
        found.reasons.append(_rivalry(best))
    found.reasons += text_notes(reading)
    # Providers that are known to tell reasoning from content can be believed where there is none.
    believed = {"finish_length"} if unsettled else {"finish_length", "think_position_unknown"}
    found.reasons += [note for note in reading.layout_notes if note not in believed]
    found.reasons += [note for note in (*reading.response.notes, *best.codes) if note in UNPROVABLE]
    if group is not None and group.reasoning_surplus is not None and best.reasoning_surplus is not None:
        expected = group.reasoning_surplus if best.output.reasoning_closed else 0
        differs = best.reasoning_surplus - expected
        found.reasons += [f"reasoning_tokens_differ: {differs:+d}"] if differs else []
    if group is not None and unsettled is None:
        _weigh_residual_error(found, reading, group, calibration, edges)
    return found


def what_is_unsettled(reading: Reading, group: GroupCalibration | None) -> str | None:
    """None where the group's responses settle its convention, else what is missing."""
    has_calls = bool(reading.response.tool_calls)
    if group is None:
        return "provider_uncalibrated: no other response of it"
    if group.closing_share(has_calls) < MIN_CLOSING_SHARE:
        return f"provider_uncalibrated: {group.closed[has_calls]} of {group.counted[has_calls]} counts close"
    if group.unmeasured_error(has_calls) > MAX_UNMEASURED_ERROR:
        return f"provider_uncalibrated: only {group.closed[has_calls]} closed counts"
    return None


def text_notes(reading: Reading) -> list[str]:
    """Codes for what makes texts unprovable in themselves."""
    response = reading.response
    texts = [response.reasoning or "", response.content or "", *(c.arguments or "" for c in response.tool_calls)]
    notes = ["replacement_char"] if any("\ufffd" in text for text in texts) else []
    return notes + (["half_surrogate"] if any(map(has_surrogate, texts)) else [])


def _rivalry(best: Inversion) -> str:
    if best.leaves_section_end_open:
        return "section_end_undecided"
    blank = any(text.startswith(" ") for text in (best.shown.reasoning or "", best.shown.content))
    return "leading_blank_undecided" if blank else "rival_conventions"


def _weigh_residual_error(
    found: Doubts,
    reading: Reading,
    group: GroupCalibration,
    calibration: Calibration,
    edges: Mapping[Edge, EdgeView],
) -> None:
    assert reading.situation is not None
    errors: dict[str, float] = {}
    for edge, error in calibration.loss_errors(group, reading.situation.target.name, edges).items():
        errors[f"white_space_may_be_lost: {edge.replace('_', ' ')}"] = error
    found.loss_possible = any(errors.values())
    calls = len(reading.response.tool_calls)
    if calls and not group.tool_ids_kept:
        errors["tool_index_unproven"] = calibration.index_error(reading.situation.calls_in_history, calls)
    total = sum(errors.values())
    found.error = round(total + group.unmeasured_error(bool(calls)), 4)
    if total > MAX_ERROR_OF_A_RESPONSE:
        found.reasons.append(max(errors, key=lambda cause: errors[cause]))
