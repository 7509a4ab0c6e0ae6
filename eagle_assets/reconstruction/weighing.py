"""What may be wrong with ids that everything explains, weighed by what a calibration has measured.

It is apart from finding them because it is cheap: where a provider's rates move with every response, only this is done
again for all of its responses.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from operator import attrgetter

from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.encoding_again import counts_its_texts, given_ids_error
from eagle_assets.reconstruction.calibrating.rules import in_words
from eagle_assets.reconstruction.verdict import Exposure, Reconstruction

MAX_ERROR_OF_A_RESPONSE = 0.2
"""Probability of wrong ids behind a closed count, above which a response is not trusted. What the trusted ones of a
dataset may add up to on average is the user's `max_residual_error`, which a blocking check enforces."""

_MOST_KNOWN = 1 << 14  # exposures of the groups of a calibration
_else_in = attrgetter(*(field.name for field in fields(Exposure) if field.name not in ("lost", "restored")))

OTHER_SEGMENTATION_ERROR = 0.1
"""Share of wrong ids, on known truth, where frames leave several segmentations of which one is nearest to canonical."""


@dataclass(frozen=True, slots=True)
class Weight:
    """`error` is the probability that ids are wrong; `cause` the reason not to trust them, None where there is none."""

    error: float
    cause: str | None

    def reasons(self, found: Sequence[str]) -> list[str]:
        """The reasons for a verdict, of those for the one before it was weighed."""
        return [self.cause, *found[1:]] if self.cause is not None else list(found)


class Weights:
    """What exposures weigh under a calibration, each weighed once: those of most responses are alike."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self._known: dict[Hashable, tuple[Weight, GroupCalibration | None]] = {}

    def of(self, exposure: Exposure, group: GroupCalibration | None, model: str) -> Weight:
        """What `weigh` says."""
        if exposure.restored is not None:  # of these hardly two are alike
            return weigh(exposure, self.calibration, group, model)
        key = (id(group), model, *exposure.lost.items(), _else_in(exposure))
        if key not in self._known:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            self._known[key] = weigh(exposure, self.calibration, group, model), group  # so that its id stays its own
        return self._known[key][0]


def weigh(exposure: Exposure, calibration: Calibration, group: GroupCalibration | None, model: str) -> Weight:
    """What an exposure weighs in a group, for a model by its target's name. There may be no group to a response with
    ids that were given: of cut answers alone nothing is learnt."""
    if exposure.given:
        error = round(given_ids_error(calibration, group), 4)
        return Weight(error, "given_ids_may_be_encoded" if error > MAX_ERROR_OF_A_RESPONSE else None)
    assert group is not None  # else nothing was exposed
    errors = _errors(exposure, calibration, group, model, at_most=False)
    error = _of_any(errors) + group.unmeasured_error(exposure.has_calls)
    if exposure.other_segmentation:
        error += OTHER_SEGMENTATION_ERROR
    error = round(min(error, 1.0), 4)
    if counts_its_texts(calibration, group):
        return Weight(error, "count_may_be_of_the_text")
    at_most = _of_any(_errors(exposure, calibration, group, model, at_most=True))
    cause = max(errors, key=lambda cause: errors[cause]) if at_most > MAX_ERROR_OF_A_RESPONSE else None
    return Weight(error, cause)


def _errors(
    exposure: Exposure, calibration: Calibration, group: GroupCalibration, model: str, at_most: bool
) -> dict[str, float]:
    """The probability that ids are wrong for each reason, or what it hardly exceeds."""
    errors = {
        f"white_space_may_be_lost: {place.replace('_', ' ')}": calibration.loss_error(
            group, model, place, losable, exposure.unusual, at_most
        )
        for place, losable in exposure.lost.items()
    }
    if exposure.restored is not None:
        errors[f"white_space_undecided: {in_words(exposure.restored.place)}"] = calibration.restored_error(
            exposure.restored, model, exposure.unusual
        )
    if exposure.index_risk is not None:
        errors["tool_index_unproven"] = calibration.index_error(exposure.index_risk)
    return errors


def _of_any(errors: Mapping[str, float]) -> float:
    return 1 - prod(1 - error for error in errors.values())


def weighed(found: Reconstruction, weight: Weight) -> Reconstruction:
    """The verdict on what was found, with the residual error that it states; what is open for other reasons stays as it
    was."""
    if found.verdict != "consistent":
        return found
    evidence = {**found.evidence, "residual_error": weight.error}
    if weight.cause is None:
        return replace(found, evidence=evidence)
    return replace(found, verdict="unverified", reasons=tuple(weight.reasons(found.reasons)), evidence=evidence)
