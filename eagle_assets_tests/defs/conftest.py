"""A small home that went through the whole graph once, against the sandbox; each test gets a copy of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
import yaml

from eagle_assets.defs.outcomes import RunSummary
from eagle_assets.defs.run import materialise, prepare
from eagle_assets.lake.home import Home
from eagle_assets.sandbox.process import running_sandbox
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
QUESTIONS = ("What is 37 × 46?", "Solve 3x + 7 = 52 for x.", "Is 613 × 29 more than 18,000?", "Count to five.")


@dataclass(frozen=True)
class Place:
    """A home, its datasets file, and the environment that points to them."""

    folder: Path
    environment: dict[str, str]

    @property
    def home(self) -> Home:
        return Home(self.folder / "home")

    def instance(self, name: str = "dagster") -> dg.DagsterInstance:
        """A persistent instance of its own, as another DAGSTER_HOME has."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        return dg.DagsterInstance.from_config(str(folder))

    def materialise(self, *datasets: str, until: str | None = None) -> RunSummary:
        with self.instance() as instance:
            return materialise(prepare(datasets, until), instance)


def write_local_responses(path: Path, texts: list[str]) -> None:
    """Three answers of the team's own server; `texts` are what it says that it showed."""
    vocabulary, markers = TARGET.vocabulary, TARGET.markers
    rows = [
        {
            "prompt_id": f"p{number}",
            "prompt_ids": [*vocabulary.encode(f"Say {number}"), markers.think_begin],
            "output_ids": [markers.think_end, *vocabulary.encode(f"It is {number}."), markers.stop],
            "finish_reason": "stop",
            "text": text,
        }
        for number, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_prompts(path: Path, questions: tuple[str, ...] = QUESTIONS) -> None:
    rows = [{"prompt_id": f"q{n}", "messages": [{"role": "user", "content": q}]} for n, q in enumerate(questions)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_datasets(folder: Path, **changes: object) -> None:
    bought = {"source": "openrouter", "prompts": "B3.jsonl", "max_tokens": 512}
    datasets = {"B1": {"source": "local", "responses": "B1.jsonl"}, "B3": {**bought, **changes}}
    # One provider, which says what ids it generated: a handful of answers calibrates nobody.
    content = {"routing": {"only": ["meridian"]}, "datasets": datasets}
    (folder / "datasets.yaml").write_text(yaml.safe_dump(content))


def pointing_to(folder: Path, base_url: str) -> dict[str, str]:
    return {
        "EAGLE_ASSETS_HOME": str(folder / "home"),
        "EAGLE_ASSETS_DATASETS": str(folder / "datasets.yaml"),
        "OPENROUTER_API_KEY": "sandbox",
        "OPENROUTER_BASE_URL": base_url,
    }


@pytest.fixture(scope="session")
def sandbox_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_sandbox(tmp_path_factory.mktemp("sandbox") / "truth.jsonl") as base_url:
        yield base_url


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, sandbox_url: str) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_local_responses(folder / "B1.jsonl", [f"It is {n}." for n in range(3)])
    write_prompts(folder / "B3.jsonl")
    write_datasets(folder)
    place = Place(folder, pointing_to(folder, sandbox_url))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in place.environment.items():
            patch.setenv(name, value)
        summary = place.materialise("B1", "B3")
    assert summary.succeeded, summary.refused
    return folder


@pytest.fixture
def place(finished: Path, tmp_path: Path, sandbox_url: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    folder = tmp_path / "place"
    shutil.copytree(finished, folder)
    made = Place(folder, pointing_to(folder, sandbox_url))
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made
