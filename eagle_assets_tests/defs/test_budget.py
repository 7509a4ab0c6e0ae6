import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from eagle_assets.cli import main
from eagle_assets.configuration import PROBES, load_configuration
from eagle_assets.defs.budget_page import before_a_run
from eagle_assets.defs.spending import spending
from eagle_assets.lake.audit import Check
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import JUDGED_SEQUENCES, TOKEN_SEQUENCES
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.endpoints import DEFAULT_PRICE
from eagle_assets.openrouter.entries import Settlement
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_reader import journal_folder
from eagle_assets.openrouter.ledger import Ledger, ledger_path
from eagle_assets.openrouter.requests import build_request, read_prompts, request_key
from eagle_assets.openrouter.written_routing import routing_path


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


def test_budget_shows_spent_reserved_and_left_and_the_fee_apart(environment: Path) -> None:
    with Ledger(ledger_path(environment), 10.0, {}) as book:
        book.reserve("a", "B3", 1.0)
        book.apply([Settlement("a", 0.25, "gen-1", "Chutes", 20, 300)])
        book.reserve("b", "B4", 2.0)
        book.reserve("c", "B4", 0.5)
        book.settle("c", None)
    shown = json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)
    assert (shown["spent_usd"], shown["reserved_usd"], shown["left_usd"]) == (0.75, 2, 7.25)
    assert (shown["unsettled_usd"], shown["unsettled"]) == (0.5, 1)
    assert (shown["fee_share"], shown["fee_usd"]) == (0.055, pytest.approx(0.75 * 0.055))
    of_b3 = shown["datasets"]["B3"]
    assert (of_b3["spent_usd"], of_b3["reserved_usd"], of_b3["left_usd"], of_b3["unsettled"]) == (0.25, 0, 3.75, 0)
    assert {name: p["completion_tokens"] for name, p in of_b3["providers"].items()} == {"Chutes": 300}
    table = CliRunner().invoke(main, ["budget"]).output
    assert "0.7500" in table
    assert "1 request" in table
    assert "5.5%" in table


def prompts_file(folder: Path, number: int) -> None:
    rows = [{"prompt_id": f"p{i}", "messages": [{"role": "user", "content": f"Say {i}."}]} for i in range(number)]
    (folder / "p.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_the_rest_is_reckoned_at_most_and_probably(environment: Path) -> None:
    prompts_file(environment.parent, 10)
    shown = json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)
    rest = shown["datasets"]["B3"]["rest"]
    assert rest["prompts"] == 10
    assert rest["at_most_usd"] > 10 * 4096 * DEFAULT_PRICE.completion
    assert 0 < rest["probably_usd"] < rest["at_most_usd"]
    assert "a guess" in rest["basis"]
    assert shown["rest"]["prompts"] == 20
    environment.mkdir()
    routing_path(environment).write_text("max_price: {completion: 1}\n")
    at_less = json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)["datasets"]["B3"]["rest"]
    assert 10 * 4096 * 1e-6 < at_less["at_most_usd"] < 0.5 * rest["at_most_usd"]
    routing_path(environment).unlink()

    configuration = load_configuration(environment.parent / "datasets.yaml")
    dataset = configuration.bought["B3"]
    with Journal.open(journal_folder(environment, "B3")) as journal, Ledger.open(environment, configuration) as book:
        for prompt in read_prompts(dataset.prompts)[:4]:
            request = build_request(prompt, dataset, configuration)
            attempt = journal.ask(f"local {prompt.prompt_id}", prompt.prompt_id, request_key(request), request)
            journal.begin(attempt, 200, [])
            journal.receive(attempt, ANSWER, 0.1)
            assert journal.end(attempt).outcome == "answered"
            book.reserve(attempt.local_id, "B3", 0.05)
            book.apply([Settlement(attempt.local_id, 0.002, None, "Chutes", 20, 300)])
    shown = json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)
    rest = shown["datasets"]["B3"]["rest"]
    assert rest["prompts"] == 6
    assert rest["probably_usd"] == pytest.approx(6 * 0.002)
    assert "4 requests" in rest["basis"]

    datasets = environment.parent / "datasets.yaml"
    datasets.write_text(datasets.read_text().replace("budget_usd: 4}", "budget_usd: 4, max_tokens: 99}"))
    said = before_a_run(spending(Home(environment), load_configuration(datasets), ["B3"]))
    assert said.startswith("10 prompts to ask")
    assert "; 4 of these prompts have an answer to another request, which is kept: their messages, params or" in said


def test_what_the_rest_costs_adds_up_where_one_budget_is_short(environment: Path) -> None:
    prompts_file(environment.parent, 1_000)
    shown = json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)
    rests = [dataset["rest"]["at_most_usd"] for dataset in shown["datasets"].values() if dataset["rest"]]
    assert rests == [4, 10]
    assert shown["rest"]["at_most_usd"] == 14
    # The columns of the table end like this in each of its rows.
    table = CliRunner().invoke(main, ["budget"]).output
    assert [row.split("│")[-3].strip() for row in table.splitlines() if row.startswith(("│ B", "│ all"))] == [
        "4.0000",
        "10.0000",
        "14.0000",
    ]


