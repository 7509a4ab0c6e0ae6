"""A dataset that the team's own server answers, over a real socket: collected, taken as it is, tried blind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eagle_assets.configuration import Settings, load_configuration
from eagle_assets.defs.graph import the_definitions
from eagle_assets.lake.audit import GateClosed, require
from eagle_assets.lake.home import Home
from eagle_assets.openrouter.journal_reader import open_journal
from eagle_assets.openrouter.own_server import ask_own_server
from eagle_assets.openrouter.requests import read_prompts
from eagle_assets.openrouter.timing import Timing
from eagle_assets.reconstruction.own.local import sequence_row
from eagle_assets.sandbox.process import running_sandbox
from eagle_assets_tests.defs.conftest import QUESTIONS, TARGET, write_prompts
from eagle_assets_tests.judge.serving import serving
from eagle_assets_tests.openrouter.router import wanted

STAGES = ("prompts", "raw_responses", "token_sequences", "training_shards")


@pytest.fixture(scope="module")
def truth_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "truth.jsonl"


@pytest.fixture(scope="module")
def server(truth_file: Path) -> Iterator[str]:
    with running_sandbox(truth_file) as base_url:
        yield base_url


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which nothing but the environment is proved."""
    folder = tmp_path_factory.mktemp("proved")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EAGLE_ASSETS_HOME", str(folder))
        assert run("tokenizer_report").success
    return folder


@pytest.fixture
def home(proved: Path, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose B2 is answered by a server with ids; nothing is bought."""
    shutil.copytree(proved, tmp_path / "home")
    write_prompts(tmp_path / "B2.jsonl")
    datasets(tmp_path, server, "meridian")
    monkeypatch.setenv("EAGLE_ASSETS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EAGLE_ASSETS_DATASETS", str(tmp_path / "datasets.yaml"))
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.setenv("EAGLE_ASSETS_SERVER_KEY", "sandbox")
    monkeypatch.setenv("OPENROUTER_BASE_URL", "http://127.0.0.1:9/nobody")
    return Home(tmp_path / "home")


def datasets(folder: Path, base_url: str, provider: str) -> None:
    """`extra_body` makes the sandbox the one provider that this is about."""
    extra = {"provider": {"only": [provider]}}
    dataset = {"source": "server", "base_url": base_url, "prompts": "B2.jsonl", "max_tokens": 512, "extra_body": extra}
    (folder / "datasets.yaml").write_text(yaml.safe_dump({"datasets": {"B2": dataset}}))


def run(*assets: str) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.ephemeral() as instance:
        return (
            the_definitions()
            .resolve_implicit_global_asset_job_def()
            .execute_in_process(
                instance=instance,
                partition_key=None if assets == ("tokenizer_report",) else "B2",
                asset_selection=[dg.AssetKey(asset) for asset in assets],
                raise_on_error=False,
            )
        )


def answers_of(truth_file: Path) -> dict[str, list[int]]:
    return {row["exchange_id"]: row["true_ids"] for row in map(json.loads, truth_file.read_text().splitlines())}


def test_its_ids_are_taken_as_they_are_and_asked_for_once(home: Home, truth_file: Path) -> None:
    assert run(*STAGES).success
    truth = answers_of(truth_file)
    sequences = list(require(home, "token_sequences", "B2").rows())
    assert [row["verdict"] for row in sequences] == ["exact"] * len(QUESTIONS)
    assert [row["output_ids"] for row in sequences] == [truth[row["exchange_id"]] for row in sequences]
    assert require(home, "training_shards", "B2").audit.rows == len(QUESTIONS)
    (blind,) = [
        check
        for check in require(home, "token_sequences", "B2").audit.checks
        if check.name == "residual_error_below_limit"
    ]
    assert f"{len(QUESTIONS)} outputs with true ids, served as text" in blind.sentence
    assert run(*STAGES).success
    assert answers_of(truth_file) == truth
    assert not (home.root / "ledger.sqlite").exists()


def test_a_server_without_ids_is_refused_in_a_sentence(home: Home, tmp_path: Path, server: str) -> None:
    datasets(tmp_path, server, "lakeside")
    assert not run("prompts", "raw_responses").success
    with pytest.raises(GateClosed, match=r"4 of 4 answers of http.* have no ids .* knows `return_token_ids`"):
        require(home, "raw_responses", "B2")


@pytest.mark.parametrize("key", [None, "", "none"])
def test_every_byte_of_an_answer_is_kept_whatever_the_key_is(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    body = json.dumps({"choices": [{"message": {"content": "There are none, nonetheless."}}]}).encode()
    keys: list[str | None] = []

    async def answer(request: Request) -> Response:
        keys.append(request.headers.get("authorization"))
        return Response(body, media_type="application/json")

    if key is None:
        monkeypatch.delenv("EAGLE_ASSETS_SERVER_KEY")
    else:
        monkeypatch.setenv("EAGLE_ASSETS_SERVER_KEY", key)
    with serving(Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])) as url:
        datasets(tmp_path, f"{url}/v1", "nobody")
        configuration = load_configuration(tmp_path / "datasets.yaml")
        asked = wanted(read_prompts(tmp_path / "B2.jsonl"), configuration, "B2")
        ask_own_server(home.root, "B2", configuration.own["B2"], asked, configuration, Settings())  # type: ignore[arg-type]
    kept = [record.exchange.body for record in open_journal(home.root, "B2").read()]
    assert kept == [body] * len(QUESTIONS)
    assert set(keys) == {f"Bearer {key}" if key else None}


def test_a_server_that_is_not_there_is_named(home: Home, tmp_path: Path) -> None:
    datasets(tmp_path, "http://127.0.0.1:9/v1", "meridian")
    configuration = load_configuration(tmp_path / "datasets.yaml")
    (dataset,) = configuration.own.values()
    asked = wanted(read_prompts(tmp_path / "B2.jsonl"), configuration, "B2")
    quick = Timing(attempts=1, failures_in_a_row=2)
    summary = ask_own_server(home.root, "B2", dataset, asked, configuration, Settings(), timing=quick)  # type: ignore[arg-type]
    assert (summary.answered, summary.fatal) == (0, True)
    assert summary.stopped is not None
    assert summary.stopped.startswith("http://127.0.0.1:9/v1 was asked for B2: the last 2 attempts all failed")


@pytest.mark.parametrize(
    ("change", "reason"), [("cut", "no_answer: a server"), ("no ids", "no_ids: the completion has no")]
)
def test_an_answer_without_ids_is_unusable(change: str, reason: str) -> None:
    body = json.dumps({"id": "x", "choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}).encode()
    raw = {
        "exchange_id": "x", "prompt_id": "q0", "dataset": "B2", "provider": "local", "model": "m", "cost_usd": 0.0,
        "request": '{"messages": []}', "body": body,
        "outcome": "retry" if change == "cut" else "answered", "reason": "a server error" if change == "cut" else None,
    }  # fmt: skip
    row = sequence_row(raw, TARGET)
    assert (row["verdict"], row.get("output_ids")) == ("unusable", None)
    assert row["reasons"][0].startswith(reason)
