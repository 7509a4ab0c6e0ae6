"""`eagle-assets judge`: recorded exchanges before the target model, from a file to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from eagle_assets.durability import written_whole
from eagle_assets.judge.bench import Bench
from eagle_assets.judge.cases import Case, judged_cases, questions_of, trials_of
from eagle_assets.judge.habits import Beginning, ProviderKey, beginnings_in
from eagle_assets.judge.rivals import OPEN_ALONE, CallNumbers, RivalIds, open_question, weight_of_else
from eagle_assets.judge.ruling import decide, learn
from eagle_assets.judge.scan import Scan
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.tally import Tally
from eagle_assets.judge.verdicts import Judged, explaining, is_proven, settled, trial_of
from eagle_assets.judge.white_space import Witness, witnesses_in
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations
from eagle_assets.reconstruction.calibrating.decisions_in_words import decisions_in_words
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.contests import Contest, contests
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import exchanges_in, read_calibration, write_calibration
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.roundtrip import hypotheses_by_name
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.targets.target import Target


class _OfFiles:
    """The exchanges of the files as the judge is asked about them; they are its `Responses`."""

    def __init__(self, files: Sequence[Path], calibration: Calibration, target: Target, limit: float) -> None:
        self._files, self._target, self._limit = files, target, limit
        self._first = self.calibration = calibration

    def contests(self) -> Iterator[Contest]:
        of_target = (exchange for exchange in self._exchanges() if self._target.is_named(exchange.model))
        return contests(of_target, self._first)

    def take(self, decided: Arbitrations) -> None:
        if decided:
            self.calibration = calibrate(self._exchanges(), decided)

    def witnesses(self) -> Iterator[Witness]:
        for exchange, found in zip(self._exchanges(), reconstruct(self._exchanges(), self.calibration), strict=True):
            trial = trial_of(found, exchange.request, self._target)
            yield from witnesses_in(found, trial, self.calibration, self._target)

    def beginnings(self) -> Iterator[Beginning]:
        for case in self.cases():
            trial = case.trial(self._target)
            if trial is not None:
                yield from beginnings_in(case.after.exchange_id, case.provider, trial, self._target)

    def proven(self) -> Iterator[Trial]:
        of_proven = (case for case in self.cases() if is_proven(case.after, self._target.vocabulary))
        return (t for t in (trial_of(case.after, case.request, self._target) for case in of_proven) if t is not None)

    def cases(self) -> Iterator[Case]:
        """Each exchange with its verdict before the judge, and after it decided what was open of the providers."""
        before = reconstruct(self._exchanges(), self._first)
        decided = reconstruct(self._exchanges(), self.calibration) if self.calibration is not self._first else None
        hypotheses = hypotheses_by_name(self.calibration)
        for exchange, found in zip(self._exchanges(), before, strict=True):
            after = found if decided is None else settled(found, next(decided), self._limit)
            provider, explains = _provider_of(after), partial(_explains, exchange, hypotheses)
            yield Case(provider, exchange.request, found, after, self._open_question(exchange, after), explains)

    def _exchanges(self) -> Iterator[Exchange]:
        """Read anew each time that they are wanted."""
        return exchanges_in(self._files)

    def _open_question(self, exchange: Exchange, found: Reconstruction) -> RivalIds | CallNumbers | None:
        if found.reasons[:1] == () or found.reasons[0] not in OPEN_ALONE:
            return None
        key = (self._target.name, *_provider_of(found))
        weight = weight_of_else(found.reasons[0], found.exposure, self.calibration, key, exchange.order)
        return open_question(found, trial_of(found, exchange.request, self._target), weight, self._target)


def _provider_of(found: Reconstruction) -> ProviderKey:
    return found.provider or "", bool(found.evidence.get("streamed"))


def _explains(
    exchange: Exchange, hypotheses: Mapping[str, Hypothesis], found: Reconstruction, ids: Sequence[int]
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

    def say(sentence: str) -> None:
        console.print(sentence[:1].upper() + sentence[1:], highlight=False)

    calibration = read_calibration(calibration_file) if calibration_file else calibrate(exchanges_in(files))
    responses = _OfFiles(files, calibration, target, limit)
    with bench:
        if calibration_file is None:  # a calibration that is given is taken as it is
            decided = decide(responses, bench, target, say)
            for (_, provider, streamed), found in sorted(decided.items()):
                for sentence in decisions_in_words(found):
                    say(f"{provider}, {'streamed' if streamed else 'JSON'}: {sentence}")
        if save_calibration is not None:
            write_calibration(responses.calibration, save_calibration)
        cost = bench.cost(questions_of(responses.cases()))
        if cost.questions or cost.known:
            say(f"what is open of single responses before the target: at most {cost}")
        trusted = Scan(bench, target).cost_in_words(lambda: trials_of(responses.cases(), target))
        say(f"trusted responses before the target: {trusted}")
        habits, learnt = learn(responses, bench, target, say)
        tally = Tally()
        with _bar(console) as bar:
            cases = bar.track(
                judged_cases(responses.cases(), bench, target, learnt, habits, limit), description="asking the target"
            )
            _write(_noted((judged for _, judged in cases), tally), output)
    console.print(tally.table())
    for sentence in tally.sentences(learnt, bench):
        console.print(sentence, highlight=False)
    console.print(f"Verdicts are in {output}", highlight=False)


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
    with written_whole(output) as out:
        for each in found:
            out.write(msgspec.json.encode(each.verdict.to_dict()) + b"\n")


def _bar(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
