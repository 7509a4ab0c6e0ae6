"""The files of raw_responses: what was published stays, byte for byte, as long as it is still true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eagle_assets.defs import response_parts
from eagle_assets.defs.response_parts import keep_parts, write_local
from eagle_assets.lake import version as version_module
from eagle_assets.lake.audit import Audit, Check, require
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import RAW_RESPONSES
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_reader import journal_folder, open_journal
from eagle_assets.reconstruction.stored import StrayOf, nobody_strays, row_of_record

GOOD = Check("nothing_lost", True, "nothing is")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def answer(home: Home, *names: str) -> None:
    """Answers, as they stand in a journal: one named `unknown` does not say what it cost."""
    with Journal.open(journal_folder(home.root, "B3")) as journal:
        for name in names:
            attempt = journal.ask(f"local-{name}", name, f"key of {name}", {"model": "m"})
            journal.begin(attempt, 200, [("X-Generation-Id", f"gen-{name}")])
            if name == "unknown":
                journal.end(attempt, "the connection broke")
            else:
                message = (
                    f'{{"id": "gen-{name}", "choices": [{{"finish_reason": "stop", "message": {{"content": "x"}}}}]'
                )
                journal.receive(attempt, f'{message}, "usage": {{"completion_tokens": 1, "cost": 0.5}}}}'.encode(), 0.1)
                journal.end(attempt)


def publish(home: Home, stray_of: StrayOf = nobody_strays) -> Audit:
    journal = open_journal(home.root, "B3")
    with new_version(home, "raw_responses", "B3") as version:
        known = keep_parts(version, journal, stray_of)
        version.write_parts(RAW_RESPONSES, (row_of_record(r, "B3", stray_of) for r in journal.read(["a", "b"], known)))
        return version.audit([GOOD])


def rows(home: Home, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in require(home, "raw_responses", "B3").rows(list(columns))]


def test_new_exchanges_come_beside_those_that_were_published(home: Home) -> None:
    answer(home, "b", "a")
    first = publish(home)
    answer(home, "c")
    second = publish(home)
    assert second.files[0] == first.files[0]
    assert [file.written_as for file in second.files] == ["part-00000.parquet", "part-00001.parquet"]
    assert rows(home, "prompt_id") == [("a",), ("b",), ("c",)]
    assert publish(home).identity == second.identity


def test_what_is_told_of_an_exchange_later_is_taken_in(home: Home) -> None:
    answer(home, "a", "unknown")
    first = publish(home)
    with Journal.open(journal_folder(home.root, "B3")) as journal:
        journal.add_generation("gen-unknown", {"total_cost": 0.25})
    second = publish(home)
    assert second.files[0].sha256 != first.files[0].sha256
    assert rows(home, "prompt_id", "cost_usd") == [("a", 0.5), ("unknown", 0.25)]


def test_a_provider_that_is_excluded_later_strays_from_then_on(home: Home) -> None:
    answer(home, "a", "unknown")
    first = publish(home)
    second = publish(home, lambda model, provider: "excluded")
    assert second.files[0].sha256 != first.files[0].sha256
    assert rows(home, "prompt_id", "stray") == [("a", "excluded"), ("unknown", None)]
    assert publish(home, lambda model, provider: "excluded").identity == second.identity


def test_many_small_files_are_put_together(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_parts, "MOST_SMALL_PARTS", 2)
    for number, name in enumerate("abcd", start=1):
        answer(home, name)
        assert len(publish(home).files) == (number if number < 4 else 1)
    assert [prompt for (prompt,) in rows(home, "prompt_id")] == list("abcd")


def local(home: Home, *bodies: str) -> Audit:
    made = [{"exchange_id": f"B1-{n}", "prompt_id": f"{n}", "body": body.encode()} for n, body in enumerate(bodies)]
    with new_version(home, "raw_responses", "B3") as version:
        write_local(version, made)
        return version.audit([GOOD])


def test_a_local_file_that_grew_or_changed_keeps_the_parts_ahead_of_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (version_module, response_parts):
        monkeypatch.setattr(module, "PART_ROWS", 2)
    first = local(home, "a", "b", "c")
    assert [file.rows for file in first.files] == [2, 1]
    grown = local(home, "a", "b", "c", "d")
    assert (grown.files[:2], grown.files[2].rows) == (first.files, 1)
    changed = local(home, "a", "b", "x", "d")
    assert (changed.files[0], [file.rows for file in changed.files]) == (first.files[0], [2, 2])
    assert rows(home, "body") == [(b"a",), (b"b",), (b"x",), (b"d",)]
