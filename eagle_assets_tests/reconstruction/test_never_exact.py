"""What looks like proof and is none: every case here was once, or could be, called `exact` with wrong ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import STOP_NOT_COUNTED, VERBATIM
from eagle_assets_tests.reconstruction.served_exchanges import (
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
WITH_WHITE_ENDS = Truth(output_of("We see.\n\n", "So it is.\n"), THINKING)


@cache
def settled(convention: Convention, streamed: bool) -> list[Exchange]:
    """A provider that is settled, whose texts show that it takes no white space away, and whose deltas, that each is a
    step of the model's."""
    situation = replace(THINKING, streamed=streamed)
    ends = [Truth(output_of(f"\n\nWe see {n}.\n\n", f"\n\nSo {n}.\n\n"), situation) for n in ("one", "two", "three")]
    off_the_path = [Truth(spelt_out("We see the", word), situation) for word in ("Hello", "answer")]
    return exchanges([*some_outputs(60, 1, streamed, calls=False), *ends * 8, *off_the_path], convention)


def verdict(line: dict[str, Any], convention: Convention = VERBATIM, streamed: bool = False) -> Reconstruction:
    exchange = exchange_of(line)
    return next(reconstruct([exchange], calibrate([*settled(convention, streamed), exchange])))


def with_given_ids(truth: Truth, ids: Sequence[int]) -> dict[str, Any]:
    line = document(truth, VERBATIM)
    body = json.loads(line["body"])
    body["choices"][0]["token_ids"] = list(ids)
    return {**line, "request": {**line["request"], "return_token_ids": True}, "body": json.dumps(body)}


def test_the_true_ids_of_a_text_with_white_ends_are_exact() -> None:
    assert verdict(with_given_ids(WITH_WHITE_ENDS, WITH_WHITE_ENDS.ids)).verdict == "exact"


@pytest.mark.parametrize(
    ("reasoning", "content"),
    [("We see.\n\n", "So it is."), ("We see.\n\n", "So it is.\n\n"), (" We see.\n\n", "So it is.\n")],
)
def test_given_ids_with_other_white_space_than_is_shown_are_not(reasoning: str, content: str) -> None:
    assert verdict(with_given_ids(WITH_WHITE_ENDS, output_of(reasoning, content))).verdict != "exact"


@pytest.mark.parametrize("convention", [VERBATIM, STOP_NOT_COUNTED])
@pytest.mark.parametrize("native", ["stop", "length"])
def test_a_stop_that_is_said_to_be_a_cut_is_not(convention: Convention, native: str) -> None:
    line = document(Truth(output_of("We see the", "So it is"), STREAMED), convention)
    said = f'"finish_reason":"length","native_finish_reason":"{native}"'
    body = line["body"].replace('"finish_reason":"stop","native_finish_reason":"stop"', said)
    assert body != line["body"]
    assert verdict({**line, "body": body}, convention, streamed=True).verdict != "exact"


@pytest.mark.parametrize("convention", [VERBATIM, STOP_NOT_COUNTED])
def test_a_cut_that_is_said_to_be_a_stop_is_not(convention: Convention) -> None:
    line = document(Truth(output_of("We see the", "So it is", stopped=False), STREAMED), convention)
    said = verdict({**line, "body": line["body"].replace("length", "stop")}, convention, streamed=True)
    assert said.verdict != "exact"


def test_frames_in_an_order_that_nobody_saw_are_not() -> None:
    line = document(Truth(output_of("We see the", "So it is"), STREAMED), VERBATIM)
    assert verdict(line, streamed=True).verdict == "exact"
    line.pop("arrivals")
    assert verdict(line, streamed=True).verdict == "consistent"


def test_deltas_that_an_encoder_cut_are_not() -> None:
    """A gateway encodes the text anew and sends a delta for each token; what the model left of the path shows in the
    count alone, and not even there where it made as many tokens."""
    answers = exchanges(some_outputs(60, 1, streamed=True, calls=False), VERBATIM)
    ends = [Truth(output_of(f"\n\nWe see {n}.\n\n", f"\n\nSo {n}.\n\n"), STREAMED) for n in ("one", "two", "three")]
    counted = [VOCABULARY.encode(word) for word in ("Hello", "answer")]
    cut_anew = []
    for number, word in enumerate(("Hello", "answer", "Hello", "answer")):
        generated = spelt_out("We see the", word)
        line = document(Truth(output_of("We see the", word), STREAMED), VERBATIM, f"anew-{number}")
        shown = len(output_of("We see the", word))
        assert len(generated) - shown == len(word) - len(counted[number % 2])
        body = line["body"].replace(f'"completion_tokens":{shown}', f'"completion_tokens":{len(generated)}')
        assert body != line["body"]
        cut_anew.append(exchange_of({**line, "body": body}))
    silent = output_of("We see the", "Segmentation")
    asked = exchange_of(document(Truth(silent, STREAMED), VERBATIM))
    provider = [*answers, *exchanges(ends * 8, VERBATIM, "Lakeside"), *cut_anew, asked]
    *_, result = reconstruct(provider, calibrate(provider))
    assert (result.verdict, result.output_ids) == ("consistent", silent)
    # A delta too many, as the model's own steps would have made it, speaks for steps; the encoder's are more.
    steps = exchanges([Truth(spelt_out("We see the", "Hello"), STREAMED)], VERBATIM)
    provider = [*steps, *provider]
    *_, result = reconstruct(provider, calibrate(provider))
    assert result.verdict == "consistent"
