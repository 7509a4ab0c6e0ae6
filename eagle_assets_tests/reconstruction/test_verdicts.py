"""Verdicts: what each kind of evidence leads to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets_tests.reconstruction.served_exchanges import (
    K2_5,
    MARKERS,
    TOOL,
    VOCABULARY,
    Truth,
    document,
    exchanges,
    output_of,
    some_outputs,
    spelt_out,
)
from eagle_assets_tests.serving.outputs import THINKING

STREAMED = replace(THINKING, streamed=True)
WITH_LEADING_BLANKS = Truth(output_of(" The user greets.", " Here you are."), THINKING)
PLAIN = Truth(output_of("The user greets.", "Hello there!"), THINKING)


def verdict_among(line: dict[str, Any], others: Sequence[Exchange] = ()) -> Reconstruction:
    """The verdict on a line after calibration over it and `others`."""
    exchange = exchange_of(line)
    return next(reconstruct([exchange], calibrate([*others, exchange])))


@cache
def settled(provider: str = "Lakeside", streamed: bool = False) -> list[Exchange]:
    """Enough answers of a provider that changes nothing to settle that."""
    return exchanges(some_outputs(60, 1, streamed, calls=False), VERBATIM, provider)


def changed(line: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    body = json.loads(line["body"])
    change(body)
    return {**line, "body": json.dumps(body)}


def count_of(line: dict[str, Any], difference: int) -> dict[str, Any]:
    def change(body: dict[str, Any]) -> None:
        body["usage"]["completion_tokens"] += difference

    return changed(line, change)


# ---- counts and conventions


def test_a_settled_provider_and_a_closed_count_are_consistent() -> None:
    result = verdict_among(document(PLAIN, VERBATIM), settled())
    assert (result.verdict, result.output_ids, result.candidates) == ("consistent", PLAIN.ids, ())
    assert "count_closes" in result.reasons
    assert result.evidence["count_difference"] == 0
    assert 0 < result.evidence["residual_error"] < 0.2


def test_a_leading_blank_that_nothing_decides_leaves_both_candidates() -> None:
    # Every answer begins with blanks, and with and without them the count is the same.
    alike = [Truth(output_of(f" The user {verb}.", " Here it is."), THINKING) for verb in ("asks", "waits", "leaves")]
    without = output_of("The user greets.", "Here you are.")
    assert len(without) == len(WITH_LEADING_BLANKS.ids)
    result = verdict_among(document(WITH_LEADING_BLANKS, VERBATIM), exchanges(alike * 10, VERBATIM))
    assert result.verdict == "unverified"
    assert "leading_blank_undecided" in result.reasons
    offered = [result.output_ids, *(candidate.output_ids for candidate in result.candidates)]
    assert WITH_LEADING_BLANKS.ids in offered
    assert without in offered


def test_a_leading_blank_is_the_models_where_texts_without_one_were_seen() -> None:
    result = verdict_among(document(WITH_LEADING_BLANKS, VERBATIM), settled())
    assert result.output_ids == WITH_LEADING_BLANKS.ids
    assert "leading_blank_undecided" not in result.reasons


def test_a_single_answer_settles_nothing() -> None:
    result = verdict_among(document(PLAIN, VERBATIM))
    assert (result.verdict, result.output_ids) == ("unverified", PLAIN.ids)
    assert any(reason.startswith("provider_uncalibrated") for reason in result.reasons)


@pytest.mark.parametrize("difference", [-3, -1, 1, 2, 50])
def test_a_count_that_does_not_close_is_never_trusted(difference: int) -> None:
    result = verdict_among(count_of(document(PLAIN, VERBATIM), difference), settled())
    assert result.verdict in ("contradicted", "unverified")
    assert any(reason.startswith("count_mismatch") for reason in result.reasons)
    assert not verdict_among(count_of(document(PLAIN, VERBATIM), difference)).trusted


def test_without_a_count_nothing_is_trusted() -> None:
    for usage in (None, {}, {"completion_tokens": 0}, {"completion_tokens": "12"}):
        line = changed(document(PLAIN, VERBATIM), partial(dict.update, usage=usage))
        result = verdict_among(line, settled())
        assert (result.verdict, result.output_ids) == ("unverified", PLAIN.ids)
        assert "no_count" in result.reasons


def test_a_count_below_its_own_reasoning_tokens_is_none() -> None:
    def change(body: dict[str, Any]) -> None:
        body["usage"]["completion_tokens_details"]["reasoning_tokens"] = 500

    result = verdict_among(changed(document(PLAIN, VERBATIM), change), settled())
    assert result.verdict == "unverified"
    assert "usage_inconsistent" in result.reasons


@pytest.mark.parametrize("parameter", [{"stop": ["\n\n"]}, {"stop": "END"}, {"stop_token_ids": [382]}])
def test_what_may_have_ended_at_a_stop_string_is_not_trusted(parameter: dict[str, Any]) -> None:
    result = verdict_among(asked(document(PLAIN, VERBATIM), **parameter), settled())
    assert (result.verdict, "stop_string_possible" in result.reasons) == ("unverified", True)
    ids = asked(given(PLAIN.ids), return_token_ids=True, **parameter)
    assert verdict_among(ids, settled()).verdict == "exact"
    assert verdict_among(asked(document(PLAIN, VERBATIM), stop=[]), settled()).trusted


# ---- ids that the server gives


def given(ids: Sequence[int], truth: Truth = PLAIN) -> dict[str, Any]:
    line = document(truth, VERBATIM)
    return changed(line, lambda body: body["choices"][0].update(token_ids=list(ids)))


def asked(line: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    """The line with these parameters in its request."""
    return {**line, "request": line["request"] | parameters}


def test_given_ids_with_a_part_of_a_character_that_no_text_shows_are_not_those_of_the_text() -> None:
    emoji = VOCABULARY.encode("\U0001f1e6\U0001f1f7")
    content = [*emoji, *VOCABULARY.encode(" So.")]
    truth = Truth([*VOCABULARY.encode("Flags."), MARKERS.think_end, *content, MARKERS.stop], THINKING)
    part = truth.ids.index(emoji[0])
    assert VOCABULARY.bytes_of(emoji[0]) == "\U0001f1e6".encode()[:3]
    assert verdict_among(asked(given(truth.ids, truth), return_token_ids=True)).verdict == "exact"
    doubled = [*truth.ids[:part], truth.ids[part], *truth.ids[part:]]
    line = count_of(asked(given(doubled, truth), return_token_ids=True), 1)
    assert verdict_among(line).verdict == "contradicted"


def test_given_ids_are_exact_even_off_the_canonical_path() -> None:
    assert verdict_among(asked(given(PLAIN.ids), return_token_ids=True)).verdict == "exact"
    spelt_out = [VOCABULARY.id_of_bytes[bytes([byte])] for byte in b"Hello"]
    truth = Truth([*VOCABULARY.encode("Hi."), MARKERS.think_end, *spelt_out, MARKERS.stop], THINKING)
    result = verdict_among(given(truth.ids, truth))
    assert (result.verdict, result.output_ids) == ("exact", truth.ids)


@pytest.mark.parametrize(
    "ids",
    [
        output_of("The user greets.", "Hello there?"),
        output_of("The user greets. Hello there!", ""),
        [*PLAIN.ids[:3], MARKERS.think_begin, *PLAIN.ids[3:]],
        [-5, *PLAIN.ids[1:]],
        [10**30, *PLAIN.ids[1:]],
        [K2_5.vocabulary.size + 7, *PLAIN.ids[1:]],
        PLAIN.ids[1:],
        [PLAIN.ids[0], *PLAIN.ids],
    ],
)
def test_given_ids_that_differ_from_the_text_are_contradicted(ids: list[int]) -> None:
    assert verdict_among(given(ids), settled()).verdict == "contradicted"


@pytest.mark.parametrize("difference", [-1, 1, 7])
def test_given_ids_that_differ_from_the_count_are_contradicted(difference: int) -> None:
    result = verdict_among(count_of(given(PLAIN.ids), difference), settled())
    assert result.verdict == "contradicted"
    assert "given_ids_differ_from_count" in result.reasons


def test_given_ids_without_a_count_or_without_the_stop_token_are_not_proved() -> None:
    no_count = changed(given(PLAIN.ids), lambda body: body.update(usage={}))
    assert verdict_among(no_count, settled()).verdict == "unverified"
    assert verdict_among(given(PLAIN.ids[:-1]), settled()).verdict in ("unverified", "contradicted")


def test_bytes_of_logprobs_are_ids() -> None:
    def change(body: dict[str, Any]) -> None:
        entries = [{"token": "?", "bytes": list(VOCABULARY.bytes_of(token)), "logprob": -0.1} for token in PLAIN.ids]
        body["choices"][0]["logprobs"] = {"content": entries}

    result = verdict_among(asked(changed(document(PLAIN, VERBATIM), change), logprobs=True))
    assert (result.verdict, result.output_ids) == ("exact", PLAIN.ids)


# ---- streams


def test_steps_of_one_token_are_exact_only_where_nothing_can_be_lost() -> None:
    truth = replace(PLAIN, situation=STREAMED)
    line = document(truth, VERBATIM, "alone")
    alone = verdict_among(line)
    assert alone.output_ids == truth.ids
    assert alone.verdict in ("unverified", "consistent")
    among = verdict_among(line, settled(streamed=True))
    assert among.trusted
    assert among.output_ids == truth.ids
    # The model's own white space was seen at every edge, so the server takes none away.
    edges = [Truth(output_of(f"\n\nWe see {n}.\n\n", f"\n\nSo {n}.\n\n"), STREAMED) for n in ("one", "two", "three")]
    kept = [*settled(streamed=True), *exchanges(edges * 8, VERBATIM)]
    assert verdict_among(line, kept).verdict == "consistent"
    # Deltas left the canonical path with the count, so they are steps of the model's.
    kept += exchanges([Truth(spelt_out("Hi.", "Hello"), STREAMED)], VERBATIM)
    proved = verdict_among(line, kept)
    assert (proved.verdict, proved.output_ids) == ("exact", truth.ids)
    # Where the order of the frames is not vouched for, they prove less.
    assert verdict_among({**line, "arrivals": []}, kept).verdict != "exact"


def test_a_stream_off_the_canonical_path_shows_it_in_its_frames() -> None:
    ids = spelt_out("Hi.", "Hello")
    line = document(Truth(ids, STREAMED), VERBATIM)
    result = verdict_among(line, settled(streamed=True))
    assert result.output_ids == ids
    assert result.trusted


def test_a_stream_of_several_tokens_a_step_is_not_exact() -> None:
    line = document(replace(PLAIN, situation=STREAMED), VERBATIM, steps=[2] * 20)
    result = verdict_among(line, settled(streamed=True))
    assert (result.verdict, result.output_ids) == ("consistent", PLAIN.ids)


def test_a_stream_that_was_cut_is_unusable() -> None:
    line = document(replace(PLAIN, situation=STREAMED), VERBATIM)
    cut = line["body"][: line["body"].index('"finish_reason":"stop"')]
    assert verdict_among({**line, "body": cut}, settled(streamed=True)).verdict == "unusable"


# ---- what cannot be used


def unusable(line: dict[str, Any]) -> str:
    result = verdict_among(line, settled())
    assert (result.verdict, result.output_ids) == ("unusable", None)
    assert result.reasons
    return " | ".join(result.reasons)


def test_an_error_is_unusable_with_the_providers_own_message() -> None:
    error = {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "try again in 9 s"}}}
    assert "try again in 9 s" in unusable({**document(PLAIN, VERBATIM), "body": json.dumps(error)})
    assert "503" in unusable({**document(PLAIN, VERBATIM), "status": 503})
    lost = {**document(PLAIN, VERBATIM), "body": "", "status": None, "transport_error": "connection reset"}
    assert "connection reset" in unusable(lost)


@pytest.mark.parametrize("ignored", ["Lakeside", "lakeside", "Lake Side"])
def test_an_excluded_provider_is_unusable(ignored: str) -> None:
    line = document(PLAIN, VERBATIM)
    line["request"] = {**line["request"], "provider": {"ignore": ["other", ignored]}}
    assert "excluded_provider" in unusable(line)
    line["request"] = {**line["request"], "provider": {"ignore": ["other", "lakeside/fp4"]}}  # of its variants one
    assert verdict_among(line, settled()).verdict == "consistent"


def test_another_model_is_unusable() -> None:
    other = changed(document(PLAIN, VERBATIM), lambda body: body.update(model="openai/gpt-5.4-mini"))
    assert "model_mismatch" in unusable(other)
    assert "model_mismatch" in unusable(
        changed(document(PLAIN, VERBATIM), lambda body: body.update(model="moonshotai/kimi-k2-0905"))
    )
    line = document(PLAIN, VERBATIM)
    assert "unknown_target" in unusable({**line, "request": {**line["request"], "model": "openai/gpt-5.4-mini"}})


def test_no_content_is_unusable() -> None:
    def change(body: dict[str, Any]) -> None:
        body["choices"][0]["message"] = {"role": "assistant", "content": None}
        body["usage"] = {}

    assert "no_content" in unusable(changed(document(PLAIN, VERBATIM), change))


# ---- suppositions


def test_a_cut_output_is_not_proved_by_its_count_alone() -> None:
    truth = Truth(output_of("The user greets.", "Hello there", stopped=False), THINKING)
    result = verdict_among(document(truth, VERBATIM), settled())
    assert result.verdict in ("consistent", "unverified")
    assert result.output_ids == truth.ids
    assert MARKERS.stop not in result.output_ids


@pytest.mark.parametrize("odd", ["\ufffd", chr(0xD83D)])
def test_replacement_characters_and_half_surrogates_are_not_trusted(odd: str) -> None:
    def change(body: dict[str, Any]) -> None:
        body["choices"][0]["message"]["content"] = f"Hello{odd}!"

    assert not verdict_among(changed(document(PLAIN, VERBATIM), change), settled()).trusted


def test_arguments_that_are_missing_or_doubled_are_not_exact() -> None:
    calls = [("functions.look_up:0", '{"q": "a"}')]
    truth = Truth(output_of("We look.", "", calls), replace(THINKING, tools=some_outputs(4, 0)[3].situation.tools))
    line = document(truth, VERBATIM)
    for arguments in (None, '{"q": "a"}{"q": "a"}', '{"q":"a"}', '{"q": "b"}'):

        def change(body: dict[str, Any], arguments: str | None = arguments) -> None:
            body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments

        assert verdict_among(changed(line, change), settled()).verdict != "exact"


def test_providers_do_not_speak_for_each_other() -> None:
    others = settled("Elsewhere")
    result = verdict_among(document(PLAIN, VERBATIM), others)
    assert any(reason.startswith("provider_uncalibrated") for reason in result.reasons)
    blanks = exchanges(some_outputs(60, 2, calls=False), BLANKS_ROUND_ADDED_TOKENS, "Harbour")
    both = verdict_among(document(PLAIN, VERBATIM), [*settled(), *blanks])
    assert (both.verdict, both.output_ids) == ("consistent", PLAIN.ids)


@pytest.mark.parametrize(("calls", "trusted"), [(2, True), (4, False)], ids=["two calls", "four calls"])
def test_indices_that_a_server_renumbers_are_believed_as_often_as_the_model_counts_right(
    calls: int, trusted: bool
) -> None:
    # Where its ids are kept, the model counts two calls right, and of four every other time not.
    def numbered(indices: Iterable[int]) -> Truth:
        made = [(f"functions.look_up:{index}", '{"q": "a b"}') for index in indices]
        return Truth(output_of("Let me see.", "I look it up.\n", made), Situation(K2_5, True, (TOOL,)))

    kept = [numbered(range(2)) for _ in range(9)]
    kept += [numbered(range(0, 4 * step, step)) for step in (1, 2) * 5]
    renumbering = replace(VERBATIM, tool_ids="renumbered")
    ours = [*some_outputs(60, 1, calls=False), *(numbered(range(2)) for _ in range(3)), numbered(range(calls))]
    known = calibrate([*exchanges(kept, VERBATIM, "Elsewhere"), *exchanges(ours, renumbering)])
    (result,) = reconstruct(exchanges(ours[-1:], renumbering), known)
    assert result.trusted == trusted, result
    assert trusted or result.reasons == ("tool_index_unproven",)


@pytest.mark.parametrize(("calls", "trusted"), [(1, True), (2, True), (4, False)])
def test_where_nobody_keeps_the_numbers_of_calls_one_or_two_are_believed(calls: int, trusted: bool) -> None:
    made = [(f"functions.look_up:{index}", '{"q": "a b"}') for index in range(calls)]
    asked = Truth(output_of("Let me see.", "", made), Situation(K2_5, True, (TOOL,)))
    ours = exchanges([*some_outputs(60, 1), asked], replace(VERBATIM, tool_ids="renumbered"))
    *_, result = reconstruct(ours, calibrate(ours))
    assert result.output_ids == asked.ids
    assert result.trusted == trusted, result
    assert trusted or result.reasons == ("tool_index_unproven",)
