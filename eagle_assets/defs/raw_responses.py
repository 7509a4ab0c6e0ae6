"""`raw_responses`: every exchange as received, byte for byte."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from eagle_assets.configuration import Configuration, LocalDataset, OpenRouterDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.progress import report_to
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Check, GateClosed, Published, require
from eagle_assets.lake.schemas import RAW_RESPONSES
from eagle_assets.lake.version import NewVersion, new_version

if TYPE_CHECKING:
    from eagle_assets.openrouter.attempts import JournalRecord
    from eagle_assets.openrouter.client import CollectionSummary
    from eagle_assets.openrouter.collection import Progress
    from eagle_assets.openrouter.requests import Prompt

# One stray answer of an excluded provider is kept out by its verdict; more of them mean that routing does not hold.
MAX_SHARE_OF_EXCLUDED = 0.05
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
            "providers_allowed": f"At most {MAX_SHARE_OF_EXCLUDED:.0%} of the answers come from excluded providers.",
        },
        DATASETS,
    ),
)
def raw_responses(context: dg.AssetExecutionContext, project: Project) -> Events:
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
            yield from _bought(context, project, name, dataset, version)


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
    context: dg.AssetExecutionContext, project: Project, name: str, dataset: OpenRouterDataset, version: NewVersion
) -> Events:
    from eagle_assets.openrouter.client import collect_missing
    from eagle_assets.openrouter.journal import open_journal
    from eagle_assets.openrouter.ledger import budget_totals
    from eagle_assets.reconstruction.stored import row_of_record

    home, configuration = project.home, project.configuration
    inputs = [require(home, "prompts", name), require(home, "provider_calibration")]
    asked, token_counts = prompts_as_published(inputs[0], dataset, configuration)
    report = report_to(context)

    def on_progress(progress: "Progress") -> None:
        done = progress.answered + progress.refused + progress.failed
        report(name, done, progress.total, progress.spent_usd)

    summary = collect_missing(home.root, name, asked, configuration, project.settings, token_counts, on_progress)
    for sentence in (*summary.notes, *filter(None, [summary.stopped])):
        context.log.warning(sentence)
    journal = open_journal(home.root, name)
    version.write_rows("part.parquet", RAW_RESPONSES, (row_of_record(record, name) for record in journal.read()))
    rows = list(version.rows("part.parquet", ["exchange_id", "prompt_id", "provider", "outcome", "cost_usd"]))
    totals = budget_totals(home.root, configuration)
    answers = [row for row in rows if row["outcome"] == "answered"]
    checks = [
        nothing_lost(
            every_prompt_is_explained(_prompt_ids(inputs[0]), rows, summary),
            differing_rows(journal.read(), version.rows("part.parquet", ["exchange_id", "body"])),
        ),
        spend_within_budget(
            {
                name: (totals.datasets[name].spent_usd, dataset.budget_usd or totals.budget_usd),
                "all datasets": (totals.all.spent_usd, totals.budget_usd),
            },
        ),
        providers_allowed(answers, configuration),
    ]
    counts = {
        "prompts": summary.prompts,
        "answers": len(answers),
        "not_asked_yet": summary.left + summary.unaffordable,
        "spent_usd": totals.datasets[name].spent_usd,
    }
    audit = version.audit(checks, inputs, counts, vocabulary=inputs[0].audit.vocabulary)
    yield from events_of(audit, {"remarks": "; ".join((*summary.notes, summary.stopped or "")) or "none"})
    if summary.fatal:
        raise dg.Failure(f"{summary.stopped}; what was answered is published", allow_retries=False)


def prompts_as_published(
    published: Published, dataset: OpenRouterDataset, configuration: Configuration
) -> "tuple[list[Prompt], dict[str, int]]":
    """The prompts of the file, and their token counts. Raises GateClosed where they are not what was published."""
    from eagle_assets.openrouter.requests import PromptsError, build_request, read_prompts

    rows = {row["prompt_id"]: row for row in published.rows(["prompt_id", "request", "prompt_tokens"])}
    try:
        asked = read_prompts(dataset.prompts)
    except PromptsError as error:
        raise GateClosed(str(error)) from None
    requests = {p.prompt_id: msgspec.json.encode(build_request(p, dataset, configuration)).decode() for p in asked}
    if requests != {prompt_id: row["request"] for prompt_id, row in rows.items()}:
        raise GateClosed(
            f"{dataset.prompts} or the datasets file changed since prompts of {published.audit.dataset} was "
            "materialised; materialise it again"
        )
    return asked, {prompt_id: row["prompt_tokens"] for prompt_id, row in rows.items()}


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


def providers_allowed(answers: Sequence[Mapping[str, Any]], configuration: Configuration) -> Check:
    from eagle_assets.reconstruction.reading import provider_slug

    excluded = {provider_slug(name) for name in configuration.routing.as_request()["ignore"]}
    stray = [row for row in answers if provider_slug(row["provider"] or "") in excluded]
    share = len(stray) / len(answers) if answers else 0.0
    return Check(
        "providers_allowed",
        share <= MAX_SHARE_OF_EXCLUDED,
        f"{len(stray)} of {len(answers)} answers come from excluded providers",
        {"answers": len(answers), "excluded": len(stray), "share": share},
        tuple({"exchange_id": row["exchange_id"], "provider": row["provider"]} for row in stray[:WORST]),
    )


def _prompt_ids(prompts: Published) -> list[str]:
    return [row["prompt_id"] for row in prompts.rows(["prompt_id"])]
