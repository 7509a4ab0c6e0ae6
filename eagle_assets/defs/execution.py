"""One Dagster run in this process: some assets of one dataset, and what became of each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dagster as dg

from eagle_assets.configuration import Settings
from eagle_assets.defs.graph import the_definitions
from eagle_assets.defs.outcomes import Group, Outcome
from eagle_assets.defs.presentation import ENDED_EARLY
from eagle_assets.durability import write_atomically
from eagle_assets.lake.home import Home

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def execute(group: Group, instance: dg.DagsterInstance) -> Iterator[Outcome]:
    """Materialise a group. Raises KeyboardInterrupt where the run was interrupted, once Dagster has recorded that."""
    began = time.monotonic()
    result = _job().execute_in_process(
        instance=instance,
        partition_key=group.dataset,
        asset_selection=[dg.AssetKey(asset) for asset in group.assets],
        run_config={**QUIET, **group.config},
        raise_on_error=False,
    )
    failed = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    if any(map(_is_interruption, failed)):
        raise KeyboardInterrupt
    failures = {event.step_key: _failure(event) for event in failed}
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
    for asset in group.assets:
        if asset in failures:
            yield Outcome(asset, group.dataset, "refused", failures[asset], time.monotonic() - began)
        elif asset in done:
            ended = _text(done[asset], ENDED_EARLY)
            rows = f"{_rows(done[asset])}, ended early" if ended else _rows(done[asset])
            yield Outcome(asset, group.dataset, "materialised", rows, seconds[asset], ended)
        else:
            stopper = next(iter(failures), "the run")
            yield Outcome(asset, group.dataset, "not reached", f"{stopper} did not succeed")


def all_assets() -> frozenset[str]:
    """The names of the assets of the lineage."""
    return frozenset(key.to_user_string() for key in the_definitions().resolve_asset_graph().get_all_asset_keys())


def assets_until(asset: str) -> frozenset[str]:
    """An asset and all that it is made from."""
    graph = the_definitions().resolve_asset_graph()
    return frozenset(key.to_user_string() for key in dg.AssetSelection.assets(asset).upstream().resolve(graph))


def the_instance() -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME; where that is not set, the repository's, or else one under the home."""
    if "DAGSTER_HOME" not in os.environ:
        repository = Path.cwd() / "dagster_home"
        folder = repository if (repository / "dagster.yaml").is_file() else Home(Settings().home).root / "dagster"
        if not (folder / "dagster.yaml").is_file():
            write_atomically(folder / "dagster.yaml", b"telemetry:\n  enabled: false\n")
        os.environ["DAGSTER_HOME"] = str(folder)
    return dg.DagsterInstance.get()


@cache
def _job() -> dg.JobDefinition:
    return the_definitions().resolve_implicit_global_asset_job_def()


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
