"""The gate in the data: what is published, what is refused, and what a kill -9 leaves behind."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eagle_assets.lake import audit as audit_module
from eagle_assets.lake import version as version_module
from eagle_assets.lake.audit import Audit, Check, GateClosed, Published, read_history, read_record, require, sha256_of
from eagle_assets.lake.home import Home
from eagle_assets.lake.version import NewVersion, new_version

SCHEMA = pa.schema([("n", pa.int32()), ("ids", pa.list_(pa.int32()))])
GOOD = Check("counts_close", True, "all 3 counts close")
BAD = Check("counts_close", False, "2 of 3 counts do not close", {"open": 2}, ({"exchange_id": "x"},))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def make(home: Home, stage: str, numbers: list[int], check: Check = GOOD, inputs: tuple[Published, ...] = ()) -> Audit:
    with new_version(home, stage, "B3") as version:
        version.write_rows("part.parquet", SCHEMA, ({"n": n, "ids": [n, n]} for n in numbers))
        return version.audit([check], inputs)


def globbed(home: Home, stage: str) -> list[int]:
    """What a reader sees who knows nothing of the record."""
    paths = sorted(home.root.glob(f"{stage}/dataset=B3/*.parquet"))
    return [n for path in paths for n in pq.read_table(path)["n"].to_pylist()]


def numbers_of(published: Published) -> list[int]:
    return [row["n"] for row in published.rows(["n"])]


def test_a_good_version_is_read_back_and_replaces_the_one_before(home: Home) -> None:
    make(home, "token_sequences", [1, 2])
    make(home, "token_sequences", list(range(1000)))
    published = require(home, "token_sequences", "B3")
    assert numbers_of(published) == globbed(home, "token_sequences") == list(range(1000))
    assert published.audit.rows == 1000
    assert [p.name for p in home.folder("token_sequences", "B3").iterdir() if p.suffix == ".parquet"] == [
        published.audit.files[0].name
    ]


def test_what_was_never_made_is_refused(home: Home) -> None:
    with pytest.raises(GateClosed, match="token_sequences of B3 has no audit"):
        require(home, "token_sequences", "B3")


def test_a_failed_check_closes_the_gate_keeps_the_last_good_files_and_mending_opens_it(home: Home) -> None:
    make(home, "token_sequences", [1])
    make(home, "token_sequences", [2], BAD)
    assert globbed(home, "token_sequences") == [1]
    with pytest.raises(GateClosed, match="counts_close failed: 2 of 3 counts do not close"):
        require(home, "token_sequences", "B3")
    record = read_record(home, "token_sequences", "B3")
    assert record.published is not None
    assert record.failed is not None
    assert record.failed.checks[0].worst == ({"exchange_id": "x"},)
    make(home, "token_sequences", [3])
    assert numbers_of(require(home, "token_sequences", "B3")) == [3]
    assert [audit.passed for audit in read_history(home)] == [True, False, True]


def test_a_failure_far_upstream_closes_every_gate_below_it(home: Home) -> None:
    make(home, "raw_responses", [1])
    make(home, "token_sequences", [1], inputs=(require(home, "raw_responses", "B3"),))
    make(home, "training_shards", [1], inputs=(require(home, "token_sequences", "B3"),))
    make(home, "raw_responses", [2], BAD)
    with pytest.raises(GateClosed, match=r"raw_responses of B3 did not pass .* counts_close"):
        require(home, "training_shards", "B3")


def test_a_newer_upstream_makes_a_version_stale_unless_its_content_is_the_same(home: Home) -> None:
    make(home, "raw_responses", [1])
    make(home, "token_sequences", [1], inputs=(require(home, "raw_responses", "B3"),))
    make(home, "raw_responses", [1])
    assert numbers_of(require(home, "token_sequences", "B3")) == [1]
    make(home, "raw_responses", [1, 2])
    with pytest.raises(GateClosed, match="token_sequences of B3 was made from a version of raw_responses of B3"):
        require(home, "token_sequences", "B3")


@pytest.mark.parametrize("change", ["edit", "remove"])
def test_a_file_that_changed_after_its_audit_is_refused_and_made_good_by_making_it_again(
    home: Home, change: str
) -> None:
    make(home, "token_sequences", [1])
    path = require(home, "token_sequences", "B3").paths[0]
    if change == "edit":
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    else:
        path.unlink()
    with pytest.raises(GateClosed, match="materialise token_sequences of B3 again"):
        require(home, "token_sequences", "B3")
    make(home, "token_sequences", [1])
    assert numbers_of(require(home, "token_sequences", "B3")) == [1]


def test_a_damaged_record_is_refused_and_made_good_by_making_it_again(home: Home) -> None:
    make(home, "token_sequences", [1])
    record = home.audit("token_sequences", "B3")
    record.write_bytes(record.read_bytes()[:40])
    with pytest.raises(GateClosed, match="is damaged"):
        require(home, "token_sequences", "B3")
    make(home, "token_sequences", [2])
    assert numbers_of(require(home, "token_sequences", "B3")) == globbed(home, "token_sequences") == [2]


def grow(home: Home, number: int) -> Audit:
    """A version with one file more: the others are kept as far as they are what was published."""
    with new_version(home, "token_sequences", "B3") as version:
        for file in version.last_good.files if version.last_good is not None else ():
            if not version.keep(file):
                version.write_rows(file.written_as, SCHEMA, [{"n": 100, "ids": []}])
        version.write_parts(SCHEMA, [{"n": number, "ids": []}])
        assert [row["n"] for row in version.rows(columns=["n"])][-1] == number
        return version.audit([GOOD])


def test_a_file_that_is_kept_is_not_written_again(home: Home) -> None:
    first = grow(home, 0)
    path = require(home, "token_sequences", "B3").paths[0]
    written = path.stat().st_mtime_ns
    second = grow(home, 1)
    assert second.files[0] == first.files[0]
    assert path.stat().st_mtime_ns == written
    assert numbers_of(require(home, "token_sequences", "B3")) == [0, 1] == globbed(home, "token_sequences")


def test_a_file_that_changed_is_not_kept(home: Home) -> None:
    grow(home, 0)
    path = require(home, "token_sequences", "B3").paths[0]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    grow(home, 1)
    assert numbers_of(require(home, "token_sequences", "B3")) == [100, 1]


def test_a_refused_version_leaves_the_files_that_it_kept(home: Home) -> None:
    first = grow(home, 0)
    with new_version(home, "token_sequences", "B3") as version:
        assert version.keep(first.files[0])
        version.write_parts(SCHEMA, [{"n": 1, "ids": []}])
        version.audit([BAD])
    assert globbed(home, "token_sequences") == [0]
    grow(home, 2)
    assert numbers_of(require(home, "token_sequences", "B3")) == [0, 2]


def _die_while_writing(root: Path) -> None:
    def rows() -> Iterator[dict[str, object]]:
        for n in range(5_000):
            if n == 4_000:
                os.kill(os.getpid(), signal.SIGKILL)
            yield {"n": n, "ids": []}

    with new_version(Home(root), "token_sequences", "B3") as version:
        version.write_rows("part.parquet", SCHEMA, rows())


def _die_before_the_record(root: Path) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    NewVersion._record = killed  # type: ignore[assignment, method-assign]
    make(Home(root), "token_sequences", [2])


def _die_after_the_record(root: Path) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    version_module.remove_superseded = killed  # type: ignore[assignment]
    with Home(root).locked("token_sequences", "B3"):
        version = NewVersion(Home(root), "token_sequences", "B3", "killed")
        version.folder.mkdir(parents=True)
        version.write_rows("part.parquet", SCHEMA, [{"n": 2, "ids": []}])
        version.audit([GOOD])


@pytest.mark.parametrize(
    ("die", "left"), [(_die_while_writing, [1]), (_die_before_the_record, [1]), (_die_after_the_record, [2])]
)
def test_kill_9_leaves_the_old_version_or_the_new_one_and_the_next_run_cleans_up(home: Home, die, left) -> None:
    make(home, "token_sequences", [1])
    process = multiprocessing.get_context("spawn").Process(target=die, args=(home.root,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    published = require(home, "token_sequences", "B3")
    assert numbers_of(published) == left
    assert published.audit in read_history(home)
    make(home, "token_sequences", [3])
    assert numbers_of(require(home, "token_sequences", "B3")) == globbed(home, "token_sequences") == [3]
    assert [path for path in (home.root / ".staging").rglob("*") if path.is_file()] == []


def _write(root: Path, value: int) -> None:
    for _ in range(10):
        make(Home(root), "token_sequences", [value] * 50)


def test_two_processes_that_write_the_same_dataset_never_mix(home: Home) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write, args=(home.root, value)) for value in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert numbers_of(require(home, "token_sequences", "B3")) in ([1] * 50, [2] * 50)
    assert len(read_history(home)) == 20


def test_a_file_that_was_hashed_is_hashed_anew_once_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "_CLOCK_TICK_NS", 50_000_000)
    path, other = tmp_path / "a", tmp_path / "b"
    found = []

    def hashed() -> None:
        time.sleep(0.1)
        found.append((sha256_of(path), sha256_of(path)))

    path.write_bytes(b"one")
    hashed()
    times = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    hashed()
    other.write_bytes(b"six")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)
    hashed()
    assert found == [(hashlib.sha256(data).hexdigest(),) * 2 for data in (b"one", b"two", b"six")]
