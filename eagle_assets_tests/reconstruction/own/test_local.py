"""Local responses: read strictly, proved against their own text, and carried through as they are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_assets.openrouter.attempts import JournalRecord
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.own.local import raw_row, sequence_row
from eagle_assets.reconstruction.own.local_file import LocalResponsesError, read_local_responses
from eagle_assets.reconstruction.stored import exchange_of_row, row_of_record
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
VOCABULARY, MARKERS = TARGET.vocabulary, TARGET.markers
PROMPT = [*VOCABULARY.encode("Say hello"), MARKERS.think_begin]
OUTPUT = [*VOCABULARY.encode("They want hello."), MARKERS.think_end, *VOCABULARY.encode("Hello!\n"), MARKERS.stop]


def line(**changes: Any) -> bytes:
    row = {"prompt_id": "p1", "prompt_ids": PROMPT, "output_ids": OUTPUT, "finish_reason": "stop", **changes}
    return json.dumps(row).encode() + b"\n"


def sequence_of(tmp_path: Path, content: bytes) -> dict[str, Any]:
    path = tmp_path / "B1.jsonl"
    path.write_bytes(content)
    ((row, as_it_stands),) = read_local_responses(path, VOCABULARY)
    return sequence_row(raw_row(row, as_it_stands, "B1", TARGET), TARGET)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "They want hello.</think>Hello!\n",
        "They want hello.Hello!\n",
        "They want hello.</think>Hello!\n<|im_end|>",
    ],
)
def test_ids_that_agree_with_their_text_are_exact_and_unchanged(tmp_path: Path, text: str | None) -> None:
    sequence = sequence_of(tmp_path, line(text=text) if text is not None else line())
    assert (sequence["verdict"], sequence["output_ids"], sequence["prompt_ids"]) == ("exact", OUTPUT, PROMPT)
    assert sequence["exchange_id"] == "B1-p1"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"text": "They want hello.Hello?"}, "given_ids_differ_from_text"),
        ({"finish_reason": "length"}, "stop_token_in_cut_output"),
        ({"output_ids": OUTPUT[:-1]}, "stop_token_missing"),
        ({"output_ids": [*OUTPUT, 11]}, "ids_after_stop"),
    ],
)
def test_a_row_that_disagrees_with_itself_is_contradicted(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    sequence = sequence_of(tmp_path, line(**changes))
    assert (sequence["verdict"], sequence["reasons"]) == ("contradicted", [reason])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "holds no response"),
        (b"\n\n", "holds no response"),
        (gzip.compress(line()), "cannot be read: it is compressed with gzip"),
        (line() + b"{", "line 2: "),
        (line() + line(), "line 2: prompt_id 'p1' came before"),
        (line(output_ids=[]), "line 1: output_ids is empty"),
        (line(output_ids=[VOCABULARY.size]), "line 1: output_ids holds an id outside the vocabulary"),
        (line(prompt_ids=[-1]), "line 1: prompt_ids holds an id outside the vocabulary"),
        (line(output_ids=[1.5]), "line 1: output_ids[0] is a number with a fraction, not a whole number"),
        (line(finish_reason=[]), "line 1: finish_reason is a list, not text"),
        (b'{"prompt_id": "p1"}', "line 1: prompt_ids is missing"),
        (b"[]", "line 1: it is a list, not a JSON object"),
        (b'{"prompt_id": "p1', "line 1: it is no JSON: it ends in the middle"),
        (b'{"prompt_id": "\xff"}', "line 1: it is not UTF-8; save the file as UTF-8"),
        (b"\xff\xfe", "cannot be read: it is UTF-16; save it as UTF-8"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_its_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "B1.jsonl"
    path.write_bytes(content)
    with pytest.raises(LocalResponsesError) as refusal:
        list(read_local_responses(path, VOCABULARY))
    assert complaint in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_every_row_that_cannot_be_used_is_counted_and_the_first_few_are_named(tmp_path: Path) -> None:
    path = tmp_path / "B1.jsonl"
    path.write_bytes(b"".join(line(prompt_id=f"p{n}", output_ids=[] if n % 2 else OUTPUT) for n in range(1, 15)))
    used = []
    with pytest.raises(LocalResponsesError) as refusal:
        used.extend(read_local_responses(path, VOCABULARY))
    assert len(used) == len(refusal.value.problems) == 7
    said = str(refusal.value)
    assert said.startswith(f"{path}: 7 rows cannot be used: line 1: output_ids is empty; line 3: output_ids is empty;")
    assert said.endswith("; line 9: output_ids is empty; and 2 more")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LocalResponsesError, match="cannot be read: Is a directory"):
        list(read_local_responses(tmp_path, VOCABULARY))
    with pytest.raises(LocalResponsesError, match="does not exist; mend `responses`"):
        list(read_local_responses(tmp_path / "B1.jsonl", VOCABULARY))


json_objects = st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.none(), max_size=3)


@given(
    body=st.binary(),
    status=st.none() | st.integers(100, 599),
    request=json_objects,
    generation=st.none() | json_objects,
    other=json_objects,
    arrivals=st.lists(st.tuples(st.integers(0, 2**40), st.floats(0, 1e6)), max_size=4).map(tuple),
    error=st.none() | st.text(),
)
def test_an_exchange_survives_its_row(
    body: bytes, status: int | None, request: Any, generation: Any, other: Any, arrivals: Any, error: str | None
) -> None:
    exchange = Exchange("x", "m", None, status, request, body, error, generation, arrivals, order=1.0, other=other)
    record = JournalRecord(
        exchange=exchange,
        local_id="local-1",
        prompt_id="p",
        request_key="k",
        attempt=1,
        outcome="answered",
        reason=None,
        generation_id=None,
        cost_usd=None,
        asked_at=0.0,
        ended_at=1.0,
    )
    assert exchange_of_row(row_of_record(record, "B3")) == exchange
