"""`raw_responses`: every exchange as received, byte for byte."""

from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from eagle_assets.configuration import LocalDataset, OpenRouterDataset, ServerDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.endpoints import published_endpoints
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.latest_verdicts import LatestVerdicts
from eagle_assets.defs.limits import RunLimits
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import ENDED_EARLY, spend_metadata
from eagle_assets.defs.progress import report_to
from eagle_assets.defs.resources import Project
from eagle_assets.lake import columns
from eagle_assets.lake.audit import Check, Published, require

if TYPE_CHECKING:
    import pyarrow as pa

    from eagle_assets.lake.version import NewVersion
    from eagle_assets.openrouter.client import CollectionSummary
    from eagle_assets.openrouter.progress import Progress


@dg.asset(
    partitions_def=DATASETS,
    deps=["prompts", "provider_calibration"],
    group_name="collection",
    kinds={"parquet"},
    tags={"stage": "raw_responses"},
    metadata={"dagster/column_schema": column_schema(columns.RAW_RESPONSES)},
    check_specs=blocking_checks(
        "raw_responses",
        {
            "nothing_lost": "Every prompt has an answer or a recorded reason; every exchange of the journal is here.",
            "spend_within_budget": "What was spent is within the cap of the dataset and of all of them together.",
            "providers_allowed": "Hardly any answers are from whom nobody asked.",
        },
        DATASETS,
    ),
)
def raw_responses(context: dg.AssetExecutionContext, project: Project, config: RunLimits) -> Events:
    """Every answer as it came, byte for byte.

    A row for each exchange with OpenRouter, failed attempts included, or each answer of the team's own server. Buys
    only what the journal does not hold yet, so it can be interrupted and run again at any time. Where the budget ends
    before every prompt was asked it says so, and what was bought goes on downstream.
    """
    from eagle_assets.lake.version import new_version
    from eagle_assets.openrouter.client import CollectionError
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.record_file import JournalError
    from eagle_assets.reconstruction.own.local_file import LocalResponsesError

    name = context.partition_key
    dataset = project.dataset(name)
    with (
        refusals(CollectionError, JournalError, LedgerError, LocalResponsesError),
        new_version(project.home, "raw_responses", name, context.run.run_id) as version,
    ):
        if isinstance(dataset, LocalDataset):
            yield from _local(project, name, dataset, version)
        elif isinstance(dataset, ServerDataset):
            yield from _served(context, project, name, dataset, version, config)
        else:
            yield from _bought(context, project, name, dataset, version, config)


def _local(project: Project, name: str, dataset: LocalDataset, version: "NewVersion") -> Events:
    from eagle_assets.defs.collection_checks import every_prompt_is_explained
    from eagle_assets.defs.response_parts import write_local
    from eagle_assets.reconstruction.own.local import raw_row
    from eagle_assets.reconstruction.own.local_file import read_local_responses
    from eagle_assets.targets.kimi import target_named

    prompts = require(project.home, "prompts", name)
    target = target_named(project.configuration.target)
    responses = read_local_responses(dataset.responses, target.vocabulary)
    write_local(version, (raw_row(row, line, name, target) for row, line in responses))
    checks = [
        every_prompt_is_explained(_prompt_ids(prompts), version.batches(columns=["prompt_id", "outcome"]), None),
        Check("spend_within_budget", True, "local answers cost nothing", {"spent_usd": 0.0}),
        Check("providers_allowed", True, "the answers are of the team's own server"),
    ]
    yield from events_of(version.audit(checks, [prompts], vocabulary=prompts.audit.vocabulary))


