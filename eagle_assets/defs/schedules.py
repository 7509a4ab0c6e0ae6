"""When things are made: a schedule for each dataset that is bought, and a sensor for what is made of all of them."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress

import dagster as dg

from eagle_assets.configuration import Configuration, OpenRouterDataset
from eagle_assets.defs.limits import limits_of_a_tick, run_config
from eagle_assets.defs.partitions import CONFIGURED, DATASETS
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Audit, GateClosed, read_record, require_current
from eagle_assets.lake.home import Home
from eagle_assets.openrouter.totals import in_dollars

SECONDS_BETWEEN_LOOKS = 30

JUDGED = ["judged_sequences"] if CONFIGURED.judge is not None else []
OF_A_DATASET = ["prompts", "raw_responses", "token_sequences", *JUDGED, "training_shards"]
EXPORTS = ["exports"] if CONFIGURED.exports else []

collect_dataset = dg.define_asset_job(
    "collect_dataset",
    selection=dg.AssetSelection.assets(*OF_A_DATASET),
    description="One dataset from its prompts to its training shards: buys what is missing, then judges all of it.",
)

conclude = dg.define_asset_job(
    "conclude",
    selection=dg.AssetSelection.assets("draft_vocabulary", *EXPORTS, "run_statistics"),
    description="What is made of all datasets together: the draft vocabulary, the exports and the statistics.",
)


def schedules_of(configuration: Configuration) -> list[dg.ScheduleDefinition]:
    """A schedule for each bought dataset that has a `cron`; off until somebody switches it on, because it spends."""
    return [
        _schedule(name, dataset, dataset.cron)
        for name, dataset in configuration.bought.items()
        if dataset.cron is not None
    ]


def _schedule(name: str, dataset: OpenRouterDataset, cron: str) -> dg.ScheduleDefinition:
    limits = limits_of_a_tick(dataset)
    within = " and ".join(
        {"max_requests": f"{limit} prompts", "max_usd": in_dollars(limit)}[kind] for kind, limit in limits.items()
    )

    @dg.schedule(
        name=f"collect_{name.replace('-', '_')}",
        job=collect_dataset,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Asks what is still missing of {name}, at most {within or 'its whole budget'} at each tick.",
        tags={"dataset": name},
    )
    def tick(context: dg.ScheduleEvaluationContext, project: Project) -> dg.RunRequest | dg.SkipReason:
        from eagle_assets.defs.due import reason_to_skip

        reason = reason_to_skip(project.home, project.configuration, project.settings, name)
        if reason is not None:
            return dg.SkipReason(reason)
        return dg.RunRequest(
            run_key=f"{name} {context.scheduled_execution_time:%Y-%m-%d %H:%M}",
            partition_key=name,
            run_config=run_config(limits),
            tags={"dataset": name, **{kind: str(limit) for kind, limit in limits.items()}},
        )

    return tick


@dg.sensor(
    job=conclude,
    minimum_interval_seconds=SECONDS_BETWEEN_LOOKS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Makes anew what is made of all datasets where shards changed or a check failed. Spends nothing.",
)
def datasets_changed(project: Project) -> dg.RunRequest | dg.SkipReason:
    """Held against the record of `draft_vocabulary` and what `eagle.duckdb` tells, so that nothing is made twice,
    whoever made it first."""
    from eagle_assets.lake.catalogue import tells_of
    from eagle_assets.lake.version import last_good

    shards: list[tuple[str, str]] = []
    failed: list[Audit] = []
    for name in DATASETS.get_partition_keys():
        with suppress(GateClosed):
            shards.append((name, require_current(project.home, "training_shards", name).identity))
        failed += _failed(project.home, name)
    made = last_good(project.home, "draft_vocabulary", None)
    if not shards:
        return dg.SkipReason("no training shards may be read yet")
    is_current = made is not None and shards == [(made_from.dataset, made_from.identity) for made_from in made.inputs]
    if is_current and tells_of(project.home, failed):
        return dg.SkipReason("the draft vocabulary and the statistics are those of the current training shards")
    # What failed on these is not tried again before they change, or somebody made it.
    state = repr((shards, [audit.time for audit in failed], made.time if made is not None else None))
    return dg.RunRequest(run_key=hashlib.sha256(state.encode()).hexdigest())


def _failed(home: Home, dataset: str) -> Iterator[Audit]:
    """The audits of a dataset that failed since its last good versions."""
    for stage in OF_A_DATASET:
        with suppress(GateClosed):
            record = read_record(home, stage, dataset)
            if record.failed is not None:
                yield record.failed


@dg.sensor(
    minimum_interval_seconds=SECONDS_BETWEEN_LOOKS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Ends runs whose process was killed, so that they keep no other one waiting. Starts nothing.",
)
def killed_runs(context: dg.SensorEvaluationContext, project: Project) -> dg.SkipReason:
    """Runs of another Dagster instance are left to it."""
    from eagle_assets.defs.liveness import forget, runs_left_behind

    ended = []
    for run_id in runs_left_behind(project.home):
        run = context.instance.get_run_by_id(run_id)
        if run is None:
            continue
        if not run.is_finished:
            context.instance.report_run_failed(
                run, "the process of this run has gone; what it bought is in the journal"
            )
            ended.append(run_id)
        forget(project.home, run_id)
    return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "every run that is under way has its process")
