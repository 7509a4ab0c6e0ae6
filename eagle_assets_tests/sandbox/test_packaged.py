"""The packaged datasets: a configuration that loads, prompts that can be sent, local ids that can be made again."""

import json

import pytest

from eagle_assets.configuration import PACKAGED_DATASETS_FILE, load_configuration
from eagle_assets.openrouter.requests import read_prompts
from eagle_assets.sandbox.local import LOCAL_DATASETS, local_rows
from eagle_assets.sandbox.server import problem_with
from eagle_assets.targets.kimi import target_named
from eagle_assets_tests.sandbox.packaged import packaged_requests

CONFIGURATION = load_configuration(PACKAGED_DATASETS_FILE)


def test_the_datasets_file():
    assert list(CONFIGURATION.datasets) == ["B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8"]
    assert CONFIGURATION.budget_usd == 100
    assert CONFIGURATION.target == target_named(CONFIGURATION.target).name
    assert sum(dataset.budget_usd for dataset in CONFIGURATION.bought.values()) <= CONFIGURATION.budget_usd
    assert len({dataset.cron for dataset in CONFIGURATION.bought.values()}) == len(CONFIGURATION.bought)
    assert all(dataset.limit_per_tick for dataset in CONFIGURATION.bought.values())


@pytest.mark.parametrize("name", CONFIGURATION.bought)
def test_prompts_are_enough_and_can_be_sent(name):
    prompts = read_prompts(CONFIGURATION.bought[name].prompts)
    assert len(prompts) >= 30
    assert len({json.dumps(prompt.messages) for prompt in prompts}) == len(prompts)
    assert not any(problem_with(request) for request in packaged_requests(name))


@pytest.mark.parametrize("name", LOCAL_DATASETS)
def test_local_responses_are_what_the_model_generates(name):
    """Where this fails: `python -m eagle_assets.sandbox.local` writes them anew."""
    lines = CONFIGURATION.local[name].responses.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows == list(local_rows(name))
    assert len(rows) == 30
    assert {row["finish_reason"] for row in rows} == {"stop", "length"}
