"""`raw_responses`: every exchange as received, byte for byte."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from eagle_assets.configuration import Configuration, LocalDataset, OpenRouterDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.latest_verdicts import LatestVerdicts
from eagle_assets.defs.limits import RunLimits
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import spend_metadata
from eagle_assets.defs.progress import report_to
from eagle_assets.defs.provider_calibration import published_endpoints
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Check, GateClosed, Published, require
from eagle_assets.lake.schemas import RAW_RESPONSES
from eagle_assets.lake.version import NewVersion, new_version
from eagle_assets.openrouter.origin import MAX_SHARE_OF_STRAYS

if TYPE_CHECKING:
    from eagle_assets.openrouter.attempts import JournalRecord
    from eagle_assets.openrouter.client import CollectionSummary
    from eagle_assets.openrouter.endpoints import Endpoint
    from eagle_assets.openrouter.progress import Progress
    from eagle_assets.openrouter.requests import Prompt

WORST = 10


@dg.asset(
    partitions_def=DATASETS,
    deps=["prompts", "provider_calibration"],
    group_name="collection",
    kinds={"parquet"},
    tags={"stage": "raw_responses"},
    metadata={"dagster/column_schema": column_schema(RAW_RESPONSES)},
    check_specs=blocking_checks(
        "raw_responses",
        {
            "nothing_lost": "Every prompt has an answer or a recorded reason; every exchange of the journal is here.",
            "spend_within_budget": "What was spent is within the cap of the dataset and of all of them together.",
            "providers_allowed": f"At most {MAX_SHARE_OF_STRAYS:.0%} of the answers are from whom nobody asked.",
        },
        DATASETS,
    ),
)
def raw_responses(context: dg.AssetExecutionContext, project: Project, config: RunLimits) -> Events:
    """A row for each exchange with OpenRouter, failed attempts included, or each answer of the local server.

    Buys only what the journal does not hold yet, so it can be interrupted and run again at any time.
    """
    from eagle_assets.openrouter.client import CollectionError
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.record_file import JournalError
    from eagle_assets.reconstruction.local import LocalResponsesError

    name = context.partition_key
    dataset = project.dataset(name)
    with (
        refusals(CollectionError, JournalError, LedgerError, LocalResponsesError),
        new_version(project.home, "raw_responses", name, context.run.run_id) as version,
    ):
        if isinstance(dataset, LocalDataset):
            yield from _local(project, name, dataset, version)
        else:
            yield from _bought(context, project, name, dataset, version, config)


def _local(project: Project, name: str, dataset: LocalDataset, version: NewVersion) -> Events:
    from eagle_assets.reconstruction.local import raw_row, read_local_responses
    from eagle_assets.targets.kimi import target_named

    prompts = require(project.home, "prompts", name)
    target = target_named(project.configuration.target)
    responses = read_local_responses(dataset.responses, target.vocabulary)
    version.write_rows("part.parquet", RAW_RESPONSES, (raw_row(row, line, name, target) for row, line in responses))
    checks = [
        every_prompt_is_explained(_prompt_ids(prompts), version.rows("part.parquet", ["prompt_id", "outcome"]), None),
        Check("spend_within_budget", True, "local answers cost nothing", {"spent_usd": 0.0}),
        Check("providers_allowed", True, "the answers are of the team's own server"),
    ]
    yield from events_of(version.audit(checks, [prompts], vocabulary=prompts.audit.vocabulary))


def _bought(
    context: dg.AssetExecutionContext,
    project: Project,
    name: str,
    dataset: OpenRouterDataset,
    version: NewVersion,
    limits: RunLimits,
) -> Events:
    from eagle_assets.openrouter.client import collect_missing
    from eagle_assets.openrouter.journal import open_journal
    from eagle_assets.openrouter.ledger import budget_totals
    from eagle_assets.reconstruction.stored import row_of_record

    home, configuration = project.home, project.configuration
    inputs = [require(home, "prompts", name), require(home, "provider_calibration")]
    asked, token_counts = prompts_as_published(inputs[0], dataset, configuration)
    report, latest = report_to(context), LatestVerdicts()

    def on_progress(progress: "Progress") -> None:
        report(replace(progress, verdicts=latest.verdicts))

    summary = collect_missing(
        home.root,
        name,
        asked,
        configuration,
        project.settings,
        token_counts,
        on_progress,
        on_answer=latest.add,
        **limits.as_arguments(context.run.run_id),
    )
    for sentence in (*summary.notes, *filter(None, [summary.stopped])):
        context.log.warning(sentence)
    journal = open_journal(home.root, name)
    # In the order of the prompts, so that the rows do not depend on when each answer came.
    prompt_ids = [prompt.prompt_id for prompt in asked]
    version.write_rows("part.parquet", RAW_RESPONSES, (row_of_record(r, name) for r in journal.read(prompt_ids)))
    rows = list(version.rows("part.parquet", ["exchange_id", "prompt_id", "provider", "model", "outcome"]))
    totals = budget_totals(home.root, configuration)
    answers = [row for row in rows if row["outcome"] == "answered"]
    checks = [
        nothing_lost(
            every_prompt_is_explained(prompt_ids, rows, summary),
            differing_rows(journal.read(prompt_ids), version.rows("part.parquet", ["exchange_id", "body"])),
        ),
        spend_within_budget(
            {
                name: (totals.datasets[name].spent_usd, dataset.budget_usd or totals.budget_usd),
                "all datasets": (totals.all.spent_usd, totals.budget_usd),
            },
        ),
        providers_allowed(answers, configuration, published_endpoints(inputs[1])),
    ]
    counts = {
        "prompts": summary.prompts,
        "answers": len(answers),
        "not_asked_yet": summary.left + summary.unaffordable,
        "spent_usd": totals.datasets[name].spent_usd,
    }
    audit = version.audit(checks, inputs, counts, vocabulary=inputs[0].audit.vocabulary)
    shown = spend_metadata(totals, {name: dataset.budget_usd}, [name])
    yield from events_of(audit, {**shown, "remarks": "; ".join((*summary.notes, summary.stopped or "")) or "none"})
    if summary.fatal:
        raise dg.Failure(f"{summary.stopped}; what was answered is published", allow_retries=False)


def prompts_as_published(
    published: Published, dataset: OpenRouterDataset, configuration: Configuration
) -> "tuple[list[Prompt], dict[str, int]]":
    """The prompts of the file, and their token counts. Raises GateClosed where they are not what was published."""
    from eagle_assets.openrouter.requests import PromptsError, build_request, read_prompts

    try:
        asked = read_prompts(dataset.prompts)
    except PromptsError as error:
        raise GateClosed(str(error)) from None
    token_counts: dict[str, int] = {}
    for prompt, row in zip_longest(asked, published.rows(["prompt_id", "request", "prompt_tokens"])):
        if prompt is None or row is None or not _is_request_of(row, build_request(prompt, dataset, configuration)):
            raise GateClosed(
                f"{dataset.prompts} or the datasets file changed since prompts of {published.audit.dataset} was "
                "materialised; materialise it again"
            )
        token_counts[prompt.prompt_id] = row["prompt_tokens"]
    return asked, token_counts


def _is_request_of(row: Mapping[str, Any], request: dict[str, Any]) -> bool:
    return bool(row["request"] == msgspec.json.encode(request).decode())


def every_prompt_is_explained(
    prompt_ids: Sequence[str], rows: Iterable[Mapping[str, Any]], summary: "CollectionSummary | None"
) -> Check:
    """Whether each prompt has an answer, or a failed attempt with its reason, or was knowingly not asked yet."""
    outcomes: dict[str, set[str]] = {}
    for row in rows:
        outcomes.setdefault(row["prompt_id"], set()).add(row["outcome"])
    answered = sum("answered" in outcomes.get(prompt_id, ()) for prompt_id in prompt_ids)
    unseen = [prompt_id for prompt_id in prompt_ids if prompt_id not in outcomes]
    not_asked = min(len(unseen), summary.left + summary.unaffordable) if summary is not None else 0
    without_answer = len(prompt_ids) - answered - len(unseen)
    lost = len(unseen) - not_asked
    return Check(
        "nothing_lost",
        lost == 0,
        f"of {len(prompt_ids)} prompts {answered} have an answer, {without_answer} a reason why not, "
        f"{not_asked} were not asked yet" + (f", and {lost} are lost" if lost else ""),
        {"prompts": len(prompt_ids), "answered": answered, "not_asked_yet": not_asked, "lost": lost},
        tuple({"prompt_id": prompt_id} for prompt_id in unseen[:WORST]) if lost else (),
    )


def differing_rows(records: "Iterable[JournalRecord]", rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Exchanges of the journal that the published rows do not hold as they are."""
    return [
        record.exchange.exchange_id if record is not None else row["exchange_id"]
        for record, row in zip_longest(records, rows)
        if record is None
        or row is None
        or (record.exchange.exchange_id, record.exchange.body) != (row["exchange_id"], row["body"])
    ]


