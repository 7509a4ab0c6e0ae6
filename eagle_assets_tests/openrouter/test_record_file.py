import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.openrouter.record_file import JournalError, RecordFile, read_records

PAYLOADS = st.lists(st.binary(min_size=1, max_size=60), max_size=6)


def written(path: Path, payloads: list[bytes]) -> list[int]:
    """Write the records; the sizes of the file after each."""
    file = RecordFile.open(path)
    sizes = [file.size]
    for payload in payloads:
        file.append(payload[:3], payload[3:])
        sizes.append(file.size)
    file.close()
    return sizes


@settings(max_examples=60, deadline=None)
@given(payloads=PAYLOADS, later=PAYLOADS, data=st.data())
def test_a_file_cut_anywhere_keeps_every_whole_record_and_goes_on(
    payloads: list[bytes], later: list[bytes], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records"
        sizes = written(path, payloads)
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        kept = payloads[: sum(size <= cut for size in sizes[1:])]
        assert list(read_records(path)) == kept

        file = RecordFile.open(path)
        clean = cut in sizes or cut == 0
        assert (file.damage is None) == clean
        if file.damage is not None:
            start = file.damage.offset
            assert file.damage.copy.read_bytes() == whole[start:cut]
            assert file.damage.size == cut - start
        for payload in later:
            file.append(payload)
        file.close()
        assert list(read_records(path)) == kept + later


@settings(max_examples=60, deadline=None)
@given(payloads=PAYLOADS.filter(bool), data=st.data())
def test_a_changed_byte_ends_the_file_before_its_record(payloads: list[bytes], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records"
        sizes = written(path, payloads)
        damaged = bytearray(path.read_bytes())
        where = data.draw(st.integers(sizes[0], len(damaged) - 1))
        damaged[where] ^= data.draw(st.integers(1, 255))
        path.write_bytes(damaged)
        assert list(read_records(path)) == payloads[: sum(size <= where for size in sizes[1:])]


class Killed(BaseException):
    pass


@pytest.fixture
def written_and_killed(tmp_path: Path) -> bytes:
    """Two records, and a third as it lies before its last byte marks it as finished."""
    path = tmp_path / "records"
    written(path, [b"one", b"two"])
    file = RecordFile.open(path)
    with pytest.MonkeyPatch.context() as patch:

        def killed(*_: object) -> None:
            raise Killed

        patch.setattr(os, "pwrite", killed)
        patch.setattr(os, "ftruncate", lambda *_: None)  # who is killed does not tidy up
        with pytest.raises(Killed):
            file.append(b"x" * 300)
    return path.read_bytes()


def test_a_record_that_was_never_finished_is_no_damage(tmp_path: Path, written_and_killed: bytes) -> None:
    path = tmp_path / "records"
    start = len(written_and_killed) - 308
    for size in range(start + 4, len(written_and_killed) + 1):
        path.write_bytes(written_and_killed[:size])
        assert list(read_records(path)) == [b"one", b"two"]
        file = RecordFile.open(path)
        assert file.damage is None
        assert file.size == start
        file.append(b"three")
        file.close()
        assert list(read_records(path)) == [b"one", b"two", b"three"]
    assert [found.name for found in tmp_path.iterdir()] == ["records"]


def test_what_lies_behind_an_unfinished_record_is_damage_and_is_kept(tmp_path: Path, written_and_killed: bytes) -> None:
    path = tmp_path / "records"
    path.write_bytes(written_and_killed + b"more")
    file = RecordFile.open(path)
    assert file.damage is not None
    assert file.damage.copy.read_bytes() == written_and_killed[-308:] + b"more"


def test_a_hole_of_zeros_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "records"
    written(path, [b"one"])
    with path.open("ab") as file:
        file.write(bytes(4096))
    reopened = RecordFile.open(path)
    assert reopened.damage is not None
    assert reopened.damage.size == 4096
    assert "4096 bytes" in str(reopened.damage)
    assert list(read_records(path)) == [b"one"]


def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"something else altogether, long enough")
    with pytest.raises(JournalError, match="no journal of this program"):
        RecordFile.open(path)
    assert path.read_bytes() == b"something else altogether, long enough"


FULL = """
import resource, signal, sys
from pathlib import Path
from eagle_assets.openrouter.record_file import JournalError, RecordFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = RecordFile.open(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    while True:
        file.append(b"x" * 999)
except JournalError as error:
    print(error)
file.append(b"small")
file.close()
"""


def test_a_disk_that_is_full_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "records"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert "cannot write to" in done.stdout
    assert list(read_records(path)) == [b"x" * 999] * 9 + [b"small"]
    assert RecordFile.open(path).damage is None
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 10_000
    assert os.path.getsize(path) < 10_000
