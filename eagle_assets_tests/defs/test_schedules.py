"""What a tick requests, and every reason why it requests nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml

from eagle_assets.configuration import load_configuration
from eagle_assets.defs.graph import the_definitions
from eagle_assets.defs.resources import Project
from eagle_assets.defs.schedules import datasets_changed, schedules_of
from eagle_assets.lake.audit import Check, require
from eagle_assets.lake.home import Home
from eagle_assets.lake.queries import run_query
from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.ledger import Ledger
from eagle_assets_tests.defs.conftest import QUESTIONS, Place, write_datasets, write_prompts

THREE = datetime(2026, 12, 1, 3, tzinfo=UTC)
MORE_QUESTIONS = (*QUESTIONS, "What is 2 + 2?", "What is 2 + 3?")


def tick(place: Place, at: datetime = THREE) -> dg.SkipReason | dg.RunRequest:
    """What the schedule of B3 says at its tick."""
    (schedule,) = schedules_of(load_configuration(place.folder / "datasets.yaml"))
    definitions = dg.Definitions.merge(
        dg.Definitions(schedules=[schedule]),
        dg.Definitions(assets=the_definitions().assets, resources={"project": Project()}),
    )
    context = dg.build_schedule_context(
        scheduled_execution_time=at,
        repository_def=definitions.get_repository_def(),
        resources={"project": Project()},
    )
    data = schedule.evaluate_tick(context)
    return data.run_requests[0] if data.run_requests else dg.SkipReason(data.skip_message)


def skipped(place: Place) -> str:
    result = tick(place)
    assert isinstance(result, dg.SkipReason), result
    return result.skip_message or ""


@pytest.fixture
def wanting(place: Place) -> Place:
    """Two prompts of B3 have no answer yet."""
    write_prompts(place.folder / "B3.jsonl", MORE_QUESTIONS)
    write_datasets(place.folder, cron="0 3 * * *", limit_per_tick=1, budget_usd_per_tick=0.5)
    return place


def test_a_tick_requests_its_partition_with_its_limits_and_the_same_key_again(wanting: Place) -> None:
    first, again, later = tick(wanting), tick(wanting), tick(wanting, THREE.replace(hour=4))
    assert isinstance(first, dg.RunRequest)
    assert first.partition_key == "B3"
    assert first.run_config == {"ops": {"raw_responses": {"config": {"max_requests": 1, "max_usd": 0.5}}}}
    assert first.tags.items() >= {"dataset": "B3", "max_requests": "1", "max_usd": "0.5"}.items()
    assert first.run_key == again.run_key != later.run_key


def test_the_run_that_a_tick_requests_asks_no_more_than_its_limit(wanting: Place) -> None:
    before = require(wanting.home, "raw_responses", "B3").audit.counts["answers"]
    request = tick(wanting)
    assert isinstance(request, dg.RunRequest)
    with wanting.instance() as instance:
        job = the_definitions().resolve_job_def("collect_dataset")
        result = job.execute_in_process(
            run_config=request.run_config, partition_key="B3", instance=instance, tags=dict(request.tags)
        )
    assert result.success
    after = require(wanting.home, "raw_responses", "B3").audit.counts
    assert (after["answers"], after["not_asked_yet"]) == (before + 1, 1)
    assert isinstance(tick(wanting), dg.RunRequest)


def test_nothing_is_missing(place: Place) -> None:
    write_datasets(place.folder, cron="0 3 * * *")
    assert skipped(place) == "nothing is missing: every prompt of B3 has an answer, and its shards are current"


def test_answers_that_are_not_in_the_shards_yet_are_due(place: Place) -> None:
    write_datasets(place.folder, cron="0 3 * * *")
    place.home.audit("training_shards", "B3").unlink()
    assert isinstance(tick(place), dg.RunRequest)


def test_a_failed_audit_waits_for_a_person(place: Place) -> None:
    write_datasets(place.folder, cron="0 3 * * *")
    with new_version(place.home, "token_sequences", "B3") as version:
        version.audit([Check("counts_close", False, "2 do not")])
    assert "counts_close failed: 2 do not" in skipped(place)


def test_the_budget_is_spent(wanting: Place) -> None:
    with Ledger.open(wanting.home.root, load_configuration(wanting.folder / "datasets.yaml")) as ledger:
        assert ledger.reserve("elsewhere", "B1", ledger.totals().all.left_usd)
    assert "the budget is spent: 2 prompts of B3 have no answer yet" in skipped(wanting)


def test_the_dataset_is_being_collected(wanting: Place) -> None:
    with wanting.home.locked("raw_responses", "B3"):
        assert skipped(wanting) == "B3 is being collected by another run"
    assert isinstance(tick(wanting), dg.RunRequest)


def test_there_is_no_key(wanting: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", " ")
    assert "OPENROUTER_API_KEY is not set" in skipped(wanting)


def test_what_is_needed_first_is_named(wanting: Place) -> None:
    wanting.home.audit("provider_calibration").unlink()
    assert skipped(wanting) == "provider_calibration has no audit; materialise it first"


@pytest.mark.parametrize("lines", ["not json\n", None])
def test_prompts_that_cannot_be_read_are_named(wanting: Place, lines: str | None) -> None:
    path = wanting.folder / "B3.jsonl"
    path.unlink() if lines is None else path.write_text(lines)
    assert "B3.jsonl" in skipped(wanting)


def test_each_bought_dataset_of_the_file_with_a_cron_has_a_schedule_that_is_off(tmp_path: Path) -> None:
    bought = {"source": "openrouter", "prompts": "p.jsonl"}
    datasets = {
        "B3": {**bought, "cron": "5 4 * * *"},
        "B-4": {**bought, "cron": "6 4 * * *", "limit_per_tick": 10, "budget_usd_per_tick": 1},
        "B5": bought,
        "B1": {"source": "local", "responses": "r.jsonl"},
    }
    (tmp_path / "datasets.yaml").write_text(yaml.safe_dump({"datasets": datasets}))
    schedules = {s.name: s for s in schedules_of(load_configuration(tmp_path / "datasets.yaml"))}
    assert {name: (s.cron_schedule, s.default_status) for name, s in schedules.items()} == {
        "collect_B3": ("5 4 * * *", dg.DefaultScheduleStatus.STOPPED),
        "collect_B_4": ("6 4 * * *", dg.DefaultScheduleStatus.STOPPED),
    }
    assert "at most 10 prompts and $1.00 at each tick" in (schedules["collect_B_4"].description or "")


def look() -> dg.SensorExecutionData:
    context = dg.build_sensor_context(
        repository_def=the_definitions().get_repository_def(), resources={"project": Project()}
    )
    return datasets_changed.evaluate_tick(context)


def publish_shards(home: Home, text: str) -> None:
    with new_version(home, "training_shards", "B3") as version:
        version.write_rows("part.parquet", TRAINING_SHARDS, [{"id": text, "input_ids": [1], "loss_mask": [1]}])
        version.audit([Check("looks_well", True, "it does")])


def test_changed_shards_make_the_vocabulary_and_the_statistics_anew_once(place: Place) -> None:
    assert look().skip_message == "the draft vocabulary and the statistics are those of the current training shards"
    publish_shards(place.home, "other")
    (first,) = look().run_requests
    (again,) = look().run_requests
    assert first.run_key == again.run_key
    with place.instance() as instance:
        job = the_definitions().resolve_job_def("conclude")
        assert job.execute_in_process(instance=instance).success
    assert look().run_requests == []
    publish_shards(place.home, "yet other")
    (later,) = look().run_requests
    assert later.run_key != first.run_key


def test_a_check_that_failed_is_told_by_the_statistics_once(place: Place) -> None:
    with new_version(place.home, "token_sequences", "B3") as version:
        version.audit([Check("looks_well", False, "it does not")])
    publish_shards(place.home, "of what was good before")
    (asked,) = look().run_requests
    with place.instance() as instance:
        assert the_definitions().resolve_job_def("conclude").execute_in_process(instance=instance).success
    assert "looks_well" in {row["name"] for row in run_query(place.home, "failed_checks").as_objects()}
    assert look().run_requests == []
    with new_version(place.home, "raw_responses", "B3") as version:
        version.audit([Check("looks_well", False, "nor this")])
    (again,) = look().run_requests
    assert again.run_key != asked.run_key


def test_without_shards_there_is_nothing_to_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE_ASSETS_HOME", str(tmp_path))
    assert look().skip_message == "no training shards may be read yet"
