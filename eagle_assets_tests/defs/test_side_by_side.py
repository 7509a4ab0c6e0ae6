"""Datasets side by side: in processes of their own, which an interruption reaches and which end with the first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
import yaml

from eagle_assets.configuration import load_configuration
from eagle_assets.defs.graph import the_definitions
from eagle_assets.defs.resources import Project
from eagle_assets.defs.schedules import killed_runs
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_reader import journal_folder
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.sandbox.faults import Faults
from eagle_assets.sandbox.process import running_sandbox
from eagle_assets_tests.defs.conftest import QUESTIONS, Place, pointing_to, write_prompts

BOUGHT = ("B4", "B5")


@pytest.fixture
def stalling(place: Place, tmp_path: Path) -> Iterator[Place]:
    """A place with two datasets more, which are still to be bought, from providers that stop in the middle."""
    datasets_file = place.folder / "datasets.yaml"
    content = yaml.safe_load(datasets_file.read_text())
    for name in BOUGHT:
        write_prompts(place.folder / f"{name}.jsonl", QUESTIONS)
        content["datasets"][name] = {**content["datasets"]["B3"], "prompts": f"{name}.jsonl"}
    datasets_file.write_text(yaml.safe_dump(content))
    with running_sandbox(tmp_path / "truth.jsonl", faults=Faults(stall=1)) as base_url:
        yield Place(place.folder, pointing_to(place.folder, base_url))


@contextmanager
def running(place: Place, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "eagle_assets.cli", "run", *arguments]
    environment = {**os.environ, **place.environment, "DAGSTER_HOME": str(place.folder / "dagster")}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, cwd=place.folder) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(what: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.1)


def in_flight(place: Place) -> bool:
    """Whether each dataset has all of its questions under way."""
    with Ledger.open(place.home.root, load_configuration(place.folder / "datasets.yaml")) as ledger:
        return all(len(ledger.reserved(name)) == len(QUESTIONS) for name in BOUGHT)


def processes_of(place: Place) -> list[int]:
    """Processes that `running` started, and theirs."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:  # it has just ended
                continue
            if f"DAGSTER_HOME={place.folder / 'dagster'}\0".encode() in environment:
                found.append(int(folder.name))
    return found


def test_two_datasets_are_made_in_two_processes(place: Place) -> None:
    with running(place, "B1", "B3", "--until", "token_sequences") as run:
        shown, problems = run.communicate(timeout=120)
    assert run.returncode == 0, problems
    assert [line.split()[1:3] for line in shown.splitlines() if "token_sequences" in line and "B" in line]
    with place.instance() as instance:
        records = instance.get_run_records(limit=3)
        logs = [instance.all_logs(r.dagster_run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT) for r in records]
    pids = {
        value.value
        for log in logs
        for entry in log
        if entry.dagster_event is not None and entry.dagster_event.engine_event_data is not None
        for name, value in entry.dagster_event.engine_event_data.metadata.items()
        if name == "pid"
    }
    assert len(pids - {str(run.pid), run.pid}) == 2


def test_an_interruption_reaches_all_collections_and_what_is_in_flight_is_kept(stalling: Place) -> None:
    with running(stalling, *BOUGHT, "--until", "raw_responses") as run:
        wait_for(lambda: in_flight(stalling))
        run.send_signal(signal.SIGINT)
        _, problems = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "Traceback" not in problems
    wait_for(lambda: processes_of(stalling) == [], seconds=5)
    with Ledger.open(stalling.home.root, load_configuration(stalling.folder / "datasets.yaml")) as ledger:
        assert [ledger.reserved(name) for name in BOUGHT] == [[], []]
    for name in BOUGHT:
        with Journal.open(journal_folder(stalling.home.root, name)) as journal:
            records = list(journal.read())
        assert len(records) == len(QUESTIONS)
        assert all(str(r.exchange.transport_error).startswith("cancelled") for r in records)


def test_a_lane_that_is_killed_is_a_refusal_and_the_next_run_goes_on(stalling: Place) -> None:
    with running(stalling, *BOUGHT, "--until", "raw_responses") as run:
        wait_for(lambda: in_flight(stalling))
        lanes = [pid for pid in processes_of(stalling) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(lanes[0], signal.SIGKILL)
        shown, problems = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "Traceback" not in problems + shown
    refused = " ".join(shown.split("Refused")[1].split())
    assert all(f"{name} raw_responses: a process of this run was killed, as the system" in refused for name in BOUGHT)
    wait_for(lambda: processes_of(stalling) == [], seconds=5)
    for name in BOUGHT:
        with Journal.open(journal_folder(stalling.home.root, name)) as journal:
            assert len(list(journal.read())) == len(QUESTIONS)


def look_for_killed_runs(instance: dg.DagsterInstance) -> str:
    context = dg.build_sensor_context(
        instance, repository_def=the_definitions().get_repository_def(), resources={"project": Project()}
    )
    return killed_runs.evaluate_tick(context).skip_message or ""


def test_no_process_outlives_a_run_that_was_killed_and_no_run_waits_for_it(stalling: Place) -> None:
    started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    with running(stalling, *BOUGHT, "--until", "raw_responses") as run, stalling.instance() as instance:
        wait_for(lambda: in_flight(stalling))
        under_way = {r.run_id for r in instance.get_runs(started)}
        assert look_for_killed_runs(instance) == "every run that is under way has its process"
        run.send_signal(signal.SIGKILL)
        wait_for(lambda: processes_of(stalling) == [], seconds=20)
        assert len(under_way) == 2
        assert {r.run_id for r in instance.get_runs(started)} == under_way  # Dagster itself does not notice
        said = look_for_killed_runs(instance)
        assert said.startswith("ended ")
        assert all(run_id in said for run_id in under_way)
        assert {r.status for r in instance.get_runs(dg.RunsFilter(list(under_way)))} == {dg.DagsterRunStatus.FAILURE}
        assert look_for_killed_runs(instance) == "every run that is under way has its process"
