"""What is kept of where attempts lie saves time, and never changes what a journal says."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eagle_assets.openrouter.attempts import JournalRecord
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_index import JournalIndex
from eagle_assets.openrouter.journal_reader import JournalReader
from eagle_assets.openrouter.record_file import JournalError


def add(folder: Path, *numbers: int, left_open: bool = False) -> None:
    """Attempts in threes that lie interleaved; the last may be left open, as by a process that was killed."""
    with Journal.open(folder) as journal:
        for begin in range(0, len(numbers), 3):
            attempts = [
                journal.ask(f"local-{number}", f"p{number}", "k", {"number": number})
                for number in numbers[begin : begin + 3]
            ]
            for piece in range(4):
                for attempt in attempts:
                    if piece == 0:
                        journal.begin(attempt, 200, [("x-generation-id", f"gen-{attempt.number}")])
                    journal.receive(attempt, b"%d of %d;" % (piece, attempt.number), piece / 8)
            for attempt in attempts:
                if not (left_open and attempt.prompt_id == f"p{numbers[-1]}"):
                    journal.end(attempt)


def records(folder: Path, anew: bool = False) -> list[JournalRecord]:
    """What a journal says, from what is kept of it, or without that."""
    if anew:
        folder = Path(shutil.copytree(folder, folder.with_name("anew"), dirs_exist_ok=True))
        for name in ("exchanges.index", "exchanges.places"):
            (folder / name).unlink(missing_ok=True)
    return list(JournalReader(folder).read())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    add(tmp_path / "journal", *range(7), left_open=True)
    return tmp_path / "journal"


def test_what_is_kept_says_what_the_journal_says(folder: Path) -> None:
    assert [r.exchange.request["number"] for r in records(folder)] == list(range(6))
    assert records(folder) == records(folder, anew=True)
    add(folder, 7, 8)  # and ends the one that was left open
    assert [r.exchange.request["number"] for r in records(folder)] == [*range(6), 6, 7, 8]
    assert records(folder) == records(folder, anew=True)
    with Journal.open(folder) as journal:
        assert journal.ask("local", "p3", "k", {}).ordinal == 2
        assert JournalReader(folder).under_way == 1


def test_the_part_that_is_known_is_not_read_again(folder: Path) -> None:
    path = folder / "exchanges.records"
    data = bytearray(path.read_bytes())
    where = data.index(b"2 of 4;")
    data[where] ^= 1
    path.write_bytes(data)
    assert JournalReader(folder).has_ended([f"local-{number}" for number in range(7)]).tolist() == [True] * 6 + [False]
    with pytest.raises(JournalError, match=r"the record at byte \d+ is damaged; remove exchanges.index beside it"):
        records(folder)
    with Journal.open(folder) as journal:
        assert journal.damage == ()
    (folder / "exchanges.index").unlink()
    with Journal.open(folder) as journal:
        (damage,) = journal.damage
    assert damage.offset < where < damage.offset + damage.size
    assert [r.exchange.request["number"] for r in records(folder)] == [0, 1, 2, 3, 4, 5]
    assert [r.exchange.transport_error is None for r in records(folder)] == [True] * 3 + [False] * 3


def test_an_index_that_is_damaged_is_not_believed(folder: Path) -> None:
    index, whole = folder / "exchanges.index", records(folder)
    data = index.read_bytes()
    for where in range(len(data)):
        index.write_bytes(data[:where] + bytes([data[where] ^ 4]) + data[where + 1 :])
        assert JournalIndex.kept(folder / "exchanges.records").covers == 0
    for size in range(len(data)):
        index.write_bytes(data[:size])
        assert JournalIndex.kept(folder / "exchanges.records").covers == 0
    assert records(folder) == whole


def test_an_index_of_another_journal_is_not_believed(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "before")
    add(folder, *range(7, 12))
    before, now = tmp_path / "before" / "exchanges.records", folder / "exchanges.records"
    (tmp_path / "longer").mkdir()
    other = tmp_path / "longer" / "exchanges.records"
    other.write_bytes(before.read_bytes() + b"x" * (now.stat().st_size - before.stat().st_size))
    for path in (before, other):
        for name in ("exchanges.index", "exchanges.places"):
            shutil.copy(folder / name, path.with_name(name))
        assert JournalIndex.kept(path).covers == 0
        assert JournalReader(path.parent).has_ended([f"local-{number}" for number in range(6)]).all()


def test_places_that_are_gone_or_wrong_are_no_records(folder: Path) -> None:
    places, whole = folder / "exchanges.places", records(folder)
    data = bytearray(places.read_bytes())
    data[8] ^= 1
    places.write_bytes(data)
    with pytest.raises(JournalError, match=r"is damaged; remove exchanges\.index"):
        records(folder)
    places.unlink()
    assert records(folder) == whole


def test_it_is_kept_again_when_much_has_come(folder: Path) -> None:
    path = folder / "exchanges.records"
    add(folder, *range(100, 200))
    covers = JournalIndex.kept(path).covers
    assert covers == path.stat().st_size
    add(folder, 200)
    assert JournalIndex.kept(path).covers == covers < path.stat().st_size
    add(folder, *range(201, 220))
    assert JournalIndex.kept(path).covers == path.stat().st_size
    assert records(folder) == records(folder, anew=True)


WRITER = """
import sys
from pathlib import Path
from eagle_assets_tests.openrouter.test_journal_index import add
number = int(sys.argv[2])
while True:
    print(number, flush=True)
    add(Path(sys.argv[1]), *range(number, number + 4))
    number += 4
"""


def test_kill_9_at_any_instant_leaves_an_index_that_says_the_same(tmp_path: Path) -> None:
    """A writer that opens and closes its journal over and over is killed; another goes on."""
    instants, start, folder, ended = random.Random(5), 0, tmp_path / "journal", set[int]()
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(start)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            begun = [int(writer.stdout.readline()) for _ in range(instants.randrange(2, 60))]
            writer.send_signal(signal.SIGKILL)
            begun += map(int, writer.stdout.read().split())
        ended.update(range(start, begun[-1]))
        start = begun[-1] + 4
        said = records(folder)
        assert said == records(folder, anew=True)
        numbers = [r.exchange.request["number"] for r in said]
        assert len(numbers) == len(set(numbers))
        assert ended <= set(numbers)
    assert JournalIndex.kept(folder / "exchanges.records").covers > 0
