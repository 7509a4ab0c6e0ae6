"""`prompts`: what will be asked, in ids, and what it can cost at worst."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from eagle_assets.configuration import LocalDataset, OpenRouterDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.endpoints import price_to_reckon_with
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.resources import Project
from eagle_assets.lake import columns
from eagle_assets.lake.audit import Check, require
from eagle_assets.openrouter.totals import in_dollars

if TYPE_CHECKING:
    import pyarrow as pa

    from eagle_assets.lake.version import NewVersion
    from eagle_assets.openrouter.endpoints import Price
    from eagle_assets.openrouter.forecast import Forecast
    from eagle_assets.targets.target import Target

WORST = 10
_COSTING = ["prompt_id", "prompt_tokens", "max_tokens", "worst_case_usd"]


@dg.asset(
    partitions_def=DATASETS,
    deps=["tokenizer_report", "provider_calibration"],
    group_name="collection",
    kinds={"parquet"},
    tags={"stage": "prompts"},
    metadata={"dagster/column_schema": column_schema(columns.PROMPTS)},
    check_specs=blocking_checks(
        "prompts",
        {
            "prompts_are_valid": "Every row can be sent as a request and rendered to the target model's prompt ids.",
            "dataset_fits_budget": "The cap pays for a request at least; it says what all cost, at worst and probably.",
        },
        DATASETS,
    ),
)
def prompts(context: dg.AssetExecutionContext, project: Project) -> Events:
    """What will be asked, in ids, and what it may cost.

    The requests of a dataset as they are sent, with prompt ids, their number and the worst-case cost. What the team's
    own server answers costs nothing; of a file of its answers, these are the prompts they belong to.
    """
    from eagle_assets.defs.prompt_parts import PromptsFile, write_part, write_prompts
    from eagle_assets.lake.version import new_version
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.requests import PromptsError
    from eagle_assets.targets.kimi import target_named

    name, configuration = context.partition_key, project.configuration
    dataset = project.dataset(name)
    target = target_named(configuration.target)
    with refusals(LedgerError), new_version(project.home, "prompts", name, context.run.run_id) as version:
        inputs = [require(project.home, "tokenizer_report")]
        problems: list[dict[str, Any]] = []
        price = None
        if isinstance(dataset, LocalDataset):
            write_part(version, local_rows(dataset, name, target, problems))
        else:
            if isinstance(dataset, OpenRouterDataset):
                inputs.append(require(project.home, "provider_calibration"))
                price = price_to_reckon_with(inputs[-1], configuration.routing)
            try:
                write_prompts(version, PromptsFile(name, dataset, configuration), price, problems)
            except PromptsError as error:
                version.forget()
                problems = [{"problem": each} for each in error.problems]
        checks, counts = _audit(version, name, project, price, problems)
        identity = hashlib.sha256("".join(version.passed_on()).encode()).hexdigest()
        audit = version.audit(checks, inputs, counts, identity=identity, vocabulary=target.vocabulary.sha256)
        yield from events_of(audit)


def local_rows(
    dataset: LocalDataset, name: str, target: "Target", problems: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The prompts of a file of local responses; what cannot be used goes to `problems`."""
    from eagle_assets.reconstruction.own.local_file import LocalResponsesError, read_local_responses

    try:
        for row, _ in read_local_responses(dataset.responses, target.vocabulary):
            yield {
                "prompt_id": row.prompt_id,
                "dataset": name,
                "request": "{}",
                "prompt_ids": row.prompt_ids,
                "prompt_tokens": len(row.prompt_ids),
                "worst_case_usd": 0.0,
            }
    except LocalResponsesError as error:
        problems += [{"problem": each} for each in error.problems]


def prompts_are_valid(valid: int, problems: list[dict[str, Any]], file: Path) -> Check:
    from eagle_assets.openrouter.wrong_rows import first_few

    wrong = first_few([each["problem"] for each in problems])
    return Check(
        "prompts_are_valid",
        not problems,
        f"{len(problems)} bad and {valid} good prompts in {file}: {wrong}"
        if problems
        else f"all {valid} prompts are good",
        {"good": valid, "bad": len(problems)},
        tuple(problems[:WORST]),
    )


def dataset_fits_budget(cap_usd: float, cost: "Forecast", rows: "pa.Table", was_asked: bool) -> Check:
    """Refused only where nothing was asked yet and nothing at all could be bought: collection stops at the cap by
    itself, and says so. The rows are of PROMPTS."""
    dearest_first = rows.sort_by([("worst_case_usd", "descending")])
    least_usd = dearest_first["worst_case_usd"][-1].as_py() if rows.num_rows else 0.0
    fits = was_asked or least_usd <= cap_usd
    said = f"at worst ${cost.at_most_usd:.4f}, probably ${cost.probably_usd:.4f}, of {in_dollars(cap_usd)}"
    if not fits:
        sentence = (
            f"a single request may cost ${least_usd:.4f}, and the cap is {in_dollars(cap_usd)}: lower max_tokens, or "
            "raise budget_usd in the datasets file"
        )
    elif cost.at_most_usd > cap_usd:
        sentence = f"{said}: the buying may end before every prompt is asked, and goes on downstream with what it has"
    else:
        sentence = said
    return Check(
        "dataset_fits_budget",
        fits,
        sentence,
        {"worst_case_usd": cost.at_most_usd, "probably_usd": cost.probably_usd, "cap_usd": cap_usd},
        () if cost.at_most_usd <= cap_usd else tuple(dearest_first.slice(0, WORST).to_pylist()),
    )


def _audit(
    version: "NewVersion",
    name: str,
    project: Project,
    price: "Price | None",
    problems: list[dict[str, Any]],
) -> tuple[list[Check], dict[str, float]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from eagle_assets.defs.spending import seen_so_far
    from eagle_assets.lake.schemas import PROMPTS
    from eagle_assets.openrouter.forecast import forecast
    from eagle_assets.openrouter.journal_reader import open_journal
    from eagle_assets.openrouter.ledger import budget_totals

    schema = pa.schema([PROMPTS.field(name) for name in _COSTING])
    rows = pa.Table.from_batches(version.batches(columns=_COSTING), schema)
    counts = {"prompt_tokens": pc.sum(rows["prompt_tokens"], min_count=0).as_py()}
    dataset = project.dataset(name)
    file = dataset.responses if isinstance(dataset, LocalDataset) else dataset.prompts
    valid = prompts_are_valid(rows.num_rows, problems, file)
    if price is None:
        free = Check(
            "dataset_fits_budget", True, "answers of the team's own server cost nothing", {"worst_case_usd": 0.0}
        )
        return [valid, free], {**counts, "worst_case_usd": 0.0}
    configuration = project.configuration
    seen = seen_so_far(budget_totals(project.home.root, configuration), name, configuration)
    sizes = zip(rows["prompt_tokens"].to_pylist(), rows["max_tokens"].to_pylist(), strict=True)
    cost = forecast(sizes, price, seen)
    cap = configuration.bought[name].budget_usd or configuration.budget_usd
    was_asked = not open_journal(project.home.root, name).is_empty
    return [valid, dataset_fits_budget(cap, cost, rows, was_asked)], {**counts, "worst_case_usd": cost.at_most_usd}
