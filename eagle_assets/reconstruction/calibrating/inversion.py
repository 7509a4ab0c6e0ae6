"""The candidates of a response: every layout with every surviving convention undone, and what the count says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eagle_assets.reconstruction.arguments import other_spellings
from eagle_assets.reconstruction.calibrating.calibration import GroupCalibration
from eagle_assets.reconstruction.calibrating.observation import reasoning_surplus
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.counting import EVERYTHING_COUNTED
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.verdict import Candidate
from eagle_assets.serving.output import Output, join_packed
from eagle_assets.serving.served import Situation
from eagle_assets.targets.packed import PackedIds


@dataclass(frozen=True, slots=True)
class Inversion:
    """One way to read a response.

    `shown` is the layout in the texts as received, `output` the same with the convention undone. `difference` is
    `completion_tokens` minus what the convention predicts; None without a count. `reasoning_surplus` is what
    `reasoning_tokens` counts beside the reasoning's own tokens; None if not known. `codes` are what is supposed.
    `respelt` is by how many tokens the count was off before arguments were spelt otherwise.
    """

    shown: Output[str]
    output: Output[str]
    hypothesis: Hypothesis
    difference: int | None
    reasoning_surplus: int | None
    codes: tuple[str, ...]
    respelt: int = 0

    @property
    def closes(self) -> bool:
        return self.difference == 0

    @property
    def leaves_section_end_open(self) -> bool:
        return self.hypothesis.counting.is_open and self.output.section_closed

    def ids(self, texts: EncodedTexts, situation: Situation) -> PackedIds:
        """The canonical ids of this reading."""
        return join_packed(self.begun(situation).over(texts.packed), situation.target.markers)

    def begun(self, situation: Situation) -> Output[str]:
        """The output with the `<think>` that this convention has the model generate."""
        begun = self.hypothesis.counting.think_generated and situation.thinking
        return replace(self.output, think_begun=True) if begun else self.output

    def candidate(self, texts: EncodedTexts, situation: Situation) -> Candidate:
        return Candidate(self.ids(texts, situation), self.hypothesis.name, self.difference)


def hypotheses_of(group: GroupCalibration | None) -> tuple[Hypothesis, ...]:
    """The conventions to try on a response, the likeliest first."""
    if group is None:
        return (Hypothesis(frozenset(), EVERYTHING_COUNTED),)
    return group.hypotheses


def likeliest_texts(reading: Reading, group: GroupCalibration | None) -> list[str]:
    """The texts of the plainest layout under the likeliest convention: those that are encoded in nearly every case."""
    if reading.unusable or reading.situation is None:
        return []
    output = hypotheses_of(group)[0].invert(reading.layouts[0].output, reading.situation)
    return [] if output is None else output.segments()


def find_inversions(reading: Reading, group: GroupCalibration | None, texts: EncodedTexts) -> list[Inversion]:
    """Every way to read a response, the likeliest convention and the plainest layout first.

    Where no count closes, arguments spelt otherwise are tried too.
    """
    assert reading.situation is not None
    found = [
        Inversion(
            shown,
            output,
            hypothesis,
            _difference(reading, output, hypothesis, texts),
            reasoning_surplus(reading, output, texts),
            codes,
        )
        for shown, hypothesis, output, codes in _readings(reading, hypotheses_of(group))
    ]
    if any(inversion.closes for inversion in found):
        return found
    respelled = []
    for inversion in found:
        for code, output in other_spellings(inversion.output):
            if _difference(reading, output, inversion.hypothesis, texts) == 0:
                codes, off = (*inversion.codes, code), inversion.difference or 0
                respelled.append(replace(inversion, output=output, difference=0, codes=codes, respelt=off))
    return found + respelled


def rival_candidates(inversions: Sequence[Inversion], texts: EncodedTexts, situation: Situation) -> list[Candidate]:
    """Candidates with other ids each, in order: none for a lone inversion, two where a section end is left open."""
    if len(inversions) == 1 and not inversions[0].leaves_section_end_open:
        return []
    section_end = situation.target.markers.section_end
    found: dict[tuple[int, ...], Candidate] = {}
    for inversion in inversions:
        candidate = inversion.candidate(texts, situation)
        found.setdefault(tuple(candidate.output_ids), candidate)
        if inversion.leaves_section_end_open:
            without = [token for token in candidate.output_ids if token != section_end]
            found.setdefault(tuple(without), replace(candidate, output_ids=without))
    return list(found.values())


def _readings(
    reading: Reading, hypotheses: Sequence[Hypothesis]
) -> Iterator[tuple[Output[str], Hypothesis, Output[str], tuple[str, ...]]]:
    """Every layout under every convention that can have shown it: (as shown, convention, undone, codes)."""
    assert reading.situation is not None
    for hypothesis in hypotheses:
        for layout in reading.layouts:
            output = hypothesis.invert(layout.output, reading.situation)
            if output is not None:
                yield layout.output, hypothesis, output, layout.codes


def _difference(reading: Reading, output: Output[str], hypothesis: Hypothesis, texts: EncodedTexts) -> int | None:
    count, situation, counting = reading.completion_tokens, reading.situation, hypothesis.counting
    if count is None or situation is None:
        return None
    predicted = texts.length(output)
    predicted += counting.think_generated and situation.thinking
    predicted -= output.stopped and not counting.stop_counted
    predicted -= output.reasoning_closed and not counting.think_end_counted
    predicted -= output.section_closed and counting.section_end_open
    return count - predicted
