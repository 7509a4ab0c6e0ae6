"""The real trainers on real exports: `make test-trainers` runs this in an environment of its own, with the demo's data.

EAGLE_ASSETS names the command to export with, and EAGLE_ASSETS_HOME the home whose shards are exported.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from datasets import load_dataset, load_from_disk
from specforge.data.prompt_builder import prepare_prompt_tasks
from speculators.train.cli import _load_mappings
from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution
from tokenizers import Tokenizer, models

VOCABULARY_SIZE = 163_840
MARKERS = {163586, 163595, 163596, 163597, 163598, 163599, 163606, 163607}
CUT, DRAFT_SIZE = 384, 4_000

Content = Counter[tuple[bytes, bytes]]


def content(rows: Iterable[Mapping[str, Any]]) -> Content:
    """Ids and masks of rows, whatever integers they are of, in no order."""
    return Counter(
        (np.asarray(row["input_ids"], np.int64).tobytes(), np.asarray(row["loss_mask"], np.int64).tobytes())
        for row in rows
    )


@pytest.fixture(scope="session")
def shards() -> list[dict[str, Any]]:
    paths = sorted(Path(os.environ["EAGLE_ASSETS_HOME"]).glob("training_shards/dataset=*/*.parquet"))
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    assert len(rows) > 100
    return rows


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def run(form: str, *options: str) -> Path:
        folder = tmp_path_factory.mktemp("export") / form
        command = [os.environ["EAGLE_ASSETS"], "export", "--format", form, *options, str(folder)]
        subprocess.run(command, check=True, cwd=tmp_path_factory.getbasetemp())
        return folder

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder as far as prepare-data needs one: it prints row 0 with the tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = {f"<{number}>": number for number in range(VOCABULARY_SIZE)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="<0>")).save(str(folder / "tokenizer.json"))
    return folder


def prepared(model: Path, output: Path, data: Iterable[str], seq_length: int) -> tuple[list[dict[str, Any]], str]:
    """Rows that the real prepare-data made of the data, and what it printed."""
    command = [str(Path(sys.executable).with_name("speculators")), "prepare-data", "--model", str(model)]
    command += [argument for path in data for argument in ("--data", path)]
    command += ["--output", str(output), "--seq-length", str(seq_length), "--no-skip-token-freq"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(output.with_name("hf_home"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(load_from_disk(str(output)).with_format("numpy")), done.stdout + done.stderr


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def as_data(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("*-train-*.jsonl"))]


def test_prepare_data_reads_every_sequence_as_it_is_in_the_shards(
    shards: list[dict[str, Any]], export: Callable[..., Path], model: Path, tmp_path: Path
) -> None:
    folder = export("speculators", "--shard-size", "20KB")
    assert len(as_data(folder)) > len({row["dataset"] for row in shards})
    rows, _ = prepared(model, tmp_path / "prepared", as_data(folder), manifest(folder)["longest"])
    assert content(rows) == content(shards)
    assert all(row["input_ids"].min() >= 0 and row["input_ids"].max() < VOCABULARY_SIZE for row in rows)
    assert all(set(row["loss_mask"].tolist()) <= {0, 1} and row["loss_mask"].any() for row in rows)
    counted = torch.load(tmp_path / "prepared/token_freq.pt", weights_only=True)
    assert torch.load(folder / "token_freq.pt", weights_only=True) == counted
    assert list(torch.load(folder / "token_freq.pt", weights_only=True)) == sorted(counted)
    found = {row["input_ids_sha256"]: row for row in pq.read_table(folder / "provenance.parquet").to_pylist()}
    of_id = {row["id"]: row for row in shards}
    for row in rows:
        joined = found[hashlib.sha256(row["input_ids"].astype("<i4").tobytes()).hexdigest()]
        assert of_id[joined["id"]]["input_ids"] == row["input_ids"].tolist()


def test_prepare_data_cuts_nothing_that_was_exported_with_its_length(
    export: Callable[..., Path], model: Path, tmp_path: Path
) -> None:
    folder = export("speculators", "--max-length", str(CUT), "--cut")
    assert manifest(folder)["longest"] == CUT
    rows, said = prepared(model, tmp_path / "prepared", as_data(folder), CUT)
    lines = [json.loads(line) for path in as_data(folder) for line in Path(path).read_text().splitlines()]
    assert content(rows) == content(lines)
    assert "truncated" not in said.lower()
    _, said = prepared(model, tmp_path / "shorter", as_data(folder), CUT - 1)
    assert "truncated" in said.lower()  # so the word would have been there


def test_the_parquet_folder_loads_in_datasets_and_in_speculators(
    shards: list[dict[str, Any]], export: Callable[..., Path], model: Path, tmp_path: Path
) -> None:
    folder = export("huggingface", "--eval-share", "0.2")
    loaded = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert content(loaded["train"]) + content(loaded["evaluation"]) == content(shards)
    assert loaded["train"].features["input_ids"].feature.dtype == "int32"
    of_one = load_dataset(str(folder), "B1", cache_dir=str(tmp_path / "cache"))
    in_b1 = [row for row in shards if row["dataset"] == "B1"]
    assert sum((content(split) for split in of_one.values()), Content()) == content(in_b1)
    rows, _ = prepared(model, tmp_path / "prepared", [f"hf:{folder}"], manifest(folder)["longest"])
    assert content(rows) == content(loaded["train"])


def test_specforge_loads_every_sequence_in_order(shards: list[dict[str, Any]], export: Callable[..., Path]) -> None:
    folder = export("specforge")
    tasks = prepare_prompt_tasks(
        str(folder / "train.jsonl"),
        None,
        chat_template=None,
        max_length=manifest(folder)["longest"],
        is_preformatted=False,
        train_only_last_turn=False,
        cache_dir=None,
        cache_key=None,
        num_proc=1,
    )
    loaded = [task["payload"] for task in tasks]
    assert content(loaded) == content(shards)
    assert [row["input_ids"] for row in loaded] == [row["input_ids"] for row in shards]


@pytest.mark.parametrize("size", [1_000, 4_000, 32_000])
def test_the_mapping_is_that_of_speculators_with_all_markers(export: Callable[..., Path], size: int) -> None:
    folder = export("speculators", "--draft-size", str(size))
    d2t, t2d, loaded_size = _load_mappings(folder / f"d2t-{size}.npy", folder / f"t2d-{size}.npy", size)
    counts = torch.load(folder / "token_freq.pt", weights_only=True)
    _, its_t2d = build_vocab_mappings_from_distribution(counts, size, VOCABULARY_SIZE)
    ours, theirs = (set(t.nonzero().flatten().tolist()) for t in (t2d, its_t2d))
    assert loaded_size == size == len(ours)
    assert (d2t + torch.arange(size)).tolist() == sorted(ours)
    assert ours >= MARKERS
    assert ours - theirs <= MARKERS
    assert len(ours - theirs) == len(MARKERS - theirs)


def test_one_mapping_in_the_files_of_both(export: Callable[..., Path]) -> None:
    arrays, mapping = export("speculators"), torch.load(export("specforge") / "vocab_mapping.pt", weights_only=True)
    assert mapping.keys() == {"d2t", "t2d"}
    assert (mapping["d2t"].dtype, mapping["t2d"].dtype) == (torch.int64, torch.bool)
    assert torch.equal(mapping["d2t"], torch.from_numpy(np.load(arrays / "d2t-32000.npy")))
    assert torch.equal(mapping["t2d"], torch.from_numpy(np.load(arrays / "t2d-32000.npy")))


def test_a_tiny_drafter_trains_on_the_export_and_its_loss_falls(
    export: Callable[..., Path], model: Path, tmp_path: Path
) -> None:
    folder = export("speculators", "--max-length", str(CUT), "--cut", "--draft-size", str(DRAFT_SIZE))
    target = tmp_path / "target"
    target.mkdir()
    (target / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    prepared(model, tmp_path / "prepared", as_data(folder), CUT)
    script = Path(__file__).with_name("train_drafter.py")
    command = [sys.executable, str(script), str(tmp_path), str(folder), str(DRAFT_SIZE), str(CUT)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-5_000:]
    losses = [float(loss) for loss in re.findall(r"train/loss['\"]?[:=]\s*([0-9.]+)", done.stdout + done.stderr)]
    assert len(losses) >= 20, done.stdout[-3_000:] + done.stderr[-3_000:]
    first, last = np.mean(losses[:5]), np.mean(losses[-5:])
    print(f"loss {losses[0]:.2f} at step 1, {first:.2f} over the first five steps, {last:.2f} over the last five")
    assert last < 0.8 * first
    assert list((tmp_path / "draft").rglob("*.safetensors"))


def test_modelopt_reads_what_its_example_dumps(export: Callable[..., Path], tmp_path: Path) -> None:
    """`docs/examples/dump_for_modelopt.py`: ids and masks are those of the export, and the states fit them."""
    from modelopt.torch.speculative.eagle.utils import OfflineSupervisedDataset
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = export("huggingface", "--max-length", "128", "--datasets", "B1,B6", "--dedup", "sequence")
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY_SIZE, num_hidden_layers=6, **shape)).save_pretrained(
        tmp_path / "model"
    )
    script = Path(__file__).parents[3] / "docs/examples/dump_for_modelopt.py"
    command = [sys.executable, str(script), str(folder), str(tmp_path / "model"), str(tmp_path / "dump")]
    subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    files = [str(path) for path in sorted((tmp_path / "dump").glob("*.pt"))]
    rows = list(OfflineSupervisedDataset(files, answer_only_loss=True))
    paths = sorted(folder.glob("dataset=*/train-*.parquet"))
    assert content(rows) == content(row for path in paths for row in pq.ParquetFile(path).read().to_pylist())
    assert all(row["base_model_hidden_states"].shape == (len(row["input_ids"]), 32) for row in rows)
    assert all(row["aux_hidden_states"].shape == (len(row["input_ids"]), 96) for row in rows)
