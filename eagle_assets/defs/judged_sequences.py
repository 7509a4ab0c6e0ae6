"""`judged_sequences`: the sequences once the target model itself was asked how likely it finds them."""

from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from eagle_assets.configuration import revealed
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import LIKELIHOODS, judged_metadata
from eagle_assets.defs.resources import Project
from eagle_assets.lake import columns
from eagle_assets.lake.audit import Input, require, require_all

if TYPE_CHECKING:
    from eagle_assets.judge.bench import Bench
    from eagle_assets.judge.court import Ruling
    from eagle_assets.judge.docket import Stored

NOT_JUDGED = "not judged: the datasets file names no judge, and nothing else needs one"

_rulings: "dict[tuple[str, tuple[Input, ...]], Ruling]" = {}  # the last: the datasets of a run follow each other


@dg.asset(
    partitions_def=DATASETS,
    deps=["token_sequences"],
    group_name="reconstruction",
    kinds={"parquet"},
    tags={"stage": "judged_sequences"},
    metadata={"dagster/column_schema": column_schema(columns.JUDGED_SEQUENCES)},
    check_specs=blocking_checks(
        "judged_sequences",
        {"surprises_below_threshold": "The target model finds nearly all ids that are trusted likely."},
        DATASETS,
    ),
)
def judged_sequences(context: dg.AssetExecutionContext, project: Project) -> Events:
    """The sequences after the target model was asked (optional).

    The rows of `token_sequences` with what its likelihood settles, repairs or contradicts. Only where the datasets file
    names a `judge`; else it is empty, and the shards are made without it. What a provider's texts and counts leave open
    is decided over its responses of all datasets. Trusted ids that the target finds far less likely than what servers
    are known to make of them are repaired, where exactly one reading is plausible and explains everything that was
    seen, else `contradicted`. From where on is learnt from ids that are proven. Nothing becomes `exact`.
    """
    judge = project.configuration.judge
    if judge is None:
        yield dg.MaterializeResult(
            metadata={"judged by": NOT_JUDGED, "dagster/row_count": 0},
            check_results=[
                dg.AssetCheckResult(check_name="surprises_below_threshold", passed=True, description=NOT_JUDGED)
            ],
        )
        return
    from eagle_assets.judge.bench import Bench
    from eagle_assets.judge.docket import HELD
    from eagle_assets.judge.hearing import Hearing
    from eagle_assets.judge.opening import opened
    from eagle_assets.judge.outcome import counts_of, surprises_below_threshold
    from eagle_assets.judge.questions import JudgeBusy, JudgeError
    from eagle_assets.judge.tally import NOTED, Tally
    from eagle_assets.lake.kept import forget_others
    from eagle_assets.lake.version import new_version
    from eagle_assets.openrouter.record_file import JournalError
    from eagle_assets.reconstruction.calibrating.decisions_in_words import decisions_in_words
    from eagle_assets.targets.kimi import target_named

    name, home, configuration = context.partition_key, project.home, project.configuration
    target, limit = target_named(configuration.target), configuration.max_residual_error
    concurrency, key = configuration.concurrency, revealed(project.settings.judge_key)
    with (
        refusals(JudgeBusy, JudgeError, JournalError),
        new_version(home, "judged_sequences", name, context.run.run_id) as version,
        home.locked("judge"),  # its scores have one writer
        Bench(opened(judge, concurrency, key), home.root / "judge", concurrency) as bench,
    ):
        stored = _stored(project)
        if name not in stored:
            require(home, "token_sequences", name)  # says why
        ruling = _ruling(context, project, bench, stored)
        of_dataset, tally = stored[name], Tally()
        hearing = Hearing(ruling, bench, of_dataset, target, limit)
        hearing.write(version, lambda sentence: context.log.info(f"{name}: {sentence}"))
        for row in version.rows(columns=NOTED):
            tally.note(row)
        shown = judged_metadata(version.batches(columns=LIKELIHOODS), name)
        audit = version.audit(
            [surprises_below_threshold(tally, ruling.learnt, limit)],
            [of_dataset.sequences],
            counts_of(tally, ruling.learnt, bench),
            vocabulary=of_dataset.sequences.audit.vocabulary,
        )
        forget_others(home, HELD, name, [part.held for part in of_dataset.parts()])
        sentences = "\n".join(f"- {sentence}" for sentence in tally.sentences(ruling.learnt, bench))
        decided = "\n".join(
            f"- {provider}: {sentence}"
            for (_, provider, _), found in ruling.decided.items()
            for sentence in decisions_in_words(found)
        )
        yield from events_of(
            audit,
            {
                "judged by": bench.name,
                "what it found": dg.MetadataValue.md(sentences),
                "what it decided": dg.MetadataValue.md(decided or "nothing was open"),
                **shown,
            },
        )


def _stored(project: Project) -> "dict[str, Stored]":
    """Every dataset whose sequences and responses may be read."""
    from eagle_assets.judge.docket import Stored

    datasets = list(project.configuration.datasets)
    sequences, _ = require_all(project.home, "token_sequences", datasets)
    bought = project.configuration.bought
    return {
        name: Stored(published, require(project.home, "raw_responses", name), name in bought)
        for published in sequences
        for name in [str(published.audit.dataset)]
    }


def _ruling(
    context: dg.AssetExecutionContext, project: Project, bench: "Bench", stored: "dict[str, Stored]"
) -> "Ruling":
    from eagle_assets.defs.judging import calibration_with
    from eagle_assets.judge.court import Court
    from eagle_assets.targets.kimi import target_named

    configuration = project.configuration
    learnt_from = (bench.name, tuple(found.sequences.as_input for found in stored.values()))
    if learnt_from not in _rulings:
        target = target_named(configuration.target)
        court = Court(bench, target, stored.values(), partial(calibration_with, project))
        _rulings.clear()
        _rulings[learnt_from] = court.sit(context.log.info)
    return _rulings[learnt_from]
