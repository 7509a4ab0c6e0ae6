import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from eagle_assets.cli import main
from eagle_assets.openrouter.ledger import Ledger, ledger_path


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    datasets = tmp_path / "datasets.yaml"
    datasets.write_text(
        "budget_usd: 10\ndatasets:\n  B3: {source: openrouter, prompts: p.jsonl, budget_usd: 4}\n"
        "  B4: {source: openrouter, prompts: p.jsonl}\n  B1: {source: local, responses: r.jsonl}\n"
    )
    monkeypatch.setenv("EAGLE_ASSETS_DATASETS", str(datasets))
    monkeypatch.setenv("EAGLE_ASSETS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_budget_works_before_anything_was_spent_and_makes_nothing(environment: Path) -> None:
    result = CliRunner().invoke(main, ["budget", "--json"])
    assert result.exit_code == 0
    shown = json.loads(result.output)
    assert (shown["spent_usd"], shown["reserved_usd"], shown["left_usd"]) == (0, 0, 10)
    assert {name: d["left_usd"] for name, d in shown["datasets"].items()} == {"B3": 4, "B4": 10}
    assert not environment.exists()


def test_budget_shows_spent_reserved_and_left(environment: Path) -> None:
    with Ledger(ledger_path(environment), 10.0, {}) as book:
        book.reserve("a", "B3", 1.0)
        book.settle("a", 0.25)
        book.reserve("b", "B4", 2.0)
        book.reserve("c", "B4", 0.5)
        book.settle("c", None)
    shown = json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)
    assert (shown["spent_usd"], shown["reserved_usd"], shown["left_usd"]) == (0.75, 2, 7.25)
    assert (shown["unsettled_usd"], shown["unsettled"]) == (0.5, 1)
    assert shown["fee_usd"] == pytest.approx(0.75 * 0.055)
    assert shown["datasets"]["B3"] == {
        "spent_usd": 0.25,
        "reserved_usd": 0,
        "left_usd": 3.75,
        "unsettled_usd": 0,
        "unsettled": 0,
        "fee_usd": 0.01375,
        "requests": 1,
        "prompt_tokens": 0,
        "completion_tokens": 0,
    }
    table = CliRunner().invoke(main, ["budget"]).output
    assert "0.7500" in table
    assert "1 request" in table


def test_budget_names_a_wrong_datasets_file_in_one_sentence(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE_ASSETS_DATASETS", str(environment / "none.yaml"))
    result = CliRunner().invoke(main, ["budget"])
    assert result.exit_code == 1
    assert "does not exist" in result.output
    assert "Traceback" not in result.output
