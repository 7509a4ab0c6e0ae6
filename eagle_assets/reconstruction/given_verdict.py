"""The verdict on ids that the server itself gives: whether they are whole, agree with what is shown, and were generated
or encoded from the text by someone on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eagle_assets.reconstruction.calibrating.calibration import GroupCalibration
from eagle_assets.reconstruction.calibrating.observation import kinds_of
from eagle_assets.reconstruction.doubts import UNPROVABLE
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.given_ids import agrees_with_message, asked_for, off_the_path
from eagle_assets.reconstruction.verdict import Exposure, Verdict


class OnGiven(NamedTuple):
    """A verdict with its reasons, the ids that it is on, and what may be wrong with them if it is `consistent`."""

    verdict: Verdict
    reasons: Sequence[str]
    ids: Sequence[int]
    exposure: Exposure | None = None


def verdict_on_given(ids: list[int], source: str, reading: Reading, group: GroupCalibration | None) -> OnGiven:
    """The verdict on ids from the field `source` of a usable response."""
    assert reading.situation is not None
    response, markers = reading.response, reading.situation.target.markers
    if response.finish_reason != "length" and ids[-1:] != [markers.stop]:
        return OnGiven("unverified", [f"{source}_without_stop"], [*ids, markers.stop])
    kinds = kinds_of(reading.situation.thinking, bool(reading.situation.tools), bool(response.tool_calls))
    if not agrees_with_message(ids, reading, group.kept.of(kinds) if group is not None else ()):
        return OnGiven("contradicted", ["given_ids_differ_from_text"], ids)
    counted = reading.completion_tokens
    if counted is None:
        return OnGiven("unverified", ["no_count"], ids)
    stop_counted = group is None or group.best.hypothesis.counting.stop_counted
    if len(ids) not in ((counted,) if stop_counted else (counted, counted + 1)):
        return OnGiven("contradicted", ["given_ids_differ_from_count"], ids)
    if UNPROVABLE.intersection(response.notes) or "finish_reasons_differ" in reading.layout_notes:
        return OnGiven("unverified", [], ids)
    if reading.situation.thinking and ids[-1:] == [markers.stop] and markers.think_end not in ids:
        # Either the model ended in mid-thought, or what gives the ids leaves markers out.
        return OnGiven("unverified", [f"{source}_without_think_end"], ids)
    if not _were_generated(ids, source, reading, group):
        if group is not None and group.gives_other_ids:
            return OnGiven("unverified", [f"{source}_unproven"], ids)
        exposure = Exposure(has_calls=bool(response.tool_calls), given=True)
        return OnGiven("consistent", [source, "given_ids_as_encoded"], ids, exposure)
    if not reading.is_witnessed:
        return OnGiven("consistent", [source, "arrivals_missing"], ids)
    return OnGiven("exact", [source], ids)


def _were_generated(ids: Sequence[int], source: str, reading: Reading, group: GroupCalibration | None) -> bool:
    """Whether given ids are the generated ones, and not an encoding of the text by someone on the way: they were
    asked for, or they are none themselves, or now and then the provider's are none; and its others agree with what it
    shows and counts."""
    if group is not None and group.gives_other_ids:
        return False
    generates = group is not None and group.gives_generated_ids
    return asked_for(reading, source) or generates or off_the_path(ids, reading)
