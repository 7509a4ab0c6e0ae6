"""The real `dagster dev` with its daemon, on a free port, driven by GraphQL; it ends for certain."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300  # seconds; for a machine with much else to do
ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
REPOSITORY_SELECTOR = {"repositoryLocationName": "eagle_assets", "repositoryName": "__repository__"}

T = TypeVar("T")


class DagsterDev:
    """A client of one running server."""

    def __init__(self, url: str, log: Path, environment: Mapping[str, str]) -> None:
        self.url, self.log = url, log
        self._environment = environment
        self._client = httpx.Client(base_url=url, timeout=60)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The one answer to a query; raises AssertionError where it is an error of Dagster's."""
        answer = self._client.post("/graphql", json={"query": query, "variables": variables}).json()
        assert "errors" not in answer, answer["errors"]
        (data,) = answer["data"].values()
        assert not (isinstance(data, dict) and "message" in data), data["message"]
        return data

    def is_loaded(self) -> bool:
        try:
            location = self.ask(_LOCATION)
        except (httpx.TransportError, ValueError):
            return False
        assert location["__typename"] != "PythonError", location
        entry = location.get("locationOrLoadError") or {}
        assert entry.get("__typename") != "PythonError", entry
        return entry.get("__typename") == "RepositoryLocation"

    def launch(self, assets: list[str], partition: str | None = None, checks: list[Any] | None = None) -> str:
        """Launch what the UI's button launches; `checks` of [] leaves the checks out. Returns the run's id."""
        tags = [{"key": "dagster/partition", "value": partition}] if partition else []
        selector = {
            **REPOSITORY_SELECTOR,
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": [asset]} for asset in assets],
            "assetCheckSelection": checks,
        }
        parameters = {
            "selector": selector,
            "mode": "default",
            "runConfigData": {},
            "executionMetadata": {"tags": tags},
        }
        return self.ask(_LAUNCH, p=parameters)["run"]["runId"]

    def run(self, run_id: str) -> dict[str, Any]:
        return self.ask(_RUN, id=run_id)

    def ended(self, run_id: str) -> dict[str, Any]:
        """The run once it has ended."""
        return wait_for(lambda: found if (found := self.run(run_id))["status"] in ENDED else None, f"run {run_id}")

    def command(self, *words: str) -> str:
        """What `dagster` says on the command line, under the same DAGSTER_HOME."""
        command = [str(Path(sys.executable).with_name("dagster")), *words]
        done = subprocess.run(command, cwd=REPOSITORY, env=self._environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def runs_with(self, **tags: str) -> list[dict[str, Any]]:
        found = self.ask(_RUNS, f={"tags": [{"key": k.replace("__", "/"), "value": v} for k, v in tags.items()]})
        return found["results"]

    def failure(self, run_id: str, asset: str) -> str:
        """The sentence that is on the run page of an asset that was refused."""
        events = self.ask(_EVENTS, id=run_id)["events"]
        failures = [e for e in events if e["__typename"] == "ExecutionStepFailureEvent" and e["stepKey"] == asset]
        return failures[0]["failureMetadata"]["description"]

    def messages(self, run_id: str) -> list[str]:
        return [event["message"] for event in self.ask(_EVENTS, id=run_id)["events"] if "message" in event]


def wait_for(look: Callable[[], T | None], what: str, seconds: float = PATIENCE) -> T:
    """What `look` gives, as soon as it gives something."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.25)
    raise AssertionError(f"{what}: nothing came of it within {seconds} seconds")


@contextmanager
def running_dagster_dev(folder: Path, environment: Mapping[str, str]) -> Iterator[DagsterDev]:
    """Serve with the committed dagster.yaml and a storage of its own in `folder`."""
    home = folder / "dagster_home"
    home.mkdir()
    shutil.copy(REPOSITORY / "dagster_home" / "dagster.yaml", home)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "dagster_dev.log"
    command = [str(Path(sys.executable).with_name("dagster")), "dev", "--host", "127.0.0.1", "--port", str(port)]
    complete = {**os.environ, **environment, "DAGSTER_HOME": str(home), "PYTHONWARNINGS": "ignore"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=complete,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    try:
        dev = DagsterDev(f"http://127.0.0.1:{port}", log, complete)
        try:
            wait_for(dev.is_loaded, "the code location")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-4_000:]}") from None
        yield dev
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started, which are a session of their own."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=20)
    for member in _session(process.pid):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not _session(process.pid), "the end of dagster dev", 10)


def _session(leader: int) -> list[int]:
    """Processes of a session that are still at work."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(") ")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return found


def _end_with_parent() -> None:
    """End also where the tests themselves are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


_LOCATION = """{workspaceLocationEntryOrError(name: "eagle_assets") {
  __typename ... on PythonError {message}
  ... on WorkspaceLocationEntry {locationOrLoadError {__typename ... on PythonError {message}}}}}"""
_LAUNCH = """mutation($p: ExecutionParams!) {launchRun(executionParams: $p) {
  ... on LaunchRunSuccess {run {runId}} ... on Error {message}
  ... on RunConfigValidationInvalid {errors {message}}}}"""
_RUN = """query($id: ID!) {runOrError(runId: $id) {
  ... on Run {runId status stepStats {stepKey status} tags {key value}} ... on Error {message}}}"""
_RUNS = """query($f: RunsFilter) {runsOrError(filter: $f) {
  ... on Runs {results {runId status tags {key value}}} ... on Error {message}}}"""
_EVENTS = """query($id: ID!) {logsForRun(runId: $id) {
  ... on EventConnection {events {__typename ... on MessageEvent {message stepKey}
    ... on ExecutionStepFailureEvent {failureMetadata {description}}}}
  ... on Error {message}}}"""