def nothing_lost(explained: Check, differing: Sequence[str]) -> Check:
    """`explained` holds as far as prompts go; and the rows must be the journal's exchanges, byte for byte."""
    if not differing:
        return explained
    return Check(
        explained.name,
        False,
        f"{len(differing)} exchanges are not here as the journal has them; {explained.sentence}",
        {**explained.numbers, "differing": len(differing)},
        tuple({"exchange_id": exchange_id} for exchange_id in differing[:WORST]),
    )


def spend_within_budget(spent_and_cap: Mapping[str, tuple[float, float]]) -> Check:
    over = [name for name, (spent, cap) in spent_and_cap.items() if spent > cap]
    return Check(
        "spend_within_budget",
        not over,
        "; ".join(f"{name}: ${spent:.4f} of ${cap:.2f}" for name, (spent, cap) in spent_and_cap.items()),
        {f"spent_usd_{name.replace(' ', '_')}": spent for name, (spent, _) in spent_and_cap.items()},
    )


def providers_allowed(
    answers: Sequence[Mapping[str, Any]], configuration: Configuration, endpoints: "Sequence[Endpoint]" = ()
) -> Check:
    from eagle_assets.openrouter.origin import Origin

    origin = Origin.allowed(configuration.target, configuration.routing, endpoints)
    reasons = [(row, origin.stray(row["model"], row["provider"])) for row in answers]
    strays = [(row, reason) for row, reason in reasons if reason is not None]
    share = len(strays) / len(answers) if answers else 0.0
    return Check(
        "providers_allowed",
        share <= MAX_SHARE_OF_STRAYS,
        f"{len(strays)} of {len(answers)} answers are not from whom they were asked"
        + (f", such as {strays[0][1]}; they are kept, and never trained on" if strays else ""),
        {"answers": len(answers), "strays": len(strays), "share": share},
        tuple({"exchange_id": row["exchange_id"], "reason": reason} for row, reason in strays[:WORST]),
    )


def _prompt_ids(prompts: Published) -> list[str]:
    return [row["prompt_id"] for row in prompts.rows(["prompt_id"])]
