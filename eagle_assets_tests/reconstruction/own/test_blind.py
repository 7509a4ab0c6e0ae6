"""The inverse tried on outputs whose ids are known, and what the measured departures say of bought ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from eagle_assets.demo.page import closing_page
from eagle_assets.lake.audit import Check
from eagle_assets.lake.catalogue import build_catalogue
from eagle_assets.lake.home import Home
from eagle_assets.lake.queries import run_query
from eagle_assets.lake.schemas import RAW_RESPONSES, TOKEN_SEQUENCES
from eagle_assets.lake.version import new_version
from eagle_assets.reconstruction.own.blind import BlindReport, Tally, Tried, blind_error, with_blind_report
from eagle_assets.reconstruction.own.departures import Departures, departures, may_be_wrong
from eagle_assets.reconstruction.own.known_outputs import KnownOutput, evenly_spread, known_outputs, request_of, some_of
from eagle_assets.reconstruction.own.share import Share
from eagle_assets.serving.servers import SGLANG_0_5_23, VLLM_0_33
from eagle_assets.targets.prompt import prompt_ids
from eagle_assets_tests.reconstruction.served_exchanges import K2_5, MARKERS, TOOL, VOCABULARY, output_of, some_outputs

BOTH = tuple((server, streamed) for server in (VLLM_0_33, SGLANG_0_5_23) for streamed in (False, True))
THINKING = prompt_ids(K2_5, {"model": K2_5.name, "messages": [{"role": "user", "content": "Hi"}]})


def prompt(thinking: bool = True, tools: bool = False) -> list[int]:
    request: dict[str, Any] = {"model": K2_5.name, "messages": [{"role": "user", "content": "Hi"}]}
    if tools:
        request["tools"] = [TOOL]
    if not thinking:
        request["reasoning"] = {"enabled": False}
    return prompt_ids(K2_5, request)


def canonical_outputs(count: int, seed: int = 3) -> list[KnownOutput]:
    return [
        KnownOutput(prompt(truth.situation.thinking, bool(truth.situation.tools)), truth.ids)
        for truth in some_outputs(count, seed)
    ]


def answer(*pieces: str) -> list[int]:
    """A thinking output whose answer is made of these pieces, each a token of its own."""
    ids = [VOCABULARY.id_of_bytes[piece.encode()] for piece in pieces]
    return [*VOCABULARY.encode("So."), MARKERS.think_end, *ids, MARKERS.stop]


SILENT = answer("Seg", "mentation")
LONGER = answer("S", "egment", "ation")


def test_the_examples_are_what_they_are_meant_to_be() -> None:
    canonical = output_of("So.", "Segmentation")
    assert VOCABULARY.decode(SILENT) == VOCABULARY.decode(LONGER) == VOCABULARY.decode(canonical)
    assert (len(SILENT) - len(canonical), len(LONGER) - len(canonical)) == (0, 1)
    assert canonical not in (SILENT, LONGER)


def test_canonical_outputs_come_back_right_and_none_is_falsely_exact() -> None:
    report = blind_error(canonical_outputs(60), K2_5, BOTH)
    whole = report.tally()
    assert whole.outputs == 60 * len(BOTH)
    assert whole.false_exact == 0
    assert whole.right >= 0.98 * whole.trusted
    verbatim = report.tally(SGLANG_0_5_23.name)
    assert verbatim.right == verbatim.trusted >= 0.7 * verbatim.outputs
    assert report.departures == Departures(60, 0, 0)
    assert report.tally(length="under 100") + report.tally(length="100 to 999") == whole
    assert report.tally(VLLM_0_33.name) + report.tally(SGLANG_0_5_23.name) == whole
    assert report.tally(streamed=True) + report.tally(streamed=False) == whole
    assert whole.exact == 0  # nothing shows that deltas are the model's steps, as long as it stays on the path


def test_streams_are_exact_where_outputs_leave_the_path_with_their_counts() -> None:
    outputs = [*canonical_outputs(60), *[KnownOutput(THINKING, LONGER)] * 3]
    report = blind_error(outputs, K2_5, ((SGLANG_0_5_23, False), (SGLANG_0_5_23, True)))
    assert report.tally(streamed=True).exact > report.tally(streamed=False).exact == 0
    assert report.tally().false_exact == 0


def test_what_left_the_path_in_silence_shows_in_streams_only() -> None:
    report = blind_error([*canonical_outputs(60), KnownOutput(THINKING, SILENT)], K2_5, ((SGLANG_0_5_23, False),))
    whole = report.tally()
    assert (report.departures.differing, report.departures.silent) == (1, 1)
    assert whole.trusted - whole.right == 1
    streamed = blind_error([*canonical_outputs(60), KnownOutput(THINKING, SILENT)], K2_5, ((SGLANG_0_5_23, True),))
    assert streamed.tally().trusted == streamed.tally().right
    assert streamed.tally().false_exact == 0


@pytest.mark.parametrize(
    ("ids", "silent"),
    [
        pytest.param(SILENT, 1, id="another segmentation of the same length"),
        pytest.param(LONGER, 0, id="a token more"),
        pytest.param([*answer("So")[:-2], VOCABULARY.id_of_bytes[b"\xe4"]], 0, id="ends inside a character"),
        pytest.param([*output_of("So.", "Yes."), MARKERS.call_end], 0, id="a marker where none can be"),
    ],
)
def test_departures_are_told_from_the_canonical_path(ids: list[int], silent: int) -> None:
    outputs = [*canonical_outputs(5), KnownOutput(THINKING, ids)]
    assert departures(outputs, K2_5) == Departures(6, 1, silent)


def test_a_dataset_without_outputs_is_no_mistake() -> None:
    assert blind_error([], K2_5, BOTH) == BlindReport(Departures(), ())


def test_the_request_is_read_from_the_ids() -> None:
    plain = output_of("So.", "Yes.")
    assert request_of(KnownOutput(prompt(), plain), K2_5) == {"model": K2_5.name}
    instant = request_of(KnownOutput(prompt(thinking=False), output_of(None, "Yes.")), K2_5)
    assert instant["reasoning"] == {"enabled": False}
    assert len(request_of(KnownOutput(prompt(tools=True), plain), K2_5)["tools"]) == 1
    calling = output_of("So.", "", [("functions.look_up:1", "{}"), ("functions.find:2", "{}")])
    earlier = [*prompt(tools=True)[:-4], MARKERS.call_begin, *prompt()[-4:]]
    request = request_of(KnownOutput(earlier, calling), K2_5)
    assert [tool["function"]["name"] for tool in request["tools"]] == ["look_up", "find"]
    assert [len(message["tool_calls"]) for message in request["messages"]] == [1]


@given(st.integers(0, 300), st.integers(1, 50))
def test_what_is_taken_is_spread_evenly(total: int, most: int) -> None:
    positions = list(some_of(range(total), total, most))
    assert positions == list(evenly_spread(total, most))
    assert len(positions) == min(total, most)
    gaps = {after - before for before, after in pairwise(positions)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_only_ids_that_are_proved_are_taken_for_true() -> None:
    rows = [{"verdict": v, "prompt_ids": [1], "output_ids": [2]} for v in ("exact", "contradicted", "unusable")]
    assert known_outputs(rows) == [KnownOutput([1], [2])]


@given(st.integers(0, 1_000), st.integers(1, 1_000))
def test_an_interval_holds_its_share(found: int, of: int) -> None:
    found = min(found, of)
    low, high = Share(found, of).interval
    assert 0 <= low <= found / of <= high <= 1
    assert (low == 0) == (found == 0)


def test_intervals_against_published_ones() -> None:
    assert Share(0, 0).interval == (0, 1)
    assert Share(2, 64).interval == pytest.approx((0.0086, 0.1070), abs=5e-4)
    assert Share(0, 30).interval == pytest.approx((0, 0.1135), abs=5e-4)


def consistent(number: int, error: float = 0.0, reason: str = "count_closes") -> list[dict[str, Any]]:
    row = {"verdict": "consistent", "reasons": [reason], "evidence": json.dumps({"residual_error": error})}
    return [row] * number


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05, 0.2])
def test_the_number_that_may_be_wrong_holds_the_number_that_is(rate: float) -> None:
    rng = Random(7)
    held = 0
    for _ in range(300):
        measured = sum(rng.random() < rate for _ in range(200))
        wrong = sum(rng.random() < rate for _ in range(150))
        found = may_be_wrong(consistent(150), Departures(200, measured, measured))
        held += found["may_be_wrong_low"] <= wrong <= found["may_be_wrong_high"]
    assert held >= 0.93 * 300


def test_what_speaks_for_a_sequence_decides_what_may_be_wrong_with_it() -> None:
    often = Departures(100, 20, 20)
    others: list[dict[str, Any]] = [
        {"verdict": v, "reasons": [], "evidence": "{}"} for v in ("exact", "unverified", "unusable")
    ]
    assert may_be_wrong([*others, *consistent(50, 0.0, "one_token_steps")], often) == {
        "may_be_wrong_low": 0,
        "may_be_wrong_high": 0,
    }
    assert may_be_wrong(consistent(100), often)["may_be_wrong_low"] > 5
    without, with_error = (may_be_wrong(consistent(100, error), often) for error in (0.0, 0.1))
    assert with_error["may_be_wrong_low"] == without["may_be_wrong_low"]
    assert with_error["may_be_wrong_high"] >= without["may_be_wrong_high"] + 10
    assert may_be_wrong(consistent(3, 1.0), often)["may_be_wrong_high"] == 3


def test_without_outputs_of_their_own_nothing_is_claimed() -> None:
    assert may_be_wrong(consistent(10), Departures()) == {}


def test_the_report_stands_in_the_check_of_the_residual_error() -> None:
    tried = (
        Tried("A", False, "under 100", Tally(10, 8, 8, 0, 0)),
        Tried("A", True, "under 100", Tally(10, 9, 7, 3, 0)),
    )
    checks = [
        Check(name, True, "it is well", {"limit": 0.05}) for name in ("counts_close", "residual_error_below_limit")
    ]
    first, second = with_blind_report(checks, BlindReport(Departures(10, 2, 1), tried))
    assert first == checks[0]
    assert second.passed
    assert "15 of 17 trusted are right" in second.sentence
    assert second.numbers["limit"] == 0.05
    assert (second.numbers["blind_trusted"], second.numbers["silent"], second.numbers["silent_of"]) == (17, 1, 9)
    assert [(row["server"], row["streamed"], row["right"]) for row in second.worst] == [("A", True, 7), ("A", False, 8)]


def test_long_outputs_are_streamed_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle_assets.reconstruction.own.blind.MOST_STREAMED_TOKENS", 500)
    outputs: Sequence[KnownOutput] = canonical_outputs(30)
    report = blind_error(outputs, K2_5, ((SGLANG_0_5_23, False), (SGLANG_0_5_23, True)))
    tokens = sum(len(known.output_ids) for known in outputs)
    assert report.tally(streamed=False).outputs == 30
    assert 0 < report.tally(streamed=True).outputs <= 30 * 500 / tokens + 1


def published(home: Home, dataset: str, checks: Sequence[Check], counts: dict[str, float]) -> None:
    row = {"dataset": dataset, "exchange_id": f"{dataset}-1"}
    asked_at = None if dataset == "B1" else 1.0
    with new_version(home, "raw_responses", dataset, "run") as version:
        version.write_rows("part.parquet", RAW_RESPONSES, [{**row, "outcome": "answered", "asked_at": asked_at}])
        version.audit([Check("nothing_lost", True, "nothing is")])
    with new_version(home, "token_sequences", dataset, "run") as version:
        version.write_rows("part.parquet", TOKEN_SEQUENCES, [{**row, "verdict": "exact"}])
        version.audit(checks, counts=counts)


def test_what_a_share_does_not_exceed_lies_within_its_interval() -> None:
    """Against tables of Wilson's interval."""
    assert Share(0, 100).at_most == pytest.approx(0.02634, abs=1e-5)
    assert Share(10, 100).interval == pytest.approx((0.05523, 0.17437), abs=1e-5)
    assert 0.1 < Share(10, 100).at_most < Share(10, 100).interval[1]
    assert (Share(0, 0).interval, Share(0, 0).at_most, Share(7, 7).at_most) == ((0.0, 1.0), 1.0, 1.0)


