"""One response shown: token boundaries with colour and without, differing candidates, evidence, verdict in words."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from eagle_assets.cli import main
from eagle_assets.lake.audit import Check
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import RAW_RESPONSES, TOKEN_SEQUENCES
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.attempts import JournalRecord
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.journal_reader import journal_folder
from eagle_assets.reconstruction.console.reasons_in_words import reason_in_words
from eagle_assets.reconstruction.console.show_command import print_shown
from eagle_assets.reconstruction.console.shown import Shown, find_in_file, find_in_home
from eagle_assets.reconstruction.console.tokens_view import difference_in_words, differences, shown_token, tokens_text
from eagle_assets.reconstruction.files.exchanges import exchanges_in
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.sequences import calibrate_rows, sequence_rows
from eagle_assets.reconstruction.stored import row_of_record
from eagle_assets.reconstruction.verdict import Candidate
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets_tests.reconstruction.served_exchanges import (
    K2_5,
    TOOL,
    VOCABULARY,
    Truth,
    document,
    output_of,
    some_outputs,
)

CALLED = Truth(
    output_of("Look it up.", "One\n\nmoment", [("functions.look_up:0", '{"q": "今天"}')]),
    Situation(K2_5, True, (TOOL,)),
)
TRUTHS = [CALLED, *some_outputs(30, seed=5)]
SHOWN = Shown("x1", "consistent", ["count_closes"], CALLED.ids, [], {"completion_tokens": len(CALLED.ids)}, {})


def printed(shown: Shown, with_ids: bool = False, coloured: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=coloured, color_system="256" if coloured else None)
    print_shown(shown, with_ids, coloured, console)
    return file.getvalue()


def test_an_exchange_of_responses_that_were_refused_the_first_time_is_judged_from_the_journal(tmp_path: Path) -> None:
    routing = {"ignore": ["fireworks", "baseten"]}
    request = {"model": K2_5.name, "messages": [{"role": "user", "content": "hi"}], "provider": routing}
    body = {
        "id": "gen-1",
        "model": K2_5.name,
        "provider": "Fireworks",
        "choices": [{"message": {"content": "Oi", "reasoning": "So"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "cost": 0.001},
    }
    with Journal.open(journal_folder(tmp_path, "B3")) as journal:
        attempt = journal.ask("local-1", "p1", "key", request)
        journal.begin(attempt, 200, [])
        journal.receive(attempt, json.dumps(body).encode(), 0.1)
        journal.end(attempt)
    with new_version(Home(tmp_path), "raw_responses", "B3") as version:
        version.audit([Check("providers_allowed", False, "no", worst=({"exchange_id": "gen-1"},))])
    shown = find_in_home("gen-1", Home(tmp_path), "token_sequences")
    assert (shown.verdict, shown.facts["provider"]) == ("unusable", "Fireworks")
    assert shown.facts["judged"] == "just now, because raw_responses did not pass its audit"


def test_boundaries_are_readable_without_colour() -> None:
    page = printed(SHOWN)
    assert "Look· it· up·.</think>\nOne·⏎⏎\nmoment<|tool_calls_section_begin|>\n" in page
    assert "consistent: one reading explains all that was seen" in page
    assert "are as many as the server counted (count_closes)" in page


def test_ids_come_on_request_and_markers_have_their_names() -> None:
    page = printed(SHOWN, with_ids=True)
    for token in CALLED.ids:
        assert f"{shown_token(token, VOCABULARY)}({token})" in page
    assert "<|im_end|>(163586)" in page


def test_colours_alternate_at_every_boundary() -> None:
    ids = VOCABULARY.encode("one two three four")
    spans = tokens_text(ids, VOCABULARY, False, True).spans
    styles = [str(span.style) for span in spans]
    assert len(styles) == len(ids) == 4
    assert styles[0] == styles[2] != styles[1] == styles[3]
    assert "\x1b[" in printed(SHOWN, coloured=True)


@given(st.lists(st.integers(0, K2_5.vocabulary.size + 10), max_size=30))
def test_any_ids_can_be_shown_and_no_token_is_left_out(ids: list[int]) -> None:
    for coloured in (False, True):
        page = tokens_text(ids, VOCABULARY, True, coloured).plain
        place = 0
        for token in ids:
            place = page.index(str(token), page.index(shown_token(token, VOCABULARY), place))


def test_parts_of_characters_show_as_bytes() -> None:
    ids = [VOCABULARY.id_of_bytes[bytes([byte])] for byte in "今".encode()]
    assert tokens_text(ids, VOCABULARY, False, False).plain == "‹e4›·‹bb›·‹8a›"
    assert shown_token(VOCABULARY.size + 7, VOCABULARY) == "‹unknown›"


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_differences_turn_an_output_into_the_candidate(ids: list[int], candidate: list[int]) -> None:
    made, end = [], 0
    for place in differences(ids, candidate):
        made += [*ids[end : place.start], *place.instead]
        assert tuple(ids[place.start : place.end]) != place.instead
        end = place.end
    assert [*made, *ids[end:]] == candidate
    assert (differences(ids, candidate) == []) == (ids == candidate)


def test_candidates_are_marked_where_they_differ_and_told_apart_in_words() -> None:
    ids, other = output_of(None, " Oi"), output_of(None, "Oi")
    (place,) = differences(ids, other)
    assert difference_in_words(place, ids, VOCABULARY) == "at token 0: 'Oi' 126078 instead of ' O' 642 'i' 72"
    shown = replace(SHOWN, output_ids=ids, candidates=[Candidate(other, "blanks round added tokens", 1)])
    page = printed(shown)
    assert "[ O]·[i]<|im_end|>" in page
    assert "blanks round added tokens; its count is +1 off" in page
    longer = replace(shown, candidates=[Candidate([*ids[:-1], 13, ids[-1]], "verbatim", None)])
    assert "▲<|im_end|>" in printed(longer)
    assert "'.' 13 instead of nothing" in printed(longer)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [document(truth, VERBATIM, f"x{number}") for number, truth in enumerate(TRUTHS)]
    lines.append(document(CALLED, BLANKS_ROUND_ADDED_TOKENS, "lone", "Harbour AI"))
    lines.append({**document(CALLED, VERBATIM, "late"), "status": 429, "body": '{"error": {"code": 429}}'})
    path = tmp_path / "recorded.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_an_exchange_of_a_file_is_judged_under_what_the_file_says_of_its_provider(file: Path) -> None:
    assert find_in_file("x0", file).output_ids == CALLED.ids
    shown = find_in_file("x1", file)
    assert (shown.verdict, shown.output_ids) == ("consistent", TRUTHS[1].ids)
    result = CliRunner().invoke(main, ["show", "x0", "--file", str(file), "--ids"])
    assert result.exit_code == 0, result.output
    assert "Look(" in result.output
    assert "verbatim" in result.output
    assert "of lines with this id" not in result.output
    alone = CliRunner().invoke(main, ["show", "lone", "--file", str(file)]).output
    assert "unverified" in alone
    assert "do not settle how it serves and counts" in alone
    late = CliRunner().invoke(main, ["show", "late", "--file", str(file)]).output
    assert "There are no ids to show" in late
    assert "the HTTP status is 429" in late


def test_an_id_that_several_lines_have_is_said_to_be_one(file: Path) -> None:
    line = {**document(TRUTHS[1], VERBATIM, "x0")}
    with file.open("a", encoding="utf-8") as more:
        more.write(json.dumps(line) + "\n")
    assert find_in_file("x0", file).output_ids == CALLED.ids
    shown = CliRunner().invoke(main, ["show", "x0", "--file", str(file)]).output
    assert "the first of 2; `reconstruct` has a verdict for each" in shown


def record_of(truth: Truth, number: int) -> JournalRecord:
    return JournalRecord(
        exchange=exchange_of(document(truth, VERBATIM, f"x{number}")),
        local_id=f"local-{number}",
        prompt_id=f"p{number}",
        request_key=f"key-{number}",
        attempt=1,
        outcome="answered",
        reason=None,
        generation_id=f"x{number}",
        cost_usd=0.25,
        asked_at=1.0,
        ended_at=2.0,
    )


def test_the_home_shows_what_was_published(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    raw = [row_of_record(record_of(truth, n), "B3") for n, truth in enumerate(TRUTHS)]
    with new_version(home, "raw_responses", "B3") as version:
        version.write_rows("part.parquet", RAW_RESPONSES, raw)
        version.audit([Check("nothing_lost", True, "all there")])
    said = failing(["show", "x0"], home)
    assert "collected but not judged yet; run: eagle-assets run B3 --until token_sequences" in said
    with new_version(home, "token_sequences", "B3") as version:
        version.write_rows("part.parquet", TOKEN_SEQUENCES, sequence_rows(iter(raw), calibrate_rows(iter(raw))))
        version.audit([Check("counts_close", True, "all close")])
    shown = find_in_home("x1", home, "token_sequences")
    assert (shown.verdict, shown.output_ids) == ("consistent", TRUTHS[1].ids)
    assert shown.facts["from"] == "B3, prompt p1"
    assert shown.facts["cost"] == "$0.250000"
    result = CliRunner().invoke(main, ["show", "x0"], env={"EAGLE_ASSETS_HOME": str(home.root)})
    assert result.exit_code == 0, result.output
    assert "Look· it· up·." in result.output


def test_a_version_that_failed_its_audit_does_not_hide_the_last_good_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rows = [row_of_record(record_of(CALLED, 1), "B3")]
    for passed in (True, False):
        with new_version(home, "token_sequences", "B3") as version:
            version.write_rows("part.parquet", TOKEN_SEQUENCES, sequence_rows(iter(rows), calibrate_rows(iter(rows))))
            version.audit([Check("counts_close", passed, "as it is")])
    assert find_in_home("x1", home, "token_sequences").output_ids == CALLED.ids


def test_what_is_not_there_is_said_in_one_sentence(file: Path, tmp_path: Path) -> None:
    said = failing(["show", "nope"], Home(tmp_path / "nowhere"))
    assert "no exchange nope" in said
    assert "eagle-assets query exchanges" in said
    assert f"jq -r .exchange_id {file}" in failing(["show", "nope", "--file", str(file)], Home(tmp_path))


def failing(arguments: list[str], home: Home) -> str:
    result = CliRunner().invoke(main, arguments, env={"EAGLE_ASSETS_HOME": str(home.root)})
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "Traceback" not in result.output
    return result.output


SHARED = Path(__file__).parents[4] / "shared"
FILES = sorted(SHARED.glob("recorded/*.jsonl")) + sorted(SHARED.glob("truth/exchanges_server[yw]*.jsonl"))


def test_every_reason_has_a_sentence(file: Path) -> None:
    for path in (file, *FILES):
        exchanges = list(exchanges_in([path]))
        reasons = {reason for said in reconstruct(exchanges, calibrate(exchanges)) for reason in said.reasons}
        assert [reason for reason in reasons if reason_in_words(reason) == reason] == []
    assert reason_in_words("count_mismatch: +2").endswith("its count minus theirs): +2")
    assert reason_in_words("finish_content_filter") == "the finish reason is content_filter"
