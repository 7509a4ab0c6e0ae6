"""The environment: real packages, and real processes in which one is missing, too old, broken or wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eagle_assets.targets.environment import check_environment


def distribution(folder: Path, name: str, version: str, requires: tuple[str, ...] = (), module: str = "") -> None:
    """An installed distribution, as its metadata on the path; with `module`, the text of the module of its name."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    lines = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {line}" for line in requires),
    ]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    if module:
        (info / "top_level.txt").write_text(name.replace("-", "_"))
        (folder / f"{name.replace('-', '_')}.py").write_text(module)


def test_what_is_required_is_read_from_the_project_s_own_metadata() -> None:
    environment = check_environment()
    assert {"dagster", "splintr-rs", "tiktoken", "transformers", "renderers"} <= {p.name for p in environment.packages}
    assert "pytest" not in {p.name for p in environment.packages}
    assert [package.problem for package in environment.problems] == []
    assert environment.passed
    assert all(package.version for package in environment.packages)


def test_each_way_to_be_unready_has_a_sentence_and_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires = (
        "rich",
        "click<1",
        "no-such-thing>=2",
        "eagle-broken",
        "eagle-needs-more",
        'pytest; extra == "dev"',
        'tomli; python_version < "3.11"',
    )
    distribution(tmp_path, "eagle-assets", "0.1.0", requires)
    distribution(tmp_path, "eagle-broken", "1.0", module="raise OSError('no such symbol')\n")
    distribution(tmp_path, "eagle-needs-more", "1.0", module="import not_there.at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    environment = check_environment()
    packages = {package.name: package for package in environment.packages}
    assert set(packages) == {"rich", "click", "no-such-thing", "eagle-broken", "eagle-needs-more"}
    assert packages["rich"].problem is None
    expected = {
        "click": ("and the run needs <1", "'click<1'"),
        "no-such-thing": ("no-such-thing is not installed", "'no-such-thing>=2'"),
        "eagle-broken": ("eagle-broken does not import (OSError: no such symbol)", "--force-reinstall eagle-broken"),
        "eagle-needs-more": ("it needs not_there, which is missing", "not_there"),
    }
    for name, (problem, arguments) in expected.items():
        assert problem in (packages[name].problem or "")
        assert (packages[name].remedy or "").endswith(f"-m pip install {arguments}")
    assert not environment.passed
    assert environment.works("rich")
    assert not environment.works("rich", "click")


BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def preflight(
    folder: Path, *arguments: str, requires: tuple[str, ...] = (), blocked: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, in which `blocked` modules cannot be imported and few are required."""
    distribution(folder, "eagle-assets", "0.1.0", ("numpy", "splintr-rs", "tiktoken", "rich", *requires))
    (folder / "sitecustomize.py").write_text(BLOCKER.format(blocked=blocked))
    return subprocess.run(
        [sys.executable, "-m", "eagle_assets.cli", "preflight", *arguments],
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_preflight_passes_and_answers_programs(tmp_path: Path) -> None:
    ran = preflight(tmp_path, "--json")
    assert ran.returncode == 0
    report = json.loads(ran.stdout)
    assert report["passed"] is True
    assert [package["name"] for package in report["environment"]["packages"]] == [
        "numpy",
        "splintr-rs",
        "tiktoken",
        "rich",
    ]
    assert ran.stderr == ""


def test_without_transformers_the_gates_are_tried_and_the_command_is_named(tmp_path: Path) -> None:
    ran = preflight(tmp_path, "--json", requires=("transformers",), blocked=("transformers",))
    report = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert all(gate["passed"] for gate in report["gates"])
    problems = {p["name"]: p for p in report["environment"]["packages"] if p["problem"]}
    assert set(problems) == {"transformers"}
    assert problems["transformers"]["remedy"].endswith("-m pip install --force-reinstall transformers")
    assert "Traceback" not in ran.stderr


def test_without_the_encoder_no_gate_opens_and_nothing_crashes(tmp_path: Path) -> None:
    ran = preflight(tmp_path, blocked=("splintr",))
    assert ran.returncode == 1
    assert "pip install --force-reinstall splintr-rs" in ran.stdout
    assert "Not ready." in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr


def test_without_rich_the_answer_is_plain(tmp_path: Path) -> None:
    ran = preflight(tmp_path, blocked=("rich", "splintr"))
    assert ran.returncode == 1
    assert "| `encoders_agree` | **FAILED** |" in ran.stdout
    assert "pip install --force-reinstall rich" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr


CLOSES_GAPS = """
import json, pathlib

class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, folder, **_):
        tokenizer = cls()
        decoder = json.loads(pathlib.Path(folder, "tokenizer_config.json").read_text())["added_tokens_decoder"]
        tokenizer.ids = {entry["content"]: 256 + n for n, entry in enumerate(decoder.values())}
        return tokenizer

    def convert_tokens_to_ids(self, text):
        return self.ids[text]
"""


def test_a_transformers_that_closes_gaps_between_ids_is_found_out(tmp_path: Path) -> None:
    """As the 5.x release did that gave every K2.5 marker above 163588 another id."""
    (tmp_path / "transformers.py").write_text(CLOSES_GAPS)
    ran = preflight(tmp_path, "--json", requires=("transformers",), blocked=("splintr",))
    problems = {p["name"]: p for p in json.loads(ran.stdout)["environment"]["packages"] if p["problem"]}
    assert ran.returncode == 1
    assert "gives special tokens wrong ids where theirs have gaps" in problems["transformers"]["problem"]
    assert problems["transformers"]["remedy"].endswith("-m pip install --upgrade transformers")


def test_a_folder_without_a_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = preflight(tmp_path, "--model-dir", str(tmp_path / "empty"))
    assert ran.returncode == 1
    assert ran.stderr.startswith("Error: ")
    assert "holds no tokenizer" in ran.stderr