def test_a_damaged_file_is_said_in_a_sentence(environment: Path) -> None:
    with new_version(Home(environment), "token_sequences", "B3") as version:
        version.write_rows("part.parquet", TOKEN_SEQUENCES, [])
        version.audit([Check("every_sequence_has_ids", True, "all have")])
    (damaged,) = Home(environment).folder("token_sequences", "B3").glob("*.parquet")
    whole = damaged.read_bytes()
    for data in (whole[:50], whole[:-200] + b"\xff" * 192 + whole[-8:]):
        damaged.write_bytes(data)
        result = CliRunner().invoke(main, ["budget"])
        assert result.exit_code == 1
        assert result.output.startswith(f"Error: a file of {environment} is damaged (")
        assert result.output.count("\n") == 1


def test_before_a_run_its_cost_ends_at_the_budgets_and_names_the_probes(environment: Path) -> None:
    prompts_file(environment.parent, 1_000)
    configuration = load_configuration(environment.parent / "datasets.yaml")
    said = before_a_run(spending(Home(environment), configuration, ["B3"]))
    assert said.startswith("1,000 prompts to ask: $4.00 at most, $4.00 probably (a guess of 1,000 tokens")
    assert re.search(
        r"; the budget of B3 may end before all of its prompts are asked, which may cost \$\d\d\.\d\d;", said
    )
    assert said.endswith("; asking each provider a few probes first costs $0.10 at most")
    with Ledger.open(environment, configuration) as book:
        book.reserve("a", PROBES, 0.01)
        book.settle("a", 0.005)
    assert "probes" not in before_a_run(spending(Home(environment), configuration, ["B3"]))


ANSWER = (
    b'data: {"id":"gen-1","model":"moonshotai/kimi-k2.5","provider":"Chutes","choices":[{"delta":{"content":"hi"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":0.002}}\n\ndata: [DONE]\n\n'
)


def test_the_price_of_a_trusted_token_is_of_what_may_be_trained_on(environment: Path) -> None:
    with Ledger(ledger_path(environment), 10.0, {}) as book:
        for i, (usd, provider) in enumerate([(0.25, "Chutes"), (0.5, "Trimmer")]):
            book.reserve(f"r{i}", "B3", 1.0)
            book.apply([Settlement(f"r{i}", usd, None, provider, 20, 300)])
    sequences = [
        ("Chutes", "exact", [1] * 300),
        ("Chutes", "unverified", [1] * 50),
        ("Trimmer", "unverified", [1] * 300),
    ]
    with new_version(Home(environment), "token_sequences", "B3", "run") as version:
        rows = [{"provider": p, "verdict": v, "output_ids": ids, "dataset": "B3"} for p, v, ids in sequences]
        version.write_rows("part.parquet", TOKEN_SEQUENCES, rows)
        version.audit([Check("looks_well", True, "it does")])
    of_b3 = json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)["datasets"]["B3"]
    assert of_b3["trusted_tokens"] == 300
    assert of_b3["usd_per_million_trusted_tokens"] == pytest.approx(0.75 / 300 * 1e6)
    assert of_b3["providers"]["Chutes"]["usd_per_million_trusted_tokens"] == pytest.approx(0.25 / 300 * 1e6)
    assert of_b3["providers"]["Trimmer"]["usd_per_million_trusted_tokens"] is None


@pytest.mark.parametrize(
    ("judge", "judged", "trusted"), [(False, False, 3), (True, False, 3), (True, True, 5), (False, True, 3)]
)
def test_trusted_is_what_the_stage_says_that_decides_now(
    environment: Path, judge: bool, judged: bool, trusted: int
) -> None:
    if judge:
        datasets = environment.parent / "datasets.yaml"
        datasets.write_text(datasets.read_text() + "judge: {kind: sglang, base_url: 'http://gpu:1'}\n")
    stages = [("token_sequences", TOKEN_SEQUENCES, "unverified"), ("judged_sequences", JUDGED_SEQUENCES, "consistent")]
    for stage, schema, verdict in stages if judged else stages[:1]:
        rows = [
            {"provider": "Chutes", "verdict": v, "output_ids": ids, "dataset": "B3"}
            for v, ids in [("exact", [1] * 3), (verdict, [1] * 2)]
        ]
        with new_version(Home(environment), stage, "B3", "run") as version:
            version.write_rows("part.parquet", schema, rows)
            version.audit([Check("looks_well", True, "it does")])
    assert json.loads(CliRunner().invoke(main, ["budget", "--json"]).output)["trusted_tokens"] == trusted


def test_budget_names_a_wrong_datasets_file_in_one_sentence(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE_ASSETS_DATASETS", str(environment / "none.yaml"))
    result = CliRunner().invoke(main, ["budget"])
    assert result.exit_code == 1
    assert "does not exist" in result.output
    assert "Traceback" not in result.output
