"""The surprise scan: outputs before the judge, and what their proven like say of its alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random

from eagle_assets.judge.bench import Bench
from eagle_assets.judge.planting import errors_to_plant
from eagle_assets.judge.questions import Question
from eagle_assets.judge.scoring import Cost
from eagle_assets.judge.surprise import MOST_VARIANTS, Surprise, Trial, surprise, suspicious_variants
from eagle_assets.judge.threshold import Sensitivity, Threshold, threshold_of
from eagle_assets.judge.variants import Kind
from eagle_assets.reconstruction.own.share import Share
from eagle_assets.targets.target import Target

Trials = Callable[[], Iterable[Trial]]
"""The same outputs, as often as they are wanted: none is kept."""

PLANTED = 40
"""Proven outputs in which errors are planted, one of each kind that fits; each is judged once more."""

WINDOW = 128
"""Outputs that are in memory together: what is asked of all of them is in flight at once."""


class Scan:
    """Asks about outputs, then about their variants at suspicious places, and reads what came of it."""

    def __init__(self, bench: Bench, target: Target) -> None:
        self._bench, self._target = bench, target

    def cost(self, trials: Trials) -> Cost:
        """What the outputs themselves cost."""
        return self._bench.cost(trial.question for trial in trials())

    def cost_in_words(self, trials: Trials) -> str:
        """What they cost with their variants. These are asked about only where a place is suspicious, and each is a few
        tokens behind a text that the server has just read."""
        cost = self.cost(trials)
        return (
            f"{cost}; where a place is suspicious, up to {MOST_VARIANTS} variants of a sequence more, at most "
            f"{MOST_VARIANTS * cost.tokens:,} tokens, nearly all of which a server's prefix cache holds"
        )

    def surprises(self, trials: Iterable[Trial]) -> Iterator[Surprise | None]:
        """The surprise of each output, in order; None where the judge would not answer. Outputs are drawn, asked about
        and answered for a window at a time."""
        drawn = iter(trials)
        while window := list(islice(drawn, WINDOW)):
            yield from self.surprises_of(window)

    def surprises_of(self, window: Sequence[Trial]) -> list[Surprise | None]:
        """As `surprises`, of outputs that are in memory. What was found before is not found again."""
        kept = [self._bench.surprise(trial) for trial in window]
        new = [trial for trial, known in zip(window, kept, strict=True) if known is None]
        self._bench.ask(trial.question for trial in new)
        self._bench.ask(question for trial in new for question in self._about_variants(trial))
        found = map(self._found, new)
        return [next(found) if known is None else known for known in kept]

    def _found(self, trial: Trial) -> Surprise | None:
        scores = self._bench.scores(trial.question)
        if scores is None:
            return None
        variants = suspicious_variants(trial, scores, self._target)
        answers = [(variant, self._bench.scores(trial.question_of(variant))) for variant in variants]
        known = {variant: answer for variant, answer in answers if answer is not None}
        found = surprise(trial, scores, known, self._target.vocabulary.size)
        if len(known) == len(answers):
            self._bench.keep(trial, found)
        return found

    def _about_variants(self, trial: Trial) -> Iterator[Question]:
        scores = self._bench.scores(trial.question)
        if scores is not None:
            yield from map(trial.question_of, suspicious_variants(trial, scores, self._target))


@dataclass(frozen=True, slots=True)
class Experience:
    """What proven outputs taught of the judge: when to raise an alarm, how often that is false, what it finds."""

    threshold: Threshold
    sensitivity: Sensitivity
    false_alarms: int

    def error_behind(self, alarms: int, judged: int) -> tuple[float, float]:
        """The share of wrong ids among `judged` outputs of which `alarms` were alarmed, and the most that it may be
        (95 %), whatever anybody assumed of their provider.

        Rogan and Gladen's estimate of a prevalence from a test whose errors are known, its upper end from Wilson's.
        """
        false = self.threshold.proven and self.false_alarms / self.threshold.proven
        finds = self.sensitivity.overall
        if not judged or finds <= false:
            return 0.0, 1.0

        def without_false(share: float) -> float:
            return min(1.0, max(0.0, (share - false) / (finds - false)))

        return without_false(alarms / judged), without_false(Share(alarms, judged).at_most)


def experience(scan: Scan, proven: Trials, target: Target) -> Experience:
    """Judge the proven outputs, and some of them with planted errors."""
    found = [surprise for surprise in scan.surprises(proven()) if surprise is not None]
    threshold = threshold_of(found)
    false_alarms = sum(map(threshold.is_alarming, found))
    planted = partial(_with_planted_errors, proven, max(1, len(found) // PLANTED), target)
    sensitivity = Sensitivity()
    on_planted = scan.surprises(trial for _, trial in planted())
    for (kind, _), on_one in zip(planted(), on_planted, strict=True):
        if on_one is not None:
            sensitivity.add(kind, threshold.is_alarming(on_one))
    return Experience(threshold, sensitivity, false_alarms)


def _with_planted_errors(proven: Trials, every: int, target: Target) -> Iterator[tuple[Kind, Trial]]:
    """Of each so many proven outputs, one with an error of each kind; the same ones each time."""
    for number, trial in enumerate(proven()):
        if number % every == 0:
            for kind, variant in errors_to_plant(trial.output_ids, target, Random(number)).items():
                yield kind, Trial(trial.prompt_ids, variant.applied_to(trial.output_ids), trial.sampling)
