"""The product as a person uses it: a server with its daemon, a button, a schedule, a backfill, a stop, a kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import yaml

from eagle_assets.configuration import load_configuration
from eagle_assets.lake.audit import read_record, require
from eagle_assets.lake.home import Home
from eagle_assets.openrouter.journal_reader import open_journal
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets.sandbox.process import running_sandbox
from eagle_assets_tests.defs.browser import find_browser
from eagle_assets_tests.defs.conftest import pointing_to, write_local_responses, write_prompts
from eagle_assets_tests.defs.dagster_dev import ENDED, REPOSITORY_SELECTOR, DagsterDev, running_dagster_dev, wait_for

OF_A_DATASET = ["prompts", "raw_responses", "token_sequences", "training_shards"]
LIMIT = 3


@dataclass(frozen=True)
class Server:
    dev: DagsterDev
    folder: Path

    @property
    def home(self) -> Home:
        return Home(self.folder / "home")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """B3 and B5 are bought, the others local; the answers of B2 and B6 say something else than their ids."""
    folder = tmp_path_factory.mktemp("dev")
    for name in ("B1", "B4", "B7"):
        write_local_responses(folder / f"{name}.jsonl", [f"It is {n}." for n in range(3)])
    for name in ("B2", "B6"):
        write_local_responses(folder / f"{name}.jsonl", ["It is 7.", "It is 8.", "It is 9."])
    write_prompts(folder / "B3.jsonl", tuple(f"What is {n} + {n}?" for n in range(20)))
    write_prompts(folder / "B5.jsonl", tuple(f"What is {n} × 7?" for n in range(600)))
    bought = {"source": "openrouter", "max_tokens": 512}
    datasets: dict[str, Any] = {
        **{name: {"source": "local", "responses": f"{name}.jsonl"} for name in ("B1", "B2", "B4", "B6", "B7")},
        "B3": {**bought, "prompts": "B3.jsonl", "cron": "* * * * *", "limit_per_tick": LIMIT},
        "B5": {**bought, "prompts": "B5.jsonl"},
    }
    content = {"routing": {"only": ["meridian"]}, "concurrency": 2, "datasets": datasets}
    (folder / "datasets.yaml").write_text(yaml.safe_dump(content))
    with (
        running_sandbox(folder / "truth.jsonl") as base_url,
        running_dagster_dev(folder, pointing_to(folder, base_url)) as dev,
    ):
        made = Server(dev, folder)
        run = dev.launch(["tokenizer_report", "provider_calibration", "run_statistics"])
        assert dev.ended(run)["status"] == "SUCCESS", dev.messages(run)
        dev.ask(_START_SCHEDULE, s={**REPOSITORY_SELECTOR, "scheduleName": "collect_B3"})
        yield made


READER = """
import os, sys, time, duckdb
path, stop = sys.argv[1:]
seen = set()
while not os.path.exists(stop):
    with duckdb.connect(path, read_only=True) as connection:
        audits = connection.sql("SELECT count(*) FROM audits").fetchall()[0][0]
        rows = connection.sql("SELECT count(*), count(DISTINCT dataset) FROM token_sequences").fetchall()[0]
        connection.sql("SELECT * FROM verdicts JOIN tokens USING (dataset)").fetchall()
        ledger = connection.sql("SELECT count(*) FROM ledger WHERE dataset IS NULL").fetchall()[0][0]
    assert ledger == 1, "half a catalogue"
    seen.add(audits)
    time.sleep(0.05)
