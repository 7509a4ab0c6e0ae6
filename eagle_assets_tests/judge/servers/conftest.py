"""The tiny model, made once for all servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from eagle_assets_tests.judge.servers.real_server import QUESTIONS, TinyModel, python


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    folder = tmp_path_factory.mktemp("model")
    asked = json.dumps([[list(q.prompt_ids), list(q.output_ids)] for q in QUESTIONS])
    command = [python(), Path(__file__).with_name("tiny_model.py"), folder, asked]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    return TinyModel(folder, [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")])
