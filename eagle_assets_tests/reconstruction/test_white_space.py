"""White space that a server takes away: how likely it was written, told by what is written where it is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.kept import Kept
from eagle_assets.reconstruction.calibrating.losses import EdgeRates, Rate, Rates
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets.serving.servers import SGLANG_0_5_23, VLLM_0_33, Server
from eagle_assets_tests.reconstruction.served_exchanges import (
    K2_5,
    MARKERS,
    SENTENCES,
    TOOL,
    VOCABULARY,
    Truth,
    document,
    exchanges,
    output_of,
)

THINKING = Situation(K2_5, True)


def answer(reasoning: str, content: str) -> Truth:
    return Truth(output_of(reasoning, content), THINKING)


def ending_in(answers: list[Truth], white: str) -> list[Truth]:
    """The answers; every eighth begins its texts with a line break, and ends them with that white space."""
    return [
        answer(f"\nSo it is {i}.{white}", f"\n{i}.{white}") if i % 8 == 0 else truth for i, truth in enumerate(answers)
    ]


def some_answers(count: int, seed: int) -> list[Truth]:
    """Answers of which every fifth begins and ends its texts with tabs, line ends of Windows and the like."""
    rng = Random(seed)
    truths = []
    for number in range(count):
        white = [rng.choice(("\t", "\r\n", "\n\n", " \n", "\t\n")) if number % 5 == 0 else "" for _ in range(4)]
        reasoning, content = rng.choice(SENTENCES), rng.choice(SENTENCES)
        truths.append(answer(white[0] + reasoning + white[1], white[2] + content + white[3]))
    return truths


def verdict_on(truth: Truth) -> Reconstruction:
    kept = exchanges(some_answers(100, 1), VERBATIM, "Elsewhere")
    stripped = exchanges(some_answers(100, 2), BLANKS_ROUND_ADDED_TOKENS)
    line = exchange_of(document(truth, BLANKS_ROUND_ADDED_TOKENS))
    (result,) = reconstruct([line], calibrate([*kept, *stripped]))
    return result


def test_usual_white_space_elsewhere_speaks_for_usual_white_space() -> None:
    result = verdict_on(answer("Two and two are four.", "Four."))
    assert (result.verdict, result.evidence["residual_error"] < 0.05) == ("consistent", True)


@pytest.mark.parametrize("lost", ["", "\n\n"])
def test_unusual_white_space_elsewhere_makes_a_loss_likely(lost: str) -> None:
    result = verdict_on(answer("\tTwo and two are four." + lost, "\r\nFour.\t"))
    assert result.verdict == "unverified"
    assert result.reasons[0] == "white_space_may_be_lost: reasoning end"


def test_a_loss_without_a_trace_is_held_against_nothing_written() -> None:
    rates = EdgeRates((Rate(0, 99), Rate(20, 99), Rate(0, 99)), Rate(20, 99))
    group = GroupCalibration(
        model="m",
        provider="p",
        streamed=False,
        survivors=(),
        counted=(0, 0),
        closed=(0, 0),
        measured=(0, 0),
        kept=Kept(),
        losses={"reasoning_end": Rates(rates, rates)},
        tool_ids_kept=False,
    )
    known = Calibration(written={"m": {"reasoning_end": Rates(usual=rates)}})
    # Three in five responses end otherwise, which would have shown: of the rest, half lost a line break.
    assert known.loss_error(group, "m", "reasoning_end", (1,), unusual=False) == pytest.approx(0.5)
    assert known.loss_error(group, "m", "reasoning_end", (), unusual=False) == 0


# White space that the count wants back


def cut_anew(truth: Truth) -> Truth:
    """The output with a token cut behind its first byte, the first that can be: a token more than the canonical ids."""
    ids = list(truth.ids)
    for at, token in enumerate(ids):
        text = VOCABULARY.bytes_of(token) if token < VOCABULARY.ordinary_size else b""
        if len(text) > 1 and text[1:] in VOCABULARY.id_of_bytes:
            parts = [VOCABULARY.id_of_bytes[text[:1]], VOCABULARY.id_of_bytes[text[1:]]]
            return Truth([*ids[:at], *parts, *ids[at + 1 :]], truth.situation)
    raise AssertionError("no token can be cut")


def answers_that_end_in_a_blank(count: int, blanks: int, departures: int) -> list[Truth]:
    rng = Random(5)
    truths = []
    for number in range(count):
        blank = " " * (number * blanks // count < (number + 1) * blanks // count)  # at even distances
        line_break = "\n" * (number % 33 == 1)  # a keeper of blanks alone would be none of line breaks
        truth = answer(rng.choice(SENTENCES) + (line_break or blank), rng.choice(SENTENCES))
        truths.append(cut_anew(truth) if count - number <= departures else truth)
    return truths


@pytest.mark.parametrize(
    ("blanks", "departures", "verdict"), [(10, 0, "consistent"), (10, 20, "unverified"), (0, 0, "unverified")]
)
def test_white_space_is_put_back_where_the_model_writes_it_and_seldom_strays(
    blanks: int, departures: int, verdict: str
) -> None:
    truth = answer("Two and two are four. ", "Four.")
    lost = exchange_of(document(truth, VLLM_0_33))
    kept = exchanges(answers_that_end_in_a_blank(100, blanks, departures), SGLANG_0_5_23, "Elsewhere")
    stripped = exchanges(some_answers(100, 2), VLLM_0_33)
    (result,) = reconstruct([lost], calibrate([*kept, *stripped]))
    assert result.verdict == verdict
    assert result.output_ids == truth.ids
    assert result.evidence["restored"]["white_space"] == " "
    assert (result.evidence["residual_error"] < 0.2) == (verdict == "consistent")


@pytest.mark.parametrize(("others", "verdict"), [("\n", "consistent"), (" ", "unverified")])
def test_where_blanks_alone_are_seen_a_line_break_may_be_lost(others: str, verdict: str) -> None:
    """`.` and `.` with a line break are one token each: no count tells them apart."""
    plain = [answer(f"That makes {i}.", f"{i}.") for i in range(240)]
    seen = [*ending_in(plain[:120], " "), *ending_in(plain[120:], others)]
    kept = exchanges(ending_in(plain, "\n"), SGLANG_0_5_23, "Elsewhere")
    result, *_ = reconstruct(exchanges(plain[:1], VERBATIM), calibrate([*exchanges(seen, VERBATIM), *kept]))
    assert result.verdict == verdict


@pytest.mark.parametrize("white", [" ", "\n\n"])
def test_a_content_of_white_space_before_calls_is_put_back(white: str) -> None:
    def calling(content: str, number: int) -> Truth:
        called = [("functions.look_up:0", f'{{"q": "{number}"}}')]
        return Truth(output_of("Let me look this up", content, called), Situation(K2_5, True, (TOOL,)))

    kept = exchanges(
        [calling(white if i % 4 else "\n" * (i % 8 == 0), i) for i in range(80)], SGLANG_0_5_23, "Elsewhere"
    )
    stripped = exchanges([calling("I look it up", i) for i in range(80)], VLLM_0_33)
    (result,) = reconstruct(
        [exchange_of(document(calling(white, 0), VLLM_0_33))],
        calibrate([*kept, *stripped, *exchanges(some_answers(60, 2), VLLM_0_33)]),
    )
    assert (result.output_ids == calling(white, 0).ids) == (result.verdict == "consistent") == (white == " ")


def blank_reasonings_among(answers: list[Truth], white: str) -> list[Truth]:
    """The answers, every tenth of which is nothing but a reasoning of white space."""
    return [answer(white, "") if i % 10 == 0 else truth for i, truth in enumerate(answers)]


@pytest.mark.parametrize(("white", "verdict"), [("\n", "consistent"), ("\n\n", "unverified"), (None, "unverified")])
def test_a_reasoning_of_white_space_alone_is_put_back_as_the_model_writes_it(white: str | None, verdict: str) -> None:
    truth = answer("\n", "")
    lost = exchange_of(document(truth, VLLM_0_33))
    answers = answers_that_end_in_a_blank(100, 0, 0)
    written = answers if white is None else blank_reasonings_among(answers, white)
    kept = exchanges(written, SGLANG_0_5_23, "Elsewhere")
    (result,) = reconstruct([lost], calibrate([*kept, *exchanges(some_answers(100, 2), VLLM_0_33)]))
    assert (result.verdict, result.output_ids) == (verdict, truth.ids)
    assert result.evidence["restored"]["place"] == "blank_reasoning"


def test_the_few_reasonings_of_white_space_alone_are_nearly_all_measured() -> None:
    truth = answer("\n", "")
    stripped = exchanges(some_answers(100, 2), VLLM_0_33)
    # Of 200 responses the last eight are left aside until more have come.
    kept = exchanges([*answers_that_end_in_a_blank(95, 0, 0), *[truth] * 5], SGLANG_0_5_23, "Elsewhere")
    (result,) = reconstruct([exchange_of(document(truth, VLLM_0_33))], calibrate([*stripped, *kept]))
    assert (result.verdict, result.output_ids) == ("consistent", truth.ids)


def test_a_reasoning_of_white_space_alone_needs_a_count_of_it() -> None:
    answers = blank_reasonings_among(answers_that_end_in_a_blank(100, 0, 0), "\n")
    known = calibrate([*exchanges(answers, SGLANG_0_5_23, "Elsewhere"), *exchanges(some_answers(100, 2), VLLM_0_33)])
    line = document(answer("\n", ""), VLLM_0_33)
    body = json.loads(line["body"])
    assert body["usage"]["completion_tokens_details"].pop("reasoning_tokens") == 1
    line["body"] = json.dumps(body)
    (result,) = reconstruct([exchange_of(line)], known)
    assert result.verdict == "contradicted"  # it may as well stand behind the reasoning's end


def test_white_space_goes_where_the_reasoning_s_count_says() -> None:
    kept = exchanges(answers_that_end_in_a_blank(100, 10, 0), SGLANG_0_5_23, "Elsewhere")
    known = calibrate([*kept, *exchanges(some_answers(100, 2), VLLM_0_33)])
    line = document(answer("Two and two are four. ", "Four."), VLLM_0_33)
    body = json.loads(line["body"])
    body["usage"]["completion_tokens_details"]["reasoning_tokens"] -= 1
    line["body"] = json.dumps(body)
    (result,) = reconstruct([exchange_of(line)], known)
    assert result.verdict == "contradicted"  # the token that is missing stands in the content, where none is lost


@pytest.mark.parametrize(("of_reasoning", "verdict"), [(0, "consistent"), (1, "unverified")])
def test_an_output_is_cut_at_the_reasoning_s_end_where_its_count_has_no_token_more(
    of_reasoning: int, verdict: str
) -> None:
    ids = [*VOCABULARY.encode("Two and two are four."), MARKERS.think_end]
    line = document(Truth(ids, THINKING), VLLM_0_33)
    body = json.loads(line["body"])
    body["usage"]["completion_tokens_details"]["reasoning_tokens"] += of_reasoning
    line["body"] = json.dumps(body)
    kept = exchanges(answers_that_end_in_a_blank(100, 0, 0), SGLANG_0_5_23, "Elsewhere")
    known = calibrate([*kept, *exchanges(some_answers(100, 2), VLLM_0_33)])
    (result,) = reconstruct([exchange_of(line)], known)
    assert (result.verdict, result.output_ids) == (verdict, ids)


@pytest.mark.parametrize(("streams", "others"), [(VLLM_0_33, 0), (SGLANG_0_5_23, None)])
def test_a_few_streams_count_reasonings_as_other_answers_of_the_provider_if_they_follow_them(
    streams: Server, others: int | None
) -> None:
    ascii_only = [answer(f"Case {number} holds.", "So it does.") for number in range(20)]
    streamed = [Truth(truth.ids, replace(THINKING, streamed=True)) for truth in ascii_only[:4]]
    known = calibrate([*exchanges(ascii_only, VLLM_0_33), *exchanges(streamed, streams)])
    of = {streamed: group for (model, _, streamed), group in known.groups.items() if model}
    assert (of[False].reasoning_surplus, of[True].reasoning_surplus) == (0, others)
