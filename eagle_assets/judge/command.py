"""`eagle-assets judge`: recorded exchanges before the target model, from a file to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from eagle_assets.judge.arbitration import arbitrate, cost_of_arbitration
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.habits import (
    Beginning,
    Habits,
    ProviderKey,
    beginnings_in,
    blank_among,
    cost_of_habits,
    habits_of,
)
from eagle_assets.judge.questions import Question
from eagle_assets.judge.rivals import OPEN_ALONE, CallNumbers, RivalIds, open_question, weight_of_else
from eagle_assets.judge.scan import WINDOW, Experience, Scan, experience
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.tally import Tally
from eagle_assets.judge.verdicts import (
    Judged,
    explaining,
    is_proven,
    judged,
    settled,
    trial_of,
    trusted_trial_of,
    with_habit,
)
from eagle_assets.judge.white_space import Witness, cost_of_edges, weigh_edges, witnesses_in
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations, decisions
from eagle_assets.reconstruction.calibrating.decisions_in_words import decisions_in_words
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.contests import Contest, contests
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import exchanges_in, read_calibration, write_calibration
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.roundtrip import hypotheses_by_name
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.targets.target import Target


class _Case:
    """The exchanges of the files, read anew each time that they are wanted, so that none is kept."""

    def __init__(self, files: Sequence[Path], calibration: Calibration, target: Target, limit: float) -> None:
        self._files, self._limit = files, limit
        self.target = target
        self.first = self.calibration = calibration

    def exchanges(self) -> Iterator[Exchange]:
        return exchanges_in(self._files)

    def contests(self) -> Iterator[Contest]:
        of_target = (exchange for exchange in self.exchanges() if self.target.is_named(exchange.model))
        return contests(of_target, self.first)

    def take(self, decided: Arbitrations) -> None:
        """Take what the judge decided into the calibration."""
        if decided:
            self.calibration = calibrate(self.exchanges(), decided)

    def witnesses(self) -> Iterator[Witness]:
        for exchange, found in zip(self.exchanges(), reconstruct(self.exchanges(), self.calibration), strict=True):
            trial = trial_of(found, exchange.request, self.target)
            yield from witnesses_in(found, trial, self.calibration, self.target)

    def verdicts(self) -> Iterator[tuple[Exchange, Reconstruction, Reconstruction]]:
        """Each exchange with its verdict before the judge, and after it decided what was open of the providers."""
        before = reconstruct(self.exchanges(), self.first)
        after = reconstruct(self.exchanges(), self.calibration) if self.calibration is not self.first else None
        for exchange, found in zip(self.exchanges(), before, strict=True):
            yield exchange, found, found if after is None else settled(found, next(after), self._limit)

    def trials(self) -> Iterator[Trial]:
        found = (trusted_trial_of(after, exchange.request, self.target) for exchange, _, after in self.verdicts())
        return (trial for trial in found if trial is not None)

    def proven(self) -> Iterator[Trial]:
        for exchange, _, after in self.verdicts():
            trial = trial_of(after, exchange.request, self.target) if is_proven(after, self.target.vocabulary) else None
            if trial is not None:
                yield trial

    def beginnings(self) -> Iterator[Beginning]:
        for exchange, _, after in self.verdicts():
            trial = trusted_trial_of(after, exchange.request, self.target)
            if trial is not None:
                yield from beginnings_in(exchange.exchange_id, _provider_of(after), trial, self.target)

    def judged(self, bench: Bench, learnt: Experience, habits: Habits) -> Iterator[Judged]:
        """What the judge makes of each exchange, in order; a window of them is in memory."""
        hypotheses, verdicts, scan = hypotheses_by_name(self.calibration), self.verdicts(), Scan(bench, self.target)
        while window := list(islice(verdicts, WINDOW)):
            decided = self._settled_alone([(exchange, after) for exchange, _, after in window], bench)
            cases = [(exchange, before, after) for (exchange, before, _), after in zip(window, decided, strict=True)]
            trials = [trusted_trial_of(after, exchange.request, self.target) for exchange, _, after in cases]
            surprises = iter(scan.surprises_of([trial for trial in trials if trial is not None]))
            for (exchange, before, after), trial in zip(cases, trials, strict=True):
                surprise = next(surprises) if trial is not None else None
                explains = partial(_explains, exchange, after, hypotheses)
                found = judged(before, after, surprise, learnt.threshold, explains)
                blank = None
                if trial is not None and found.change not in ("repaired", "contradicted"):
                    blank = blank_among(trial, _provider_of(after), habits, self.target)
                yield found if blank is None else with_habit(found, *blank)

    def open_questions(self) -> Iterator[Question]:
        """What is asked of single responses that are open."""
        open_ones = (self._open_question(exchange, after) for exchange, _, after in self.verdicts())
        return (question for one in open_ones if one is not None for question in one.questions())

    def _settled_alone(self, window: Sequence[tuple[Exchange, Reconstruction]], bench: Bench) -> list[Reconstruction]:
        """The verdicts once the judge has settled what one response alone can settle."""
        open_ones = [self._open_question(exchange, found) for exchange, found in window]
        bench.ask(question for one in open_ones if one is not None for question in one.questions())
        return [
            found if one is None else one.settled(bench, self._limit)
            for one, (_, found) in zip(open_ones, window, strict=True)
        ]

    def _open_question(self, exchange: Exchange, found: Reconstruction) -> RivalIds | CallNumbers | None:
        if found.reasons[:1] == () or found.reasons[0] not in OPEN_ALONE:
            return None
        key = (self.target.name, *_provider_of(found))
        weight = weight_of_else(found.reasons[0], found.exposure, self.calibration, key, exchange.order)
        return open_question(found, trial_of(found, exchange.request, self.target), weight, self.target)


def _provider_of(found: Reconstruction) -> ProviderKey:
    return found.provider or "", bool(found.evidence.get("streamed"))


def _explains(
    exchange: Exchange, found: Reconstruction, hypotheses: Mapping[str, Hypothesis], ids: Sequence[int]
) -> bool:
    return explaining(read(exchange), found, hypotheses)(ids)


def judge_files(
    files: Sequence[Path],
    output: Path,
    bench: Bench,
    target: Target,
    calibration_file: Path | None,
    save_calibration: Path | None,
    limit: float,
) -> None:
    """Write a judged verdict for each line of `files` to `output`, which appears whole or not at all; `target` is the
    model that the judge is, `limit` the residual error of what it lifts, at most.

    What it costs is said before it is asked; what was answered is not asked again in another run. Raises
    CalibrationError, JudgeError, JudgeBusy, JournalError and OSError.
    """
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)
    calibration = read_calibration(calibration_file) if calibration_file else calibrate(exchanges_in(files))
    case = _Case(files, calibration, target, limit)
    with bench:
        if calibration_file is None:  # a calibration that is given is taken as it is
            _decide(case, bench, console)
        if save_calibration is not None:
            write_calibration(case.calibration, save_calibration)
        scan = Scan(bench, case.target)
        for what, cost in (
            ("What is open of single responses", bench.cost(case.open_questions())),
            ("Blanks ahead of texts", cost_of_habits(case.beginnings, bench)),
        ):
            if cost.questions or cost.known:
                console.print(f"{what} before the target: at most {cost}", highlight=False)
        console.print(f"Scanning what is trusted: {scan.cost_in_words(case.trials)}", highlight=False)
        habits, learnt = habits_of(case.beginnings, bench), experience(scan, case.proven, case.target)
        tally = Tally()
        with _bar(console) as bar:
            _write(
                _noted(bar.track(case.judged(bench, learnt, habits), description="asking the target"), tally), output
            )
    console.print(tally.table())
    for sentence in tally.sentences(learnt, bench):
        console.print(sentence, highlight=False)
    console.print(f"Verdicts are in {output}", highlight=False)


def _decide(case: _Case, bench: Bench, console: Console) -> None:
    """What is open of the providers, and what the target says of it."""
    cost = cost_of_arbitration(case.contests, bench)
    if cost.questions or cost.known:
        console.print(f"Rival conventions before the target: at most {cost}")
    rivals = arbitrate(case.contests, bench)
    case.take(decisions(rivals, {}))
    cost = cost_of_edges(case.witnesses, bench)
    if cost.questions or cost.known:
        console.print(f"White space at the ends of texts before the target: at most {cost}")
    decided = decisions(rivals, weigh_edges(case.witnesses, bench, case.target))
    case.take(decided)
    for (_, provider, streamed), found in sorted(decided.items()):
        for sentence in decisions_in_words(found):
            console.print(f"{provider}, {'streamed' if streamed else 'JSON'}: {sentence}", highlight=False)


def _noted(found: Iterable[Judged], tally: Tally) -> Iterator[Judged]:
    for each in found:
        tally.note(
            {
                "exchange_id": each.verdict.exchange_id,
                "provider": each.verdict.provider,
                "verdict_before": each.before.verdict,
                "verdict": each.verdict.verdict,
                "reasons": each.verdict.reasons,
                "surprise": each.surprise,
            }
        )
        yield each


def _write(found: Iterable[Judged], output: Path) -> None:
    aside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with aside.open("wb") as out:
            for each in found:
                out.write(msgspec.json.encode(each.verdict.to_dict()) + b"\n")
        aside.replace(output)
    finally:
        aside.unlink(missing_ok=True)


def _bar(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
