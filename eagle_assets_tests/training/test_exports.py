"""Exports, read back as a trainer reads them and held against the shards."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.cli import main
from eagle_assets.export_options import FORMATS
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.lake.version import new_version
from eagle_assets.targets.kimi import target_named
from eagle_assets.training.exports.export import Exported, export, require_space
from eagle_assets.training.exports.request import ExportError, ExportRequest
from eagle_assets_tests.training.sequences import publish_shards, row

TARGET = target_named("moonshotai/kimi-k2.5")
STOP = TARGET.markers.stop
SIZE = TARGET.vocabulary.size

B3 = [
    row([1, 2], [3, 4, STOP]),
    row([1, 2], [3, 5, STOP], verdict="consistent"),
    row([1, 2], [3, 4, STOP]),
    row([7, 8, 9], [10, 11]),
    row([12], [13] * 20 + [STOP], verdict="consistent"),
]
B4 = [row([1, 2], [3, 4, STOP]), row([SIZE - 3], [0, SIZE - 1])]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    publish_shards(home, "B3", B3)
    publish_shards(home, "B4", B4)
    return home


def exported(home: Home, folder: Path, form: str = "speculators", **options: Any) -> Exported:
    return export(home, TARGET, ExportRequest(form, folder, **options))  # type: ignore[arg-type]


def rows_in(folder: Path, split: str = "train") -> list[dict[str, Any]]:
    """Every row of a split, from whatever files there are."""
    lines = [
        json.loads(line) for path in sorted(folder.rglob(f"*{split}*.jsonl")) for line in path.read_text().splitlines()
    ]
    tables = [pq.ParquetFile(path).read() for path in sorted(folder.rglob(f"{split}-*.parquet"))]
    return lines + [row for table in tables for row in table.to_pylist()]


def content(rows: list[dict[str, Any]]) -> Counter[tuple[tuple[int, ...], tuple[int, ...]]]:
    return Counter((tuple(row["input_ids"]), tuple(row["loss_mask"])) for row in rows)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", FORMATS)
def test_every_row_comes_out_as_it_lies_in_the_shards(home: Home, tmp_path: Path, form: str) -> None:
    manifest = exported(home, tmp_path / "out", form).manifest
    rows = rows_in(tmp_path / "out")
    assert content(rows) == content(B3 + B4)
    assert [row["id"] for row in rows] == [f"B3/e{n}" for n in range(5)] + [f"B4/e{n}" for n in range(2)]
    assert (manifest["rows"], manifest["longest"]) == (7, 22)
    assert manifest["tokens"] == sum(len(row["input_ids"]) for row in rows)
    assert manifest["generated_tokens"] == sum(sum(row["loss_mask"]) for row in rows)


@pytest.mark.parametrize("form", FORMATS)
def test_the_manifest_names_every_other_file_by_its_hash(home: Home, tmp_path: Path, form: str) -> None:
    exported(home, tmp_path / "out", form)
    files = files_in(tmp_path / "out")
    manifest = json.loads(files.pop("manifest.json"))
    named = {file["name"]: file["sha256"] for file in manifest["files"]}
    assert named == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_lines_hold_id_ids_and_mask_and_nothing_else_is_a_jsonl(home: Home, tmp_path: Path) -> None:
    for form in ("speculators", "specforge"):
        exported(home, tmp_path / form, form)
        assert all(list(row) == ["id", "input_ids", "loss_mask"] for row in rows_in(tmp_path / form))
    assert [path.name for path in (tmp_path / "specforge").rglob("*.jsonl")] == ["train.jsonl"]


def test_a_row_is_joined_with_its_provenance_by_the_hash_of_its_ids(home: Home, tmp_path: Path) -> None:
    exported(home, tmp_path / "out")
    exported(home, tmp_path / "hf", "huggingface")
    shown = rows_in(tmp_path / "hf")
    for rows in (pq.read_table(tmp_path / "out/provenance.parquet").to_pylist(), shown):
        by_hash = {row["input_ids_sha256"]: row for row in rows}
        joined = [
            by_hash[hashlib.sha256(np.asarray(r["input_ids"], "<i4").tobytes()).hexdigest()] for r in B3[3:] + B4[1:]
        ]
        assert [(row["dataset"], row["exchange_id"], row["verdict"]) for row in joined] == [
            ("B3", "e3", "exact"),
            ("B3", "e4", "consistent"),
            ("B4", "e1", "exact"),
        ]


def test_sequences_that_are_too_long_are_left_out_or_cut_without_a_stop_token(home: Home, tmp_path: Path) -> None:
    whole = exported(home, tmp_path / "whole", max_length=5)
    assert content(rows_in(tmp_path / "whole")) == content(B3[:4] + B4)
    assert whole.manifest["datasets"]["B3"]["left_out"] == {"longer than max_length": 1}
    exported(home, tmp_path / "cut", max_length=4, cut=True)
    assert content(rows_in(tmp_path / "cut")) == content(
        [
            *(row([1, 2], [3, 4]), row([1, 2], [3, 5]), row([1, 2], [3, 4]), row([7, 8, 9], [10])),
            *(row([12], [13] * 3), row([1, 2], [3, 4]), B4[1]),
        ]
    )
    shortest = exported(home, tmp_path / "shortest", max_length=2, cut=True)
    assert content(rows_in(tmp_path / "shortest")) == content([row([12], [13]), row([SIZE - 3], [0])])
    assert shortest.manifest["datasets"]["B3"]["left_out"] == {"nothing generated within max_length": 4}


def test_only_the_verdicts_and_datasets_that_are_asked_for(home: Home, tmp_path: Path) -> None:
    exported(home, tmp_path / "exact", min_verdict="exact")
    assert content(rows_in(tmp_path / "exact")) == content([B3[0], B3[2], B3[3], *B4])
    exported(home, tmp_path / "B4", datasets=("B4",))
    assert content(rows_in(tmp_path / "B4")) == content(B4)


def test_of_equal_rows_the_first_is_kept(home: Home, tmp_path: Path) -> None:
    exported(home, tmp_path / "sequence", dedup="sequence")
    assert [r["id"] for r in rows_in(tmp_path / "sequence")] == ["B3/e0", "B3/e1", "B3/e3", "B3/e4", "B4/e1"]
    exported(home, tmp_path / "prompt", dedup="prompt")
    assert [r["id"] for r in rows_in(tmp_path / "prompt")] == ["B3/e0", "B3/e3", "B3/e4", "B4/e1"]
    # A row that another option leaves out does not stand in the way of a later one.
    exported(home, tmp_path / "both", dedup="prompt", min_verdict="consistent", datasets=("B4",))
    assert [r["id"] for r in rows_in(tmp_path / "both")] == ["B4/e0", "B4/e1"]


def many(rows: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [
        row(random.integers(0, 30, 2).tolist(), random.integers(0, 160_000, random.integers(1, 60)).tolist())
        for _ in range(rows)
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_no_prompt_is_in_both_splits_and_more_data_moves_none(tmp_path: Path, form: str) -> None:
    home = Home(tmp_path / "home")
    rows = many(600)
    publish_shards(home, "B3", rows[:400])
    exported(home, tmp_path / "some", form, eval_share=0.3)
    publish_shards(home, "B3", rows)
    exported(home, tmp_path / "more", form, eval_share=0.3)
    splits = {}
    for name in ("some", "more"):
        train, evaluation = (rows_in(tmp_path / name, split) for split in ("train", "evaluation"))
        splits[name] = [{tuple(r["input_ids"][:2]) for r in part} for part in (train, evaluation)]
        assert not splits[name][0] & splits[name][1]
        assert 0.15 < len(splits[name][1]) / sum(map(len, splits[name])) < 0.45
    assert content(train + evaluation) == content(rows)
    assert splits["some"][0] <= splits["more"][0]
    assert splits["some"][1] <= splits["more"][1]


def test_weights_say_how_often_a_row_is_met_in_training(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    rows = many(400)
    publish_shards(home, "B3", rows[:200])
    publish_shards(home, "B4", rows[200:])
    exported(home, tmp_path / "out", weights={"B3": 2.5, "B4": 0.25})
    met = Counter(r["id"].partition("#")[0] for r in rows_in(tmp_path / "out"))
    assert len({r["id"] for r in rows_in(tmp_path / "out")}) == met.total()
    assert {met[f"B3/e{n}"] for n in range(200)} == {2, 3}
    assert {met[f"B4/e{n}"] for n in range(200)} == {0, 1}
    assert 430 < sum(met[f"B3/e{n}"] for n in range(200)) < 570
    assert 25 < sum(met[f"B4/e{n}"] for n in range(200)) < 80


def test_a_file_ends_where_the_next_row_would_exceed_the_size(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    rows = many(300)
    publish_shards(home, "B3", rows)
    for form in ("speculators", "huggingface"):
        exported(home, tmp_path / form, form, shard_bytes=20_000)
        files = sorted((tmp_path / form).rglob("*train-*"))
        assert len(files) > 3
        assert all(file.stat().st_size < 20_000 + 60 * 9 + 400 for file in files)
        assert [r["input_ids"] for r in rows_in(tmp_path / form)] == [r["input_ids"] for r in rows]


@given(
    st.lists(
        st.builds(
            row,
            st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=5),
            st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=12),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 15),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_whatever_the_rows_are_a_trainer_can_take_what_is_written(
    rows: list[dict[str, Any]], length: int, cut: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        publish_shards(home, "B3", rows)
        short = [
            {"input_ids": r["input_ids"][:length], "loss_mask": r["loss_mask"][:length]}
            for r in rows
            if (cut or len(r["input_ids"]) <= length) and sum(r["loss_mask"][:length])
        ]
        try:
            exported(home, Path(folder) / "out", max_length=length, cut=cut)
        except ExportError:
            assert not short
            return
        written = rows_in(Path(folder) / "out")
        assert content(written) == content(short)
        assert all(set(r["loss_mask"]) <= {0, 1} and 1 in r["loss_mask"] for r in written)


def test_the_vocabulary_files_are_of_the_training_rows(home: Home, tmp_path: Path) -> None:
    manifest = exported(home, tmp_path / "out", draft_size=20).manifest
    counts = Counter(i for r in B3 + B4 for i, m in zip(r["input_ids"], r["loss_mask"], strict=True) if m)
    expected = list(astuple(TARGET.markers))
    for token in [*sorted(counts, key=lambda i: (-counts[i], i)), *range(SIZE)]:
        if len(expected) < 20 and token not in expected:
            expected.append(token)
    d2t, t2d = np.load(tmp_path / "out/d2t-20.npy"), np.load(tmp_path / "out/t2d-20.npy")
    assert (d2t + np.arange(20)).tolist() == np.flatnonzero(t2d).tolist() == sorted(expected)
    assert (d2t.dtype, t2d.dtype, t2d.shape) == (np.int64, np.bool_, (SIZE,))
    vocabulary = manifest["draft_vocabulary"]
    assert vocabulary["coverage"] == pytest.approx(sum(counts[i] for i in expected) / counts.total())
    assert vocabulary["coverage_by_dataset"]["B3"] == 1.0
    assert vocabulary["coverage_at_size"][str(SIZE)] == 1.0
    assert (tmp_path / "out/token_freq.pt").is_file()


@pytest.mark.parametrize("form", FORMATS)
def test_twice_the_same_export_is_the_same_bytes(home: Home, tmp_path: Path, form: str) -> None:
    options: dict[str, Any] = {"eval_share": 0.5, "weights": {"B3": 1.5}, "dedup": "sequence"}
    exported(home, tmp_path / "one", form, **options)
    exported(home, tmp_path / "other", form, **options)
    assert files_in(tmp_path / "one") == files_in(tmp_path / "other")
    again = exported(home, tmp_path / "one", form, **options)
    assert again.was_there
    assert files_in(tmp_path / "one") == files_in(tmp_path / "other")


EXPORT_FOREVER = """
import sys
from pathlib import Path
from eagle_assets.lake.home import Home
from eagle_assets.targets.kimi import target_named
from eagle_assets.training.exports.export import export
from eagle_assets.training.exports.request import ExportRequest
request = ExportRequest(sys.argv[2], Path(sys.argv[3]), shard_bytes=int(sys.argv[4]), eval_share=0.2)
export(Home(Path(sys.argv[1])), target_named("moonshotai/kimi-k2.5"), request)
"""


def test_written_on_all_cores_it_is_the_same_bytes(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = export(home, TARGET, ExportRequest("huggingface", tmp_path / "alone"))
    monkeypatch.setattr("eagle_assets.training.exports.row_files._WORTH_WORKERS", 0)
    together = export(home, TARGET, ExportRequest("huggingface", tmp_path / "together"))
    assert len([file for file in alone.manifest["files"] if "rows" in file]) > 1
    assert together.manifest == alone.manifest


def test_killed_at_any_moment_and_resumed_it_is_the_same_bytes(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    rows = many(3000)
    publish_shards(home, "B3", rows)
    folder, unfinished = tmp_path / "killed", tmp_path / ".killed.unfinished"
    arguments = [str(home.root), "speculators", str(folder), "10000"]
    finished_before_a_kill = 0
    for parts in (1, 5, 20):  # killed once so many files are finished
        process = subprocess.Popen([sys.executable, "-c", EXPORT_FOREVER, *arguments])
        while process.poll() is None and len(list(unfinished.glob("*.jsonl"))) < finished_before_a_kill + parts:
            time.sleep(0.001)
        assert process.poll() is None, "it ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not folder.exists()
        finished_before_a_kill = len(list(unfinished.glob("*.jsonl")))
    spoilt, intact, *_ = sorted(unfinished.glob("*.jsonl"))  # the last may have been killed before it was noted
    spoilt.write_bytes(spoilt.read_bytes().replace(b'"loss_mask":[0,0,1', b'"loss_mask":[0,1,1', 1))
    inode = intact.stat().st_ino
    request = {"shard_bytes": 10_000, "eval_share": 0.2}
    exported(home, folder, **request)
    assert (folder / intact.name).stat().st_ino == inode  # what was finished was not written again
    exported(home, tmp_path / "whole", **request)
    assert files_in(folder) == files_in(tmp_path / "whole")
    assert not unfinished.exists()


def test_what_an_attempt_with_other_options_left_does_not_come_in(home: Home, tmp_path: Path) -> None:
    left = tmp_path / ".out.unfinished"
    left.mkdir()
    (left / "B9-train-00000.jsonl").write_text("{}\n")
    (left / "unfinished.json").write_text('{"plan": "another", "files": {}}')
    exported(home, tmp_path / "out")
    exported(home, tmp_path / "other")
    assert files_in(tmp_path / "out") == files_in(tmp_path / "other")


def cli(home: Home, *arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(
        main, ["export", *map(str, arguments)], env={"EAGLE_ASSETS_HOME": str(home.root)}, catch_exceptions=False
    )
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--format", "jsonl"], "there is no format 'jsonl'; choose one of speculators, specforge, huggingface"),
        (["--datasets", "B9"], "there are no training shards of B9; there are of B3, B4, B5"),
        (["--datasets", "B5"], "B5 has no trusted sequence, so there is nothing to train on"),
        (["--max-length", "1"], "no sequence of B3 is left under these options (5 longer than max_length)"),
        (["--max-length", "0"], "a maximum length of 0 leaves nothing"),
        (["--cut"], "cutting needs a length: add --max-length N"),
        (["--weights", "B3=lots"], "'B3=lots' is no weight of a dataset; write it like B3=2"),
        (["--weights", "B3=0"], "a weight of 0 for B3 is none"),
        (["--datasets", "B4", "--weights", "B3=2"], "B3 has a weight and is not among the datasets to export"),
        (["--eval-share", "1.5"], "an evaluation share of 1.5 is none"),
        (["--eval-share", "0.0001"], "no prompt falls into an evaluation share of 0.0001"),
        (["--shard-size", "much"], "'much' is no size of a shard; write it like 500MB or 2GB"),
        (["--draft-size", "7"], "a draft vocabulary has 8 to 163840 ids, not 7"),
    ],
)
def test_a_mistake_is_one_sentence(home: Home, tmp_path: Path, options: list[str], sentence: str) -> None:
    publish_shards(home, "B5", [])
    status, output = cli(home, *(["--format", "speculators", *options]), tmp_path / "out")
    assert status == 1
    assert output.startswith(f"Error: {sentence}")
    assert output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_as_it_is(home: Home, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    status, _ = cli(home, "--format", "specforge", tmp_path / "out")
    assert status == 0
    (tmp_path / "out" / "train.jsonl").write_text("mine")
    status, output = cli(home, "--format", "specforge", tmp_path / "out")
    assert (status, output) == (1, f"Error: {tmp_path / 'out'} is not empty; name a new folder, or empty this one\n")
    with pytest.raises(ExportError, match="is not empty"):  # an export of another model is another one
        export(home, target_named("moonshotai/kimi-k2-0905"), ExportRequest("specforge", tmp_path / "out"))
    status, output = cli(home, "--format", "specforge", tmp_path / "out" / "train.jsonl")
    assert (status, output) == (1, f"Error: {tmp_path / 'out' / 'train.jsonl'} is no folder; name a new one\n")
    assert (tmp_path / "out" / "train.jsonl").read_text() == "mine"


def test_too_little_disk_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"takes up to 1,000,000,000\.0 GB and .* GB free; make room"):
        require_space(tmp_path, 10**18)


def test_without_shards_it_says_what_to_run(tmp_path: Path) -> None:
    status, output = cli(Home(tmp_path / "empty"), "--format", "specforge", tmp_path / "out")
    assert status == 1
    assert "holds no training shards: `eagle-assets run` makes them" in output


def test_shards_that_changed_after_their_audit_are_refused(home: Home, tmp_path: Path) -> None:
    (path,) = home.folder("training_shards", "B3").glob("*.parquet")
    pq.write_table(pq.ParquetFile(path).read().slice(1), path)
    status, output = cli(home, "--format", "specforge", "--datasets", "B3", tmp_path / "out")
    assert (status, output.count("\n")) == (1, 1)
    assert "changed after its audit; materialise training_shards of B3 again" in output
    status, output = cli(home, "--format", "specforge", tmp_path / "out")
    assert status == 0
    assert "left out: " in output
    assert content(rows_in(tmp_path / "out")) == content(B4)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"input_ids": [1, SIZE], "loss_mask": [0, 1]},
        {"input_ids": [1, -1], "loss_mask": [0, 1]},
        {"input_ids": [1, 2], "loss_mask": [0, 0]},
        {"input_ids": [1, 2], "loss_mask": [0, 2]},
        {"input_ids": [1, 2], "loss_mask": [0, 1, 1]},
        {"input_ids": [], "loss_mask": []},
    ],
)
def test_a_row_that_no_trainer_should_meet_is_refused_even_if_it_was_published(
    tmp_path: Path, spoilt: dict[str, Any]
) -> None:
    home = Home(tmp_path / "home")
    publish_shards(home, "B3", [*B3, spoilt])
    with pytest.raises(ExportError, match="row B3/e5 cannot train"):
        exported(home, tmp_path / "out")


def test_the_card_states_what_may_be_wrong(home: Home, tmp_path: Path) -> None:
    exported(home, tmp_path / "out", "huggingface", min_verdict="exact")
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nconfigs:\n- config_name: default\n")
    assert 'path: "dataset=B4/train-*.parquet"' in card
    assert TARGET.vocabulary.sha256 in card
    assert "| B3 | 3 | 8 | 3 | 0 | not known | nothing | 2 verdict |" in card


def test_two_row_groups_and_empty_ones_make_no_difference(tmp_path: Path) -> None:
    rows = [
        {"id": f"x{n}", "exchange_id": f"x{n}", "provider": None, "verdict": "exact", "dataset": "B3", **r}
        for n, r in enumerate(many(300))
    ]
    for name, size in (("small", 7), ("large", 300)):
        home = Home(tmp_path / name)
        with new_version(home, "training_shards", "B3") as version:
            table = pa.Table.from_pylist(rows, TRAINING_SHARDS)
            with pq.ParquetWriter(version.folder / "part.parquet", TRAINING_SHARDS) as writer:
                for part in [*table.to_batches(size), table.slice(0, 0)]:
                    writer.write(part)
            version.add(version.folder / "part.parquet")
            version.audit([])
        exported(home, tmp_path / f"{name}_out", shard_bytes=3_000, weights={"B3": 1.5})
    assert rows_in(tmp_path / "small_out") == rows_in(tmp_path / "large_out")


def test_a_dataset_that_left_the_datasets_file_is_exported_only_by_name(home: Home, tmp_path: Path) -> None:
    made = exported(home, tmp_path / "a", of_file=frozenset({"B3", "B5"}))
    assert list(made.manifest["datasets"]) == ["B3"]
    assert made.notes == ("left out: B4 is not in the datasets file any more; name it to export it too",)
    named = exported(home, tmp_path / "b", of_file=frozenset({"B3"}), datasets=("B3", "B4"))
    assert (list(named.manifest["datasets"]), named.notes) == (["B3", "B4"], ())
    with pytest.raises(ExportError, match=r"names none of the datasets with training shards \(B3, B4\); set EAGLE_"):
        exported(home, tmp_path / "c", of_file=frozenset({"B9"}))
