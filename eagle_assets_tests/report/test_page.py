"""The page stands by itself, shows what the home holds, and lets nothing that a server wrote become part of it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eagle_assets.cli import main
from eagle_assets.lake.audit import Check
from eagle_assets.lake.catalogue import LedgerTotal, build_catalogue
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import PROMPTS, RAW_RESPONSES, TOKEN_FREQUENCIES, TOKEN_SEQUENCES, TRAINING_SHARDS
from eagle_assets.lake.version import new_version
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
HOSTILE = "<script>alert('x')</script><img src=http://example.com/x.png>"


class Elements(HTMLParser):
    """What a browser would see: tags with what they refer to, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data


def publish(home: Home, stage: str, schema: Any, rows: list[dict[str, Any]], dataset: str | None = "B3") -> None:
    with new_version(home, stage, dataset, "run") as version:
        version.write_rows("part.parquet", schema, rows)
        version.audit([Check("looks_well", True, "it does")])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    datasets = "{B3: {source: openrouter, prompts: p.jsonl, budget_usd: 4}, B4: {source: openrouter, prompts: p.jsonl}}"
    (tmp_path / "datasets.yaml").write_text(f"budget_usd: 10\ndatasets: {datasets}\n")
    monkeypatch.setenv("EAGLE_ASSETS_DATASETS", str(tmp_path / "datasets.yaml"))
    monkeypatch.setenv("EAGLE_ASSETS_HOME", str(tmp_path / "home"))
    made = Home(tmp_path / "home")
    ids = TARGET.vocabulary.encode(f"It is 42. {HOSTILE}")
    rival = TARGET.vocabulary.encode(f" It is 42. {HOSTILE}")
    rows = [
        {
            "exchange_id": "gen-good",
            "verdict": "consistent",
            "provider": "Chutes",
            "output_ids": ids,
            "candidates": "[]",
        },
        {
            "exchange_id": "gen-bad",
            "verdict": "contradicted",
            "provider": HOSTILE,
            "output_ids": ids,
            "reasons": ["count_mismatch: +1"],
            "candidates": json.dumps([{"output_ids": rival, "convention": "verbatim", "count_difference": 0}]),
        },
    ]
    evidence = '{"convention": "blanks round added tokens", "count_difference": 0, "residual_error": 0.0123}'
    sequences = [
        {"dataset": "B3", "reasons": [], "evidence": evidence, "candidates": "[]", "cost_usd": 0.5, **row}
        for row in rows
    ]
    responses = [
        {"dataset": "B3", "exchange_id": row["exchange_id"], "provider": row["provider"], "outcome": "answered"}
        for row in rows
    ]
    publish(made, "prompts", PROMPTS, [{"dataset": "B3", "prompt_id": "p"}])
    publish(made, "raw_responses", RAW_RESPONSES, [{**row, "cost_usd": 0.5} for row in responses])
    publish(made, "token_sequences", TOKEN_SEQUENCES, sequences)
    publish(
        made, "training_shards", TRAINING_SHARDS, [{"dataset": "B3", "input_ids": ids, "loss_mask": [1] * len(ids)}]
    )
    publish(made, "draft_vocabulary", TOKEN_FREQUENCIES, [{"token": 1, "count": 9, "draft_id": 0}], None)
    for stage, schema in (("prompts", PROMPTS), ("raw_responses", RAW_RESPONSES)):
        publish(made, stage, schema, [], "B4")
    with new_version(made, "token_sequences", "B4") as version:
        version.audit([Check("counts_close", False, "2 of 3 do not")])
    build_catalogue(made, [LedgerTotal("B3", 1.0, 0.0, 3.0), LedgerTotal(None, 1.0, 0.0, 9.0)])
    return made


def written() -> str:
    result = CliRunner().invoke(main, ["report"])
    assert result.exit_code == 0, result.output
    return Path(result.output.strip()).read_text()


def test_it_answers_the_first_questions(home: Home) -> None:
    seen = Elements(written())
    said = " ".join(seen.text.split())
    assert "$1.00 spent of $10.00" in said
    assert "50% of them trusted" in said
    assert "Chutes: 1 of 1 responses are trusted (100.0 %)" in said
    assert "blanks round added tokens" in said
    assert "B3: tokenizer_report" not in said
    assert "counts_close failed: 2 of 3 do not.What to do: Look at the worst offenders" in said
    assert "eagle-assets show gen-bad" in said
    assert "the ids of the texts are not as many as the server counted" in said
    assert "instead of" in said
    assert seen.tags.count("svg") == 5


def test_it_stands_by_itself_and_nothing_that_a_server_wrote_is_part_of_it(home: Home) -> None:
    page = written()
    seen = Elements(page)
    assert seen.references == []
    assert not {"script", "img", "link", "iframe", "object", "base"} & set(seen.tags)
    assert not re.search(r"url\(|@import", page)
    assert "alert('x')" in seen.text  # it is shown, as text


def test_it_goes_where_it_is_told(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "monday.html"
    result = CliRunner().invoke(main, ["report", "-o", str(target)])
    assert (result.exit_code, target.is_file()) == (0, True)


def test_a_home_with_nothing_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE_ASSETS_HOME", str(tmp_path))
    result = CliRunner().invoke(main, ["report"])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "make demo" in result.output
    build_catalogue(Home(tmp_path))
    assert "0 responses with a verdict" in " ".join(Elements(written()).text.split())
