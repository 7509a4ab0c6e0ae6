"""`training_shards`: what the trainers read."""

import dagster as dg

from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import shards_metadata
from eagle_assets.defs.resources import Project
from eagle_assets.lake import columns
from eagle_assets.lake.audit import require


@dg.asset(
    partitions_def=DATASETS,
    deps=["token_sequences", "judged_sequences"],
    group_name="training",
    kinds={"parquet"},
    tags={"stage": "training_shards"},
    metadata={"dagster/column_schema": column_schema(columns.TRAINING_SHARDS)},
    check_specs=blocking_checks(
        "training_shards",
        {
            "shards_hold_only_trusted_ids": "Each row is one trusted sequence of the dataset, id for id.",
            "masks_cover_generated_tokens": "Each mask is 1 over exactly what was generated, and 0 over the prompt.",
        },
        DATASETS,
    ),
)
def training_shards(context: dg.AssetExecutionContext, project: Project) -> Events:
    """What trainers read: token ids and loss masks.

    One row for each trusted sequence: `input_ids` and `loss_mask`, with where it came from. Trusted are the verdicts
    `exact` and `consistent`. Made anew are only files whose sequences changed. Made from `judged_sequences` where the
    datasets file names a judge, else from `token_sequences`; refused where that has no good and current audit.
    """
    from eagle_assets.lake.version import new_version
    from eagle_assets.targets.kimi import target_named
    from eagle_assets.training.shard_parts import write_shards

    dataset = context.partition_key
    with (
        refusals(),
        new_version(project.home, "training_shards", dataset, context.run.run_id) as version,
    ):
        judge = project.configuration.judge
        published = require(project.home, project.configuration.verdict_stage, dataset)
        size = target_named(project.configuration.target).vocabulary.size
        shards = write_shards(version, published, dataset, size)
        audit = version.audit(shards.checks, [published], shards.counts, vocabulary=published.audit.vocabulary)
        judged = {"judged by the target": "no: the datasets file names no judge" if judge is None else judge.kind}
        yield from events_of(audit, {**shards_metadata(shards.row_tokens, dataset), **judged})
