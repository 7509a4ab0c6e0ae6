"""Materialise datasets through Dagster, into the instance that the UI shows, in the order of the lineage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle_assets.configuration import Configuration, Settings, load_configuration
from eagle_assets.defs.outcomes import Group, Outcome, RunSummary
from eagle_assets.defs.side_by_side import Lanes

if TYPE_CHECKING:
    import dagster as dg

    from eagle_assets.defs.progress import OnProgress

LANES = 2
"""Datasets side by side: as many runs as dagster_home/dagster.yaml allows at once."""

PREFLIGHT = "tokenizer_report"
CALIBRATION = "provider_calibration"
COLLECT = ("prompts", "raw_responses")
SEQUENCES, JUDGED, SHARDS = "token_sequences", "judged_sequences", "training_shards"
EXPORTS = "exports"  # made where the datasets file asks for one
CONCLUDE = ("draft_vocabulary", EXPORTS, "run_statistics")

Execute = Callable[[Iterable[Group]], Iterator[list[Outcome]]]


class RunRefused(Exception):
    """What was asked for cannot be run; the message says what to do."""


@dataclass(frozen=True)
class Plan:
    """What a run makes of these `datasets`, of which some are `bought`: groups that can go side by side, stage after
    stage."""

    datasets: tuple[str, ...]
    bought: tuple[str, ...]
    stages: tuple[tuple[Group, ...], ...]


def prepare(datasets: Sequence[str] = (), until: str | None = None, as_tick: bool = False) -> Plan:
    """Plan to make these datasets (default: all) and the assets without partitions, up to and including `until`, and
    make the home. `as_tick` keeps each dataset within the limits that a tick of its schedule has.

    All responses are collected before any is reconstructed, because calibration learns from them all. Raises RunRefused
    for a dataset or an asset that is not known, and where something is to be bought without a key; OSError where the
    home cannot be made.
    """
    settings = Settings()
    configuration = load_configuration(settings.datasets_file)
    chosen = _known_datasets(datasets, configuration)
    wanted = _wanted(until)
    bought = [name for name in chosen if name in configuration.bought]
    if bought and settings.api_key is None:
        raise RunRefused(
            f"OPENROUTER_API_KEY is not set, and {', '.join(bought)} would be bought from OpenRouter: set it, "
            "or run `make demo`, which needs no key"
        )
    if bought:
        _require_something_to_ask([configuration.bought[name].prompts for name in bought], settings.home)
    judged = configuration.judge is not None
    if until == JUDGED and not judged:
        raise RunRefused(f"{settings.datasets_file} names no judge: put `judge: {{kind: sglang, base_url: …}}` into it")
    settings.home.mkdir(parents=True, exist_ok=True)
    conclude = CONCLUDE if configuration.exports or until == EXPORTS else [a for a in CONCLUDE if a != EXPORTS]
    stages = _stages(chosen, bought, _limits(configuration) if as_tick else {}, judged, conclude)
    return Plan(tuple(chosen), tuple(bought), tuple(tuple(_wanted_of(stage, wanted)) for stage in stages))


def materialise(
    plan: Plan,
    instance: dg.DagsterInstance | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    on_progress: OnProgress | None = None,
) -> RunSummary:
    """Materialise what is planned. A dataset that is refused leaves the others alone.

    Datasets go side by side, in processes of their own; one alone, or where an instance is given, in this process.
    """
    if instance is None and len(plan.datasets) > 1:
        with closing(Lanes(LANES, on_progress)) as lanes:
            return _run(plan.stages, lanes.execute, on_outcome)
    from eagle_assets.defs.execution import the_instance

    with nullcontext(instance) if instance is not None else the_instance() as used:
        return _run(plan.stages, _in_this_process(used, on_progress), on_outcome)


def _require_something_to_ask(prompt_files: Sequence[Path], home: Path) -> None:
    """Raises RunRefused where no prompts file can be used, before probes are bought for nothing; that is once."""
    from eagle_assets.lake.home import Home
    from eagle_assets.lake.version import last_good
    from eagle_assets.openrouter.requests import PromptsError, read_prompts

    if last_good(Home(home), CALIBRATION, None) is not None:
        return
    refused = []
    for path in prompt_files:
        try:
            read_prompts(path)
        except PromptsError as error:
            refused.append(str(error))
        else:
            return
    raise RunRefused(f"there is nothing to ask: {refused[0]}")


def _stages(
    chosen: Sequence[str],
    bought: Sequence[str],
    limits: Mapping[str, Mapping[str, Any]],
    judged: bool,
    conclude: Sequence[str],
) -> Iterator[list[Group]]:
    """Groups that can go side by side, stage after stage. The judge learns from the sequences of all datasets."""
    local = [Group(COLLECT, name, (PREFLIGHT,)) for name in chosen if name not in bought]
    yield [Group((PREFLIGHT,))]
    yield [*([Group((CALIBRATION,), needs=(PREFLIGHT,))] if bought else []), *local]
    yield [Group(COLLECT, name, (PREFLIGHT, CALIBRATION), limits.get(name, {})) for name in bought]
    if judged:
        yield [Group((SEQUENCES,), name, COLLECT) for name in chosen]
        yield [Group((JUDGED, SHARDS), name, (*COLLECT, SEQUENCES)) for name in chosen]
    else:
        yield [Group((SEQUENCES, SHARDS), name, COLLECT) for name in chosen]
    for asset in conclude:
        yield [Group((asset,))]


def _run(stages: Iterable[Iterable[Group]], execute: Execute, on_outcome: Callable[[Outcome], None]) -> RunSummary:
    """Execute what is not in the way of a refusal."""
    outcomes: list[Outcome] = []

    def note(found: Iterable[Outcome]) -> None:
        for outcome in found:
            outcomes.append(outcome)
            on_outcome(outcome)

    for stage in stages:
        groups = []
        for group in stage:
            obstacle = _obstacle(group, outcomes)
            if obstacle is None:
                groups.append(group)
            else:
                reason = f"{obstacle} did not succeed"
                note(Outcome(asset, group.dataset, "not reached", reason) for asset in group.assets)
        for found in execute(groups):
            note(found)
    return RunSummary(tuple(outcomes))


def _wanted_of(stage: Iterable[Group], wanted: Callable[[str], bool]) -> Iterator[Group]:
    for group in stage:
        if assets := tuple(filter(wanted, group.assets)):
            yield Group(assets, group.dataset, group.needs, group.config if "raw_responses" in assets else {})


def _obstacle(group: Group, outcomes: Iterable[Outcome]) -> str | None:
    failed = {(o.asset, o.dataset) for o in outcomes if o.status != "materialised"}
    return next((a for a in group.needs if (a, group.dataset) in failed or (a, None) in failed), None)


def _in_this_process(instance: dg.DagsterInstance, on_progress: OnProgress | None) -> Execute:
    from eagle_assets.defs.execution import execute
    from eagle_assets.defs.progress import shown_by

    def in_turn(groups: Iterable[Group]) -> Iterator[list[Outcome]]:
        with shown_by(on_progress):
            for group in groups:
                yield list(execute(group, instance))

    return in_turn


def _wanted(until: str | None) -> Callable[[str], bool]:
    if until is None:
        return lambda asset: True
    from eagle_assets.defs.execution import all_assets, assets_until

    if until not in all_assets():
        raise RunRefused(f"there is no asset {until!r}; there are {', '.join(sorted(all_assets()))}")
    return assets_until(until).__contains__


def _known_datasets(asked: Sequence[str], configuration: Configuration) -> list[str]:
    known = list(configuration.datasets)
    for name in asked:
        if name not in known:
            raise RunRefused(f"there is no dataset {name!r} in {Settings().datasets_file}; it has {', '.join(known)}")
    return [name for name in known if name in asked] if asked else known


def _limits(configuration: Configuration) -> dict[str, dict[str, object]]:
    """Run config that keeps a collection within a tick's limits, by dataset."""
    from eagle_assets.defs.limits import limits_of_a_tick, run_config

    return {name: run_config(limits_of_a_tick(dataset)) for name, dataset in configuration.bought.items()}
