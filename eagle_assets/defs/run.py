"""Materialise datasets through Dagster, in this process, into the instance that the UI shows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import dagster as dg

from eagle_assets.configuration import Settings, load_configuration
from eagle_assets.defs.graph import the_definitions
from eagle_assets.defs.limits import limits_of_a_tick, run_config
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import ENDED_EARLY
from eagle_assets.defs.progress import OnProgress, shown_by
from eagle_assets.lake.home import Home, write_atomically

PREPARE = ("tokenizer_report", "provider_calibration")
COLLECT = ("prompts", "raw_responses")
RECONSTRUCT = ("token_sequences", "training_shards")
CONCLUDE = ("draft_vocabulary", "run_statistics")
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class RunRefused(Exception):
    """What was asked for cannot be run; the message says what to do."""


@dataclass(frozen=True)
class Outcome:
    """What became of one asset of one dataset. `reason` is why it was refused or not reached, else what came of it;
    `ended_early` why not all was made that could be."""

    asset: str
    dataset: str | None
    status: Literal["materialised", "refused", "not reached"]
    reason: str
    seconds: float = 0.0
    ended_early: str | None = None


@dataclass(frozen=True)
class RunSummary:
    """Outcomes in the order in which they came."""

    outcomes: tuple[Outcome, ...]

    @property
    def refused(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "refused")

    @property
    def ended_early(self) -> tuple[Outcome, ...]:
        """The budget or a limit ended these, and what was made until then is published."""
        return tuple(outcome for outcome in self.outcomes if outcome.ended_early is not None)

    @property
    def succeeded(self) -> bool:
        return all(outcome.status == "materialised" for outcome in self.outcomes)


def materialise(
    datasets: Sequence[str] = (),
    until: str | None = None,
    instance: dg.DagsterInstance | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    on_progress: OnProgress | None = None,
    as_tick: bool = False,
) -> RunSummary:
    """Materialise these datasets (default: all) and the assets without partitions, up to and including `until`.

    `as_tick` keeps each dataset within the limits that a tick of its schedule has.

    All responses are collected before any is reconstructed, because calibration learns from them all. A dataset that
    is refused leaves the others alone. Raises RunRefused for a dataset or an asset that is not known, and where
    something is to be bought without a key.
    """
    settings = Settings()
    configuration = load_configuration(settings.datasets_file)
    wanted = _assets_until(until)
    chosen = _known_datasets(datasets)
    bought = [name for name in chosen if name in configuration.bought]
    has_key = settings.api_key is not None and settings.api_key.get_secret_value().strip()
    if bought and not has_key:
        raise RunRefused(
            f"OPENROUTER_API_KEY is not set, and {', '.join(bought)} would be bought from OpenRouter: set it, "
            "or run `make demo`, which needs no key"
        )
    with nullcontext(instance) if instance is not None else _instance() as used, shown_by(on_progress):
        ticks = {name: run_config(limits_of_a_tick(dataset)) for name, dataset in configuration.bought.items()}
        run = _Run(used, wanted, on_outcome, ticks if as_tick else {})
        run.group(PREPARE if bought else PREPARE[:1], None)
        for name in chosen:
            run.group(COLLECT, name, needs=PREPARE if name in bought else PREPARE[:1])
        for name in chosen:
            run.group(RECONSTRUCT, name, needs=COLLECT)
        for asset in CONCLUDE:
            run.group((asset,), None)
    return RunSummary(tuple(run.outcomes))


class _Run:
    """Executes groups of assets one after the other, and remembers what stands in the way of later ones."""

    def __init__(
        self,
        instance: dg.DagsterInstance,
        wanted: frozenset[str],
        on_outcome: Callable[[Outcome], None],
        collection_config: Mapping[str, Mapping[str, object]],
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._instance, self._wanted, self._on_outcome = instance, wanted, on_outcome
        self._collection_config = collection_config  # by dataset; only where there is something to limit
        self._job = the_definitions().resolve_implicit_global_asset_job_def()

    def group(self, assets: Iterable[str], dataset: str | None, needs: Iterable[str] = ()) -> None:
        """Materialise assets of one dataset in one Dagster run, unless one that they need was refused."""
        assets = [asset for asset in assets if asset in self._wanted]
        obstacle = self._obstacle(needs, dataset)
        if obstacle is not None:
            self._note(Outcome(asset, dataset, "not reached", f"{obstacle} did not succeed") for asset in assets)
        elif assets:
            self._note(self._execute(assets, dataset))

    def _obstacle(self, needs: Iterable[str], dataset: str | None) -> str | None:
        failed = {(o.asset, o.dataset) for o in self.outcomes if o.status != "materialised"}
        return next((asset for asset in needs if (asset, dataset) in failed or (asset, None) in failed), None)

    def _note(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self.outcomes.append(outcome)
            self._on_outcome(outcome)

    def _execute(self, assets: Sequence[str], dataset: str | None) -> Iterator[Outcome]:
        began = time.monotonic()
        collects = "raw_responses" in assets
        result = self._job.execute_in_process(
            instance=self._instance,
            partition_key=dataset,
            asset_selection=[dg.AssetKey(asset) for asset in assets],
            run_config={**QUIET, **(self._collection_config.get(dataset or "", {}) if collects else {})},
            raise_on_error=False,
        )
        if any(_is_interruption(event) for event in result.all_events if event.event_type_value == "STEP_FAILURE"):
            raise KeyboardInterrupt  # Dagster has recorded it; nothing after it may run
        failures = {
            event.step_key: _failure(event) for event in result.all_events if event.event_type_value == "STEP_FAILURE"
        }
        done = {
            event.asset_key.to_user_string(): event
            for event in result.get_asset_materialization_events()
            if event.asset_key is not None
        }
        seconds = {
            event.step_key: event.step_success_data.duration_ms / 1_000
            for event in result.all_events
            if event.event_type_value == "STEP_SUCCESS"
        }
        for asset in assets:
            if asset in failures:
                yield Outcome(asset, dataset, "refused", failures[asset], time.monotonic() - began)
            elif asset in done:
                ended = _text(done[asset], ENDED_EARLY)
                rows = f"{_rows(done[asset])}, ended early" if ended else _rows(done[asset])
                yield Outcome(asset, dataset, "materialised", rows, seconds[asset], ended)
            else:
                stopper = next(iter(failures), "the run")
                yield Outcome(asset, dataset, "not reached", f"{stopper} did not succeed")


def _assets_until(until: str | None) -> frozenset[str]:
    graph = the_definitions().resolve_asset_graph()
    names = {key.to_user_string() for key in graph.get_all_asset_keys()}
    if until is None:
        return frozenset(names)
    if until not in names:
        raise RunRefused(f"there is no asset {until!r}; there are {', '.join(sorted(names))}")
    upstream = dg.AssetSelection.assets(until).upstream().resolve(graph)
    return frozenset(key.to_user_string() for key in upstream)


def _known_datasets(asked: Sequence[str]) -> list[str]:
    known = DATASETS.get_partition_keys()
    for name in asked:
        if name not in known:
            raise RunRefused(f"there is no dataset {name!r} in {Settings().datasets_file}; it has {', '.join(known)}")
    return [name for name in known if name in asked] if asked else list(known)


def _instance() -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME; where that is not set, the repository's, or else one under the home."""
    if "DAGSTER_HOME" not in os.environ:
        repository = Path.cwd() / "dagster_home"
        folder = repository if (repository / "dagster.yaml").is_file() else Home(Settings().home).root / "dagster"
        if not (folder / "dagster.yaml").is_file():
            write_atomically(folder / "dagster.yaml", b"telemetry:\n  enabled: false\n")
        os.environ["DAGSTER_HOME"] = str(folder)
    return dg.DagsterInstance.get()


def _failure(event: dg.DagsterEvent) -> str:
    """The sentence of a refusal; of an unforeseen error what raised it, whose trace is on the run page."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return " ".join(error.message.split()) if error is not None else "failed"


def _is_interruption(event: dg.DagsterEvent) -> bool:
    error = event.step_failure_data.error
    return error is not None and error.cls_name in ("DagsterExecutionInterruptedError", "KeyboardInterrupt")


def _text(event: dg.DagsterEvent, name: str) -> str | None:
    entry = event.materialization.metadata.get(name)
    return str(entry.value) if entry is not None else None


def _rows(event: dg.DagsterEvent) -> str:
    rows = event.materialization.metadata.get("dagster/row_count")
    return f"{rows.value} rows" if rows is not None and rows.value else "done"
