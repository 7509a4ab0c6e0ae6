"""`prompts`: what will be asked, in ids, and what it can cost at worst."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec

from eagle_assets.configuration import Configuration, LocalDataset, OpenRouterDataset, ServerDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.provider_calibration import published_endpoints
from eagle_assets.defs.resources import Project
from eagle_assets.lake import columns
from eagle_assets.lake.audit import Check, Published, require

if TYPE_CHECKING:
    from eagle_assets.lake.version import NewVersion
    from eagle_assets.openrouter.endpoints import Price
    from eagle_assets.openrouter.forecast import Forecast
    from eagle_assets.targets.target import Target

WORST = 10


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
    from eagle_assets.lake.schemas import PROMPTS
    from eagle_assets.lake.version import new_version
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.targets.kimi import target_named

    name, configuration = context.partition_key, project.configuration
    dataset = project.dataset(name)
    target = target_named(configuration.target)
    with refusals(LedgerError), new_version(project.home, "prompts", name, context.run.run_id) as version:
        inputs = [require(project.home, "tokenizer_report")]
        problems: list[dict[str, Any]] = []
        if isinstance(dataset, LocalDataset):
            price, rows = None, local_rows(dataset, name, target, problems)
        else:
            price = None
            if isinstance(dataset, OpenRouterDataset):
                inputs.append(require(project.home, "provider_calibration"))
                price = _dearest(inputs[-1], configuration)
            rows = request_rows(dataset, name, configuration, target, price, problems)
        version.write_rows("part.parquet", PROMPTS, rows)
        checks, counts = _audit(version, name, project, price, problems)
        audit = version.audit(checks, inputs, counts, identity=content_of(version), vocabulary=target.vocabulary.sha256)
        yield from events_of(audit)


def request_rows(
    dataset: OpenRouterDataset | ServerDataset,
    name: str,
    configuration: Configuration,
    target: "Target",
    price: "Price | None",
    problems: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Rows of a prompts file; what cannot be used goes to `problems`, as prompt and reason."""
    from eagle_assets.openrouter.endpoints import worst_case_usd
    from eagle_assets.openrouter.requests import PromptsError, build_request, read_prompts
    from eagle_assets.targets.prompt import PromptError, prompt_ids

    try:
        asked = read_prompts(dataset.prompts)
    except PromptsError as error:
        problems += [{"problem": each} for each in error.problems]
        return
    for prompt in asked:
        request = build_request(prompt, dataset, configuration)
        try:
            ids = prompt_ids(target, request)
        except PromptError as error:
            problems.append({"prompt_id": prompt.prompt_id, "problem": f"line {prompt.line}: {error}"})
            continue
        yield {
            "prompt_id": prompt.prompt_id,
            "dataset": name,
            "request": msgspec.json.encode(request).decode(),
            "prompt_ids": ids,
            "prompt_tokens": len(ids),
            "max_tokens": request["max_tokens"],
            "worst_case_usd": worst_case_usd(len(ids), request["max_tokens"], price) if price is not None else 0.0,
        }


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


def content_of(version: "NewVersion") -> str:
    """What answers depend on: prices may change without making them stale."""
    digest = hashlib.sha256()
    for row in version.rows("part.parquet", ["prompt_id", "request", "prompt_ids"]):
        digest.update(msgspec.json.encode(row))
    return digest.hexdigest()


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


def dataset_fits_budget(cap_usd: float, cost: "Forecast", rows: Sequence[dict[str, Any]]) -> Check:
    """Refused only where nothing at all could be bought: collection stops at the cap by itself, and says so."""
    ordered = sorted(rows, key=lambda row: row["worst_case_usd"], reverse=True)
    least_usd = ordered[-1]["worst_case_usd"] if ordered else 0.0
    fits = least_usd <= cap_usd
    said = f"at worst ${cost.at_most_usd:.4f}, probably ${cost.probably_usd:.4f}, of ${cap_usd:.2f}"
    if not fits:
        sentence = (
            f"a single request may cost ${least_usd:.4f}, and the cap is ${cap_usd:g}: lower max_tokens, or raise "
            "budget_usd in the datasets file"
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
        () if cost.at_most_usd <= cap_usd else tuple(ordered[:WORST]),
    )


def _audit(
    version: "NewVersion",
    name: str,
    project: Project,
    price: "Price | None",
    problems: list[dict[str, Any]],
) -> tuple[list[Check], dict[str, float]]:
    from eagle_assets.defs.spending import seen_so_far
    from eagle_assets.openrouter.forecast import forecast
    from eagle_assets.openrouter.ledger import budget_totals

    rows = list(version.rows("part.parquet", ["prompt_id", "prompt_tokens", "max_tokens", "worst_case_usd"]))
    counts = {"prompt_tokens": sum(row["prompt_tokens"] for row in rows)}
    dataset = project.dataset(name)
    file = dataset.responses if isinstance(dataset, LocalDataset) else dataset.prompts
    valid = prompts_are_valid(len(rows), problems, file)
    if price is None:
        free = Check(
            "dataset_fits_budget", True, "answers of the team's own server cost nothing", {"worst_case_usd": 0.0}
        )
        return [valid, free], {**counts, "worst_case_usd": 0.0}
    configuration = project.configuration
    seen = seen_so_far(budget_totals(project.home.root, configuration), name, configuration)
    cost = forecast(((row["prompt_tokens"], row["max_tokens"]) for row in rows), price, seen)
    cap = configuration.bought[name].budget_usd or configuration.budget_usd
    return [valid, dataset_fits_budget(cap, cost, rows)], {**counts, "worst_case_usd": cost.at_most_usd}


def _dearest(calibration: Published, configuration: Configuration) -> "Price":
    from eagle_assets.openrouter.endpoints import allowed_endpoints, dearest_price, default_price

    allowed = allowed_endpoints(published_endpoints(calibration), configuration.routing)
    return dearest_price(allowed) or default_price(configuration.routing)