@pytest.fixture
def measured(tmp_path: Path) -> Home:
    """A home with one local dataset, tried blind, and two that were bought, one before there was a local one."""
    home = Home(tmp_path)
    check = Check("residual_error_below_limit", True, "few are wrong", {"residual_error": 0.04})
    tried = (
        Tried("A", False, "under 100", Tally(10, 8, 8, 0, 0)),
        Tried("A", False, "100 to 999", Tally(10, 8, 6, 0, 0)),
        Tried("A", True, "under 100", Tally(10, 9, 9, 3, 0)),
    )
    published(home, "B1", with_blind_report([check], BlindReport(Departures(20, 2, 1), tried)), {"exact": 20})
    bounds: dict[str, float] = {"may_be_wrong_low": 1, "may_be_wrong_high": 4}
    published(home, "B3", [check], {"exact": 5, "consistent": 35, **bounds})
    published(home, "B4", [check], {"exact": 5, "consistent": 5})
    build_catalogue(home)
    return home


def test_the_queries_state_it_by_server_and_by_dataset(measured: Home) -> None:
    whole, streamed = run_query(measured, "blind_error").as_objects()
    assert (whole["server"], whole["streamed"], whole["outputs"], whole["trusted"]) == ("A", False, 20, 16)
    assert (whole["right_percent"], whole["under_100_tokens"], whole["to_999_tokens"]) == (87.5, 100.0, 75.0)
    assert (whole["at_least"], whole["at_most"]) == pytest.approx([100 * x for x in Share(14, 16).interval], abs=0.2)
    assert (streamed["right"], streamed["to_999_tokens"]) == (9, None)
    doubtful = run_query(measured, "may_be_wrong").as_objects()
    assert [(r["dataset"], r["trusted"], r["least"], r["most"], r["most_percent"]) for r in doubtful] == [
        ("B3", 40, 1, 4, 10.0),
        ("B4", 10, None, None, None),
    ]


def page(home: Home, doubtful: list[dict[str, Any]]) -> str:
    output = StringIO()
    blind = run_query(home, "blind_error").as_objects()
    for part in closing_page([], [], {}, (0, 0), blind, doubtful, [], [], home.root, home.root):
        Console(file=output, width=200).print(part)
    return " ".join(output.getvalue().split())


def test_the_closing_page_says_it_in_a_sentence(measured: Home) -> None:
    doubtful = run_query(measured, "may_be_wrong").as_objects()
    said = page(measured, doubtful)
    assert "turned into 30 texts, in 2 ways that servers have, and turned back from these alone" in said
    assert "Of 25 that were trusted 23 came back right (92.0%); of those called exact none was wrong." in said
    assert "the 40 bought answers that were trusted state errors that add up to 1.4 wrong ones" in said
    assert "; between 1 and 4 may be," in said
    assert "; at most 4 may be," in page(measured, [{**doubtful[0], "least": 0}])
    assert "By evidence" not in page(measured, doubtful[1:])