print(len(seen))
"""


def failed_datasets(home: Home) -> set[str]:
    if not home.catalogue.is_file():
        return set()
    found = subprocess.run(
        [str(Path(sys.executable).with_name("eagle-assets")), "query", "failed_checks", "--json"],
        env={**os.environ, "EAGLE_ASSETS_HOME": str(home.root)},
        capture_output=True,
        check=True,
    )
    return {row["dataset"] for row in json.loads(found.stdout)}


def test_a_backfill_of_three_partitions_of_which_one_is_bad_while_others_read(server: Server) -> None:
    dev, home = server.dev, server.home
    stop = server.folder / "stop"
    readers = [
        subprocess.Popen([sys.executable, "-c", READER, str(home.catalogue), str(stop)], stdout=PIPE, stderr=PIPE)
        for _ in range(3)
    ]
    try:
        selection = [{"path": [asset]} for asset in OF_A_DATASET]
        parameters = {"assetSelection": selection, "partitionNames": ["B1", "B2", "B4"], "title": "three"}
        backfill = dev.ask(_BACKFILL, p=parameters)["backfillId"]
        ended = wait_for(
            lambda: found if (found := dev.ask(_BACKFILL_STATUS, b=backfill))["status"] not in _UNDER_WAY else None,
            "the backfill",
        )
        # The sensor makes the statistics anew, also for those who read them now, until they tell of the bad one.
        wait_for(lambda: failed_datasets(home) == {"B2"}, "statistics that tell of the failed check")
        wait_for(
            lambda: any(r["status"] == "SUCCESS" for r in dev.runs_with(dagster__sensor_name="datasets_changed")),
            "the end of the sensor's run, which is noted after the statistics are there",
        )
    finally:
        stop.touch()
        outputs = [reader.communicate(timeout=60) for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0, 0], outputs
    assert all(int(seen) > 1 for seen, _ in outputs), "a reader saw one catalogue only"

    assert ended["status"] == "COMPLETED_FAILED"
    counts = {s["assetKey"]["path"][0]: s for s in ended["assetBackfillData"]["assetBackfillStatuses"]}
    assert [counts["training_shards"][n] for n in ("numPartitionsMaterialized", "numPartitionsFailed")] == [2, 1]
    assert counts["raw_responses"]["numPartitionsMaterialized"] == 3
    bad = next(r for r in dev.runs_with(dagster__backfill=backfill) if r["status"] == "FAILURE")
    assert "contradictions_below_threshold" in dev.failure(bad["runId"], "token_sequences")
    assert dev.runs_with(dagster__parent_run_id=bad["runId"]) == []  # an audit that failed is not tried again

    node = dev.ask(_NODE, k={"path": ["token_sequences"]})
    statuses = node["assetPartitionStatuses"]
    three = {"B1", "B2", "B4"}  # the schedule of B3 ticks meanwhile
    assert (three & set(statuses["materializedPartitions"]), statuses["failedPartitions"]) == ({"B1", "B4"}, ["B2"])
    checks = {check["name"]: check for check in node["assetChecksOrError"]["checks"]}
    verdicts = checks["contradictions_below_threshold"]["partitionStatuses"]
    assert (three & set(verdicts["succeededPartitions"]), verdicts["failedPartitions"]) == ({"B1", "B4"}, ["B2"])
    (execution,) = dev.ask(_CHECK, k={"path": ["token_sequences"]}, n="contradictions_below_threshold", p="B2")
    shown = {entry["label"]: entry for entry in execution["evaluation"]["metadataEntries"]}
    assert "eagle-assets show" in shown["what to do next"]["text"]
    assert shown["contradicted"]["text"] == "3"
    record = json.loads(shown["worst offenders"]["table"]["records"][0])
    shown_now = subprocess.run(
        [str(Path(sys.executable).with_name("eagle-assets")), "show", record["exchange_id"]],
        env={**os.environ, "EAGLE_ASSETS_HOME": str(home.root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "contradicted" in shown_now.stdout
    assert "just now, because token_sequences did not pass its audit" in shown_now.stdout

    assert list(home.folder("training_shards", "B1").glob("*.parquet"))
    assert not home.folder("training_shards", "B2").exists()
    assert read_record(home, "token_sequences", "B2").published is None


def test_the_gate_cannot_be_walked_round_and_opens_when_the_data_is_mended(server: Server) -> None:
    dev, home = server.dev, server.home
    run = dev.launch(["prompts", "raw_responses", "token_sequences"], "B2")
    assert dev.ended(run)["status"] == "FAILURE"
    alone = dev.launch(["training_shards"], "B2")
    assert dev.ended(alone)["status"] == "FAILURE"
    assert "contradictions_below_threshold failed" in dev.failure(alone, "training_shards")
    with pytest.raises(AssertionError, match="DagsterInvalidSubsetError"):
        dev.launch(["training_shards"], "B2", checks=[])  # an asset and its checks are one: none can be left out
    with pytest.raises(AssertionError, match="DagsterInvalidSubsetError"):
        dev.launch(["token_sequences"], "B2", checks=[])
    write_local_responses(server.folder / "B2.jsonl", [f"It is {n}." for n in range(3)])
    mended = dev.launch(OF_A_DATASET, "B2")
    assert dev.ended(mended)["status"] == "SUCCESS", dev.messages(mended)
    assert require(home, "training_shards", "B2").audit.rows == 3


def test_the_schedule_asks_within_its_limits(server: Server) -> None:
    dev = server.dev
    run = wait_for(
        lambda: next((r for r in dev.runs_with(dagster__schedule_name="collect_B3") if r["status"] == "SUCCESS"), None),
        "a run of the schedule",
    )
    tags = dict_of(run["tags"])
    assert (tags["dataset"], tags["dagster/partition"], tags["max_requests"]) == ("B3", "B3", str(LIMIT))
    stop_the_schedule(dev)
    counts = require(server.home, "raw_responses", "B3").audit.counts
    assert counts["answers"] % LIMIT == 0
    assert require(server.home, "training_shards", "B3").audit.rows == counts["answers"]


def dict_of(tags: list[dict[str, str]]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in tags}


def stop_the_schedule(dev: DagsterDev) -> None:
    """No tick follows, and what the last one launched has ended; may be done again."""
    dev.ask(_STOP_SCHEDULE, id=dev.ask(_SCHEDULE, s={**REPOSITORY_SELECTOR, "scheduleName": "collect_B3"})["id"])
    wait_for(lambda: {run["status"] for run in dev.runs_with(dagster__partition="B3")} <= ENDED, "the end of B3's runs")


def answered(server: Server) -> int:
    return len(open_journal(server.home.root, "B5").settled())


def test_a_run_that_is_stopped_or_killed_loses_nothing_and_one_that_was_killed_is_tried_again(server: Server) -> None:
    dev = server.dev
    stopped = dev.launch(["prompts", "raw_responses"], "B5")
    wait_for(lambda: answered(server) >= 10, "answers")
    dev.ask(_TERMINATE, id=stopped)
    assert dev.ended(stopped)["status"] == "CANCELED"
    assert not open_journal(server.home.root, "B5").under_way
    with Ledger.open(server.home.root, load_configuration(server.folder / "datasets.yaml")) as ledger:
        assert ledger.reserved("B5") == []
    before = answered(server)
    assert 10 <= before < 600

    killed = dev.launch(["prompts", "raw_responses"], "B5")
    wait_for(lambda: answered(server) >= before + 10, "more answers")
    (pid,) = {int(n) for message in dev.messages(killed) for n in re.findall(r"\(pid: (\d+)\)", message)}
    os.kill(pid, signal.SIGKILL)
    assert dev.ended(killed)["status"] == "FAILURE"
    again = wait_for(lambda: dev.runs_with(dagster__parent_run_id=killed), "the run that tries again")[0]["runId"]
    assert dev.ended(again)["status"] == "SUCCESS", dev.messages(again)
    counts = require(server.home, "raw_responses", "B5").audit.counts
    assert (counts["answers"], counts["not_asked_yet"]) == (600, 0)


def test_a_browser_shows_what_a_backfill_of_the_command_line_made_and_the_partition_that_failed(
    server: Server, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dev = server.dev
    stop_the_schedule(dev)  # the page shows the latest result of a check, whichever partition it is of
    said = dev.command("job", "backfill", "-j", "collect_dataset", "--partitions", "B7", "--noprompt")
    (backfill,) = re.findall(r"Launched backfill job `(\w+)`", said)
    (run,) = wait_for(lambda: dev.runs_with(dagster__backfill=backfill), "the run of the backfill")
    assert (dict_of(run["tags"])["dagster/partition"], dev.ended(run["runId"])["status"]) == ("B7", "SUCCESS")
    assert dev.ended(dev.launch(OF_A_DATASET, "B6"))["status"] == "FAILURE"
    browser = find_browser(tmp_path)
    if browser is None:
        warnings.warn("no browser: there is no Chromium and npm gives none; the pages were not looked at", stacklevel=1)
        return
    pictures = tmp_path_factory.mktemp("screenshots")
    assets = {"training_shards", "draft_vocabulary", "run_statistics"}
    url = f"{dev.url}/locations/eagle_assets/asset-groups/training/lineage"
    lineage = browser.page(url, assets, pictures / "lineage.png")
    assert assets <= set(re.findall(r"[a-z]+_[a-z]+", lineage))
    plot, verdict = "data:image/svg+xml;base64,", "consistent"
    url = f"{dev.url}/assets/token_sequences?view=partitions&partition=B7"
    page = browser.page(url, (plot, verdict), pictures / "asset.png", 3_000)
    assert plot in page
    assert verdict in page
    result, why = "Failed", "3 of 3 usable answers are contradicted"
    url = f"{dev.url}/assets/token_sequences?view=checks&checkDetail=contradictions_below_threshold"
    page = browser.page(url, (result, why), pictures / "checks.png")
    assert result in page
    assert why in page
    assert all(path.stat().st_size > 20_000 for path in pictures.iterdir())
    print(f"screenshots lie in {pictures}")


_UNDER_WAY = {"REQUESTED", "CANCELING", "COMPLETING", "FAILING"}
_BACKFILL = """mutation($p: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $p) {
  ... on LaunchBackfillSuccess {backfillId} ... on Error {message}}}"""
_BACKFILL_STATUS = """query($b: String!) {partitionBackfillOrError(backfillId: $b) {
  ... on PartitionBackfill {status assetBackfillData {assetBackfillStatuses {
    ... on AssetPartitionsStatusCounts {assetKey {path} numPartitionsMaterialized numPartitionsFailed}}}}
  ... on Error {message}}}"""
_NODE = """query($k: AssetKeyInput!) {assetNodeOrError(assetKey: $k) {... on AssetNode {
  assetPartitionStatuses {... on DefaultPartitionStatuses {materializedPartitions failedPartitions}}
  assetChecksOrError {... on AssetChecks {checks {name blocking partitionStatuses {
    ... on AssetCheckDefaultPartitionStatuses {succeededPartitions failedPartitions}}}}}}}}"""
_CHECK = """query($k: AssetKeyInput!, $n: String!, $p: String) {
  assetCheckExecutions(assetKey: $k, checkName: $n, limit: 1, partition: $p) {status evaluation {success
    metadataEntries {label ... on IntMetadataEntry {intValue} ... on TextMetadataEntry {text}
      ... on TableMetadataEntry {table {records}}}}}}"""
_START_SCHEDULE = """mutation($s: ScheduleSelector!) {startSchedule(scheduleSelector: $s) {
  ... on ScheduleStateResult {scheduleState {status}} ... on Error {message}}}"""
_SCHEDULE = """query($s: ScheduleSelector!) {scheduleOrError(scheduleSelector: $s) {
  ... on Schedule {id} ... on Error {message}}}"""
_STOP_SCHEDULE = """mutation($id: String!) {stopRunningSchedule(id: $id) {
  ... on ScheduleStateResult {scheduleState {status}} ... on Error {message}}}"""
_TERMINATE = """mutation($id: String!) {terminateRun(runId: $id, terminatePolicy: SAFE_TERMINATE) {
  ... on TerminateRunSuccess {run {runId}} ... on Error {message}}}"""
