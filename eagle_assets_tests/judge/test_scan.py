"""The surprise scan, held against known truth: what is planted is found, and what is right is left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

from eagle_assets.judge.planting import errors_to_plant
from eagle_assets.judge.scan import Scan, experience
from eagle_assets.judge.surprise import Trial
from eagle_assets.judge.variants import KINDS
from eagle_assets.judge.verdicts import Judged, judged
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets_tests.judge.corpus import TARGET, answers, bench, small_target, without_its_tail

PROVEN_SEEDS, RIGHT_SEEDS = (1, 2, 3), (4, 5)


def trials(*seeds: int) -> Iterator[Trial]:
    return (Trial(prompt, output) for prompt, output in answers(without_its_tail, *seeds) if output)


def wrong_trials() -> Iterator[tuple[str, Trial, Trial]]:
    """One error of each kind in every third right output: (kind, wrong, right)."""
    rng = Random(7)
    for right in islice(trials(RIGHT_SEEDS[0]), 0, None, 3):
        for kind, variant in errors_to_plant(right.output_ids, TARGET, rng).items():
            yield kind, Trial(right.prompt_ids, variant.applied_to(right.output_ids)), right


def test_errors_are_found_and_right_outputs_left_alone(tmp_path: Path) -> None:
    with bench(small_target(without_its_tail), tmp_path) as bench_:
        scan = Scan(bench_, TARGET)
        learnt = experience(scan, partial(trials, *PROVEN_SEEDS), TARGET)
        assert learnt.threshold.expected <= 0.01

        def verdicts_on(tried: Iterable[Trial]) -> Iterator[tuple[Trial, Judged]]:
            tried = list(tried)
            for trial, surprise in zip(tried, scan.surprises(tried), strict=True):
                found = Reconstruction("e", "consistent", list(trial.output_ids), list(trial.prompt_ids))
                # Nothing but the judge's word stands in the way of a repair here.
                yield trial, judged(found, found, surprise, learnt.threshold, lambda ids: True)

        on_right = list(verdicts_on(trials(*RIGHT_SEEDS)))
        assert sum(found.change is not None for _, found in on_right) <= 0.01 * len(on_right)
        assert all(
            found.verdict.output_ids == list(trial.output_ids) for trial, found in on_right if found.verdict.trusted
        )
        planted, hit, repaired, repaired_wrongly = Counter[str](), Counter[str](), 0, 0
        on_wrong = verdicts_on(wrong for _, wrong, _ in wrong_trials())
        for (kind, _, truth), (_, found) in zip(wrong_trials(), on_wrong, strict=True):
            planted[kind] += 1
            hit[kind] += found.change is not None
            repaired += found.change == "repaired"
            repaired_wrongly += found.change == "repaired" and found.verdict.output_ids != list(truth.output_ids)
    assert set(planted) == set(KINDS)
    assert hit.total() >= 0.95 * planted.total(), (hit, planted)
    assert all(hit[kind] >= (0.7 if kind == "tool index" else 0.9) * planted[kind] for kind in KINDS), (hit, planted)
    assert repaired >= 0.6 * planted.total()
    assert repaired_wrongly == 0
    least, most = learnt.error_behind(hit.total(), planted.total())
    assert least > 0.9
    assert most > 0.95
