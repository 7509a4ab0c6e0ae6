"""Whether a provider encodes what it sends, to count it or to give its ids: then neither says what was generated.

It shows in responses that never leave the canonical path, as a model does now and then.
"""

from __future__ import annotations

from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration

_ENCODES_AGAIN = 0.05  # share of providers that encode what they send, to count or to give it, for all that is known
_WRONG_BY_ENCODING = 0.5  # share of what these send that says something else than was generated
_DEPARTURES = 1.25, 64.0  # outputs off the canonical path by their count, of how many (FACTS 2 and 5: 5 in 8 of 2)
_ENOUGH_TO_TELL_DEPARTURES = 30  # counted responses


def counts_its_texts(calibration: Calibration, group: GroupCalibration) -> bool:
    """Whether a provider's counts are likelier to be of the texts that it sends than of the generated ids, and it
    may have taken white space from these, or have put blanks in.

    Such counts say nothing of the ids, and always close; others do not where the model left the canonical path, as
    it does now and then at other providers.
    """
    if not (group.losses or group.blanks_unexplained):
        return False
    of_all = _of_all_models(calibration, group)
    if not of_all.best.hypothesis.counting.think_end_counted:
        return True  # who counts no marker counts what is sent
    if of_all.counted[False] == of_all.closed[False]:
        group = of_all
    always = [group.counted[calls] for calls in (False, True) if group.counted[calls] == group.closed[calls] > 0]
    if not always or (group.counted[False] > group.closed[False]):
        return False
    # A model seldom begins a text with a blank (FACTS 4): that it always does is far less likely than any encoder.
    return bool(group.blanks_unexplained) or _encoded_again(calibration, group.provider, sum(always)) > 0.5


def given_ids_error(calibration: Calibration, group: GroupCalibration | None) -> float:
    """Probability that ids which a provider gives, and which an encoder would give too, are an encoding of its
    texts, and wrong."""
    if group is None:
        return _WRONG_BY_ENCODING * _ENCODES_AGAIN
    of_all = _of_all_models(calibration, group)
    encoded = max(g.ids_given.get("encoded", 0) for g in (group, of_all))
    return _WRONG_BY_ENCODING * _encoded_again(calibration, group.provider, encoded)


def _of_all_models(calibration: Calibration, group: GroupCalibration) -> GroupCalibration:
    return calibration.groups.get(("", group.provider, group.streamed), group)


def _encoded_again(calibration: Calibration, provider: str, canonical: int) -> float:
    """Probability that a provider encodes what it sends, after so many responses of which none shows that the model
    left the canonical path."""
    if_generated = (1 - _departures_elsewhere(calibration, provider)) ** canonical
    return _ENCODES_AGAIN / (_ENCODES_AGAIN + if_generated * (1 - _ENCODES_AGAIN))


def _departures_elsewhere(calibration: Calibration, provider: str) -> float:
    """Share of outputs whose count shows that the model left the canonical path, where fewest do among the other
    providers: at some of these, lost white space opens counts too."""
    shown, of = _DEPARTURES
    others = [group for (model, name, _), group in calibration.groups.items() if not model and name != provider]
    shares = [
        (shown + sum(group.counted) - sum(group.closed)) / (of + sum(group.counted))
        for group in others
        if sum(group.counted) >= _ENOUGH_TO_TELL_DEPARTURES
    ]
    return min(shares, default=shown / of)
