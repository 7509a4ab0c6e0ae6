"""The files of prompts: what was rendered stays as long as it would come out the same, and nothing else is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eagle_assets.configuration import Configuration
from eagle_assets.defs import prompt_parts
from eagle_assets.defs.prompt_parts import PromptsFile, wanted_as_published, write_prompts
from eagle_assets.lake.audit import Audit, Check, GateClosed, Published, require
from eagle_assets.lake.home import Home
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.endpoints import Price
from eagle_assets.openrouter.requests import PromptsError, build_request, read_prompts, request_key

PRICE = Price(prompt=1e-6, completion=2e-6, request=0.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(prompt_parts, "PART_ROWS", 2)
    return Home(tmp_path)


def prompts_file(home: Home, *texts: str, **settings: Any) -> PromptsFile:
    """A prompts file of these texts, each prompt called after its text, as a datasets file says that it is asked."""
    path = home.root / "B3.jsonl"
    rows = [{"prompt_id": f"id of {text}", "messages": [{"role": "user", "content": text}]} for text in texts]
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n\n" for row in rows))
    dataset = {"source": "openrouter", "prompts": str(path), "max_tokens": 64, **settings}
    configuration = Configuration.model_validate({"datasets": {"B3": dataset}})
    return PromptsFile("B3", configuration.bought["B3"], configuration)


def publish(home: Home, file: PromptsFile, price: Price = PRICE) -> Audit:
    problems: list[dict[str, Any]] = []
    with new_version(home, "prompts", "B3") as version:
        write_prompts(version, file, price, problems)
        assert problems == []
        return version.audit([Check("prompts_are_valid", True, "all are good")])


def rows(home: Home, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in require(home, "prompts", "B3").rows(list(columns))]


def test_rows_that_are_added_leave_the_parts_before_them_as_they_are(home: Home) -> None:
    first = publish(home, prompts_file(home, "a", "b", "c"))
    assert [file.rows for file in first.files] == [2, 1]
    grown = publish(home, prompts_file(home, "a", "b", "c", "é"))
    assert (grown.files[0], [file.rows for file in grown.files]) == (first.files[0], [2, 2])
    assert [prompt for (prompt,) in rows(home, "prompt_id")] == ["id of a", "id of b", "id of c", "id of é"]
    assert publish(home, prompts_file(home, "a", "b", "c", "é")).files == grown.files


def test_rows_that_are_taken_out_leave_the_others_in_order(home: Home) -> None:
    publish(home, prompts_file(home, "a", "b", "c", "d", "e"))
    publish(home, prompts_file(home, "c", "d", "x", "e"))
    assert [prompt for (prompt,) in rows(home, "prompt_id")] == ["id of c", "id of d", "id of x", "id of e"]


def test_what_a_prompt_costs_or_how_it_is_asked_makes_it_anew(home: Home) -> None:
    publish(home, prompts_file(home, "a"))
    (before,) = rows(home, "request_key", "max_tokens", "worst_case_usd")
    publish(home, prompts_file(home, "a"), Price(prompt=1e-6, completion=4e-6, request=0.0))
    (dearer,) = rows(home, "request_key", "max_tokens", "worst_case_usd")
    assert (dearer[0], dearer[1]) == (before[0], before[1])
    assert dearer[2] > before[2]
    assert (
        wanted_as_published(require(home, "prompts", "B3"), prompts_file(home, "a")).request_keys[0].as_py()
        == before[0]
    )
    publish(home, prompts_file(home, "a", max_tokens=65))
    (longer,) = rows(home, "request_key", "max_tokens", "worst_case_usd")
    assert longer[0] != before[0]
    assert longer[1] == 65


def test_what_is_wanted_is_what_was_published_read_where_it_is_asked(home: Home) -> None:
    file = prompts_file(home, "a", "b", "c", "d", "e")
    publish(home, file)
    wanted = wanted_as_published(require(home, "prompts", "B3"), file)
    requests = [
        build_request(prompt, file.dataset, file.configuration) for prompt in read_prompts(file.dataset.prompts)
    ]
    assert wanted.prompt_ids.to_pylist() == [f"id of {text}" for text in "abcde"]
    assert wanted.request_keys.to_pylist() == list(map(request_key, requests))
    for places in ([0, 1, 2, 3, 4], [1, 4], [2], []):
        read = list(wanted.read(np.array(places, dtype=np.int64)))
        assert [(r.prompt_id, r.request) for r in read] == [(f"id of {'abcde'[p]}", requests[p]) for p in places]
        assert [request_key(r.request) for r in read] == [r.request_key for r in read]
        assert all(list(r.request) == list(requests[0]) and r.prompt_tokens > 0 for r in read)


def test_files_that_are_superseded_while_answers_are_waited_for_are_read_all_the_same(home: Home) -> None:
    file = prompts_file(home, "a", "b", "c")
    publish(home, file)
    reading = wanted_as_published(require(home, "prompts", "B3"), file).read(np.arange(3))
    assert next(reading).prompt_id == "id of a"
    publish(home, prompts_file(home, "x"))
    assert [request.prompt_id for request in reading] == ["id of b", "id of c"]


@pytest.mark.parametrize(
    ("texts", "settings"), [(("a", "b"), {}), (("a", "b", "C"), {}), (("a", "b", "c"), {"max_tokens": 63})]
)
def test_what_changed_since_is_not_asked(home: Home, texts: tuple[str, ...], settings: dict[str, Any]) -> None:
    publish(home, prompts_file(home, "a", "b", "c"))
    published: Published = require(home, "prompts", "B3")
    with pytest.raises(GateClosed, match="materialise it again"):
        wanted_as_published(published, prompts_file(home, *texts, **settings))


def test_a_name_that_came_in_another_part_and_a_row_that_is_none_are_named(home: Home) -> None:
    with pytest.raises(PromptsError, match="line 7: prompt_id 'id of a' is already on line 1"):
        publish(home, prompts_file(home, "a", "b", "c", "a"))
    file = prompts_file(home, "a", "b", "c")
    file.dataset.prompts.write_bytes(file.dataset.prompts.read_bytes() + b"{}\n[]\n")
    with pytest.raises(PromptsError, match=r"2 rows cannot be used: line 7: prompt_id is missing.*; line 8: it is no"):
        publish(home, file)
    with pytest.raises(PromptsError, match="holds no prompt"):
        publish(home, prompts_file(home))