def _served(
    context: dg.AssetExecutionContext,
    project: Project,
    name: str,
    dataset: ServerDataset,
    version: "NewVersion",
    limits: RunLimits,
) -> Events:
    from eagle_assets.defs.collection_checks import ids_are_given
    from eagle_assets.defs.prompt_parts import PromptsFile, wanted_as_published
    from eagle_assets.defs.response_parts import write_collected
    from eagle_assets.openrouter.own_server import ask_own_server
    from eagle_assets.reconstruction.own.local import served_row
    from eagle_assets.reconstruction.stored import nobody_strays
    from eagle_assets.targets.kimi import target_named

    home, configuration = project.home, project.configuration
    target = target_named(configuration.target)
    prompts = require(home, "prompts", name)
    wanted = wanted_as_published(prompts, PromptsFile(name, dataset, configuration))
    summary = ask_own_server(
        home.root, name, dataset, wanted, configuration, project.settings, report_to(context), limit=limits.max_requests
    )
    _warn(context, summary)
    nothing_lost = write_collected(
        version, name, wanted.prompt_ids, summary, nobody_strays, lambda row: served_row(row, target)
    )
    answers = sum(row["outcome"] == "answered" for row in version.rows(columns=["outcome"]))
    checks = [
        nothing_lost,
        Check("spend_within_budget", True, "answers of the team's own server cost nothing", {"spent_usd": 0.0}),
        ids_are_given(version.rows(columns=["prompt_id", "request", "outcome", "reason", "body"]), dataset.base_url),
    ]
    counts = {"prompts": summary.prompts, "answers": answers, "not_asked_yet": summary.left}
    audit = version.audit(checks, [prompts], counts, vocabulary=prompts.audit.vocabulary)
    yield from events_of(audit, _said(summary))
    _fail_if_fatal(summary)


def _bought(
    context: dg.AssetExecutionContext,
    project: Project,
    name: str,
    dataset: OpenRouterDataset,
    version: "NewVersion",
    limits: RunLimits,
) -> Events:
    from eagle_assets.defs.collection_checks import ASKED_OF, providers_allowed, spend_within_budget
    from eagle_assets.defs.prompt_parts import PromptsFile, wanted_as_published
    from eagle_assets.defs.response_parts import write_collected
    from eagle_assets.openrouter.client import collect_missing
    from eagle_assets.openrouter.ledger import budget_totals
    from eagle_assets.openrouter.origin import Origin

    home, configuration = project.home, project.configuration
    inputs = [require(home, "prompts", name), require(home, "provider_calibration")]
    wanted = wanted_as_published(inputs[0], PromptsFile(name, dataset, configuration))
    report, latest = report_to(context), LatestVerdicts()

    def on_progress(progress: "Progress") -> None:
        report(replace(progress, verdicts=latest.verdicts))

    summary = collect_missing(
        home.root,
        name,
        wanted,
        configuration,
        project.settings,
        on_progress,
        on_answer=latest.add,
        **limits.as_arguments(context.run.run_id),
    )
    _warn(context, summary)
    endpoints = published_endpoints(inputs[1])
    origin = Origin.allowed(configuration.target, configuration.routing, endpoints)
    nothing_lost = write_collected(version, name, wanted.prompt_ids, summary, origin.stray)
    totals = budget_totals(home.root, configuration)
    spent_usd = totals.datasets[name].spent_usd
    spent_before_usd = version.last_good.counts.get("spent_usd", 0.0) if version.last_good is not None else 0.0
    allowed = providers_allowed(version.batches(columns=ASKED_OF), configuration.target, endpoints)
    checks = [
        nothing_lost,
        spend_within_budget(
            {
                name: (spent_usd, dataset.budget_usd or totals.budget_usd),
                "all datasets": (totals.all.spent_usd, totals.budget_usd),
            },
            spent_usd - spent_before_usd,
        ),
        allowed,
    ]
    counts = {
        "prompts": summary.prompts,
        "answers": allowed.numbers["answers"],
        "not_asked_yet": summary.left,
        "beyond_budget": summary.beyond_budget,
        "spent_usd": spent_usd,
    }
    audit = version.audit(checks, inputs, counts, vocabulary=inputs[0].audit.vocabulary)
    yield from events_of(audit, {**_said(summary), **spend_metadata(totals, {name: dataset.budget_usd}, [name])})
    _fail_if_fatal(summary)


def _warn(context: dg.AssetExecutionContext, summary: "CollectionSummary") -> None:
    for sentence in (*summary.notes, *filter(None, [summary.stopped])):
        context.log.warning(sentence)


def _fail_if_fatal(summary: "CollectionSummary") -> None:
    if summary.fatal:
        raise dg.Failure(f"{summary.stopped}; what was answered is published", allow_retries=False)


def _said(summary: "CollectionSummary") -> dict[str, str]:
    why = summary.stopped
    if why is None and summary.failed:
        why = (
            f"{summary.failed} of {summary.prompts} prompts have no answer after every attempt: "
            "`eagle-assets query retries` says why, and the next run asks them again"
        )
    return {**({ENDED_EARLY: why} if why is not None else {}), "remarks": "; ".join(summary.notes) or "none"}


def _prompt_ids(prompts: Published) -> "pa.ChunkedArray":
    return prompts.table(["prompt_id"])["prompt_id"]
