"""Probes tell every pair of rival conventions apart on answers that their forward models serve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.evidence.reading import situation_of
from eagle_assets.reconstruction.probing.probe_decision import REFUTATIONS_NEEDED, decide, next_index
from eagle_assets.reconstruction.probing.probes import (
    PROBES_A_PAIR,
    Probe,
    distinct_requests,
    probe_requests,
    words_changed_by_a_blank,
)
from eagle_assets.reconstruction.reconstruct import calibrate
from eagle_assets.reconstruction.roundtrip import convention_of
from eagle_assets.sandbox.providers import TRIMMED
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import (
    BARE_TOOL_IDS,
    BLANKS_ROUND_ADDED_TOKENS,
    STOP_NOT_COUNTED,
    THINK_GENERATED,
    VERBATIM,
)
from eagle_assets.serving.output import Output, join_output
from eagle_assets.targets.prompt import prompt_ids
from eagle_assets_tests.reconstruction.served_exchanges import (
    K2,
    K2_5,
    VOCABULARY,
    Truth,
    document,
    exchanges,
    output_of,
)

RIVALS = (
    VERBATIM,
    BLANKS_ROUND_ADDED_TOKENS,
    BARE_TOOL_IDS,
    THINK_GENERATED,
    STOP_NOT_COUNTED,
    TRIMMED,
    replace(VERBATIM, name="ids renumbered", tool_ids="renumbered"),
    replace(VERBATIM, name="ids of its own", tool_ids="opaque"),
    replace(VERBATIM, name="arguments compact", arguments="compact"),
    replace(VERBATIM, name="section end not counted", section_end_counted=False),
    replace(VERBATIM, name="blank at the reasoning's start", blanks=frozenset(["reasoning_start"])),
    # The two that closed the one recorded answer of a provider.
    replace(BLANKS_ROUND_ADDED_TOKENS, name="blanks, stop token not counted", stop_counted=False),
)

STREAMED_RIVALS = RIVALS[:4]


@cache
def probes(streamed: bool) -> list[Probe]:
    return probe_requests(K2_5, STREAMED_RIVALS if streamed else RIVALS, streamed)


def served(probe: Probe, output: Output[str], convention: Convention, number: int, streamed: bool) -> Exchange:
    """The exchange in which a server of this convention answers a probe with this output."""
    request = probe.request(K2_5, streamed)
    situation = situation_of(request, K2_5, streamed)
    begun = convention.think_generated and situation.thinking
    ids = replace(output, think_begun=begun).over(lambda text: tuple(VOCABULARY.encode(text)))
    truth = Truth(join_output(ids, K2_5.markers), situation)
    line: dict[str, Any] = {**document(truth, convention, f"x{number}"), "request": request}
    return exchange_of(line)


def distinct(streamed: bool) -> list[Probe]:
    """One probe for each request that has to be sent."""
    found = {json.dumps(probe.request(K2_5, streamed)): probe for probe in probes(streamed)}
    return list(found.values())


def untold(rivals: Sequence[Convention], probes: Sequence[Probe]) -> list[tuple[str, str]]:
    """The pairs of rivals, by name, that no probe tells apart."""
    told = {(probe.one.convention, probe.other.convention) for probe in probes}
    return [(one.name, other.name) for one, other in combinations(rivals, 2) if (one.name, other.name) not in told]


def test_every_pair_has_a_probe() -> None:
    for rivals, streamed in ((RIVALS, False), (STREAMED_RIVALS, True)):
        assert untold(rivals, probes(streamed)) == []
        assert len(probes(streamed)) == PROBES_A_PAIR * len(rivals) * (len(rivals) - 1) // 2


@pytest.mark.parametrize(
    ("truth", "streamed"),
    [*((truth, False) for truth in RIVALS), *((truth, True) for truth in STREAMED_RIVALS)],
    ids=lambda value: getattr(value, "name", "streamed" if value else "json"),
)
def test_expected_answers_leave_the_true_convention_alone_standing(truth: Convention, streamed: bool) -> None:
    rivals = STREAMED_RIVALS if streamed else RIVALS
    answers = [served(probe, probe.expected, truth, n, streamed) for n, probe in enumerate(distinct(streamed))]
    decision = decide(answers, rivals)
    assert decision.standing == (truth.name,)
    assert (decision.unexplained, decision.unread) == ((), ())
    assert all(len(ids) >= REFUTATIONS_NEEDED for ids in decision.refuted.values())


@pytest.mark.parametrize("truth", RIVALS[1:6], ids=lambda convention: convention.name)
def test_a_model_that_does_not_obey_never_refutes_the_true_convention(truth: Convention) -> None:
    changed: Sequence[tuple[str, Any]] = (
        ("a blank ahead of all", lambda text: f" {text}" if text else text),
        ("a line break after all", lambda text: f"{text}\n" if text else text),
        ("a sentence instead", lambda text: "Of course, here you are." if text else text),
    )
    for name, change in changed:
        answers = []
        for number, probe in enumerate(distinct(False)[::3]):
            reasoning = probe.expected.reasoning
            output = replace(
                probe.expected,
                reasoning=None if reasoning is None else change(reasoning),
                content=change(probe.expected.content),
            )
            answers.append(served(probe, output, truth, number, streamed=False))
        assert truth.name in decide(answers, RIVALS).standing, name


def test_one_answer_off_the_canonical_path_refutes_nothing() -> None:
    text = next(probe for probe in probes(False) if not probe.tools and not probe.thinking)
    stray = served(text, text.expected, VERBATIM, 1, streamed=False)
    body = json.loads(stray.body)
    body["usage"]["completion_tokens"] += 1
    stray = replace(stray, body=json.dumps(body).encode())
    decision = decide([stray], (VERBATIM, TRIMMED))
    assert decision.standing == (VERBATIM.name, TRIMMED.name)


def test_a_server_of_no_known_convention_refutes_nobody_and_shows() -> None:
    answers = []
    for number, probe in enumerate(distinct(False)):
        line = served(probe, probe.expected, VERBATIM, number, streamed=False)
        body = json.loads(line.body)
        body["usage"]["completion_tokens"] += 40
        answers.append(replace(line, body=json.dumps(body).encode()))
    answers.append(replace(answers[0], exchange_id="failed", body=b"", status=502))
    decision = decide(answers, RIVALS)
    assert decision.refuted == {}
    assert len(decision.unexplained) == len(answers) - 1
    assert decision.unread == ("failed",)


def test_what_a_probe_predicts_is_what_the_forward_models_serve() -> None:
    by_name = {convention.name: convention for convention in RIVALS}
    for probe in probes(False)[::7]:
        assert (probe.one.message, probe.one.completion_tokens) != (probe.other.message, probe.other.completion_tokens)
        assert probe.why
        for prediction in (probe.one, probe.other):
            exchange = served(probe, probe.expected, by_name[prediction.convention], 1, streamed=False)
            body = json.loads(exchange.body)
            assert body["usage"]["completion_tokens"] == prediction.completion_tokens
            message = body["choices"][0]["message"]
            assert (message["content"], message["reasoning"]) == (
                prediction.message.content,
                prediction.message.reasoning,
            )


def test_words_are_of_three_scripts_and_change_with_a_blank() -> None:
    words = words_changed_by_a_blank(VOCABULARY)
    assert len(set(words)) == len(words) >= 12
    assert words[0].isdecimal()
    assert not words[1].isascii()
    assert words[2].isalpha()
    for word in words:
        assert len(VOCABULARY.encode(word)) == 1
        assert len(VOCABULARY.encode(" " + word)) == 2


def test_probes_are_cheap_and_leave_room_for_the_answer_that_is_expected() -> None:
    requests = distinct_requests(probes(False), K2_5)
    tokens = sum(request["max_tokens"] for request in requests)
    prompts = sum(len(prompt_ids(K2_5, request)) for request in requests)
    assert 3e-6 * tokens + 0.6e-6 * prompts < 0.05
    for request in requests:
        exact = next(probe for probe in probes(False) if probe.request(K2_5) == request)
        ids = exact.expected.over(lambda text: tuple(VOCABULARY.encode(text)))
        assert len(join_output(ids, K2_5.markers)) < request["max_tokens"]


def test_a_model_that_never_thinks_is_not_asked_to() -> None:
    found = probe_requests(K2, (VERBATIM, TRIMMED, STOP_NOT_COUNTED))
    assert found
    assert not any(probe.thinking for probe in found)
    assert all("reasoning" not in request for request in distinct_requests(found, K2))


def test_what_stands_for_a_provider_can_be_probed() -> None:
    ids = output_of("The user greets me.", "The answer.")
    situation = situation_of({"messages": []}, K2_5, streamed=False)
    seen = exchanges([Truth(ids, situation)] * 5, BLANKS_ROUND_ADDED_TOKENS)
    group = calibrate(seen).groups[K2_5.name, "Lakeside", False]
    rivals = [convention_of(survivor.hypothesis) for survivor in group.survivors]
    assert len(rivals) > 1
    found = probe_requests(K2_5, rivals)
    assert untold(rivals, found) == []
    asked = {json.dumps(probe.request(K2_5)): probe for probe in found}.values()
    answers = [
        served(probe, probe.expected, BLANKS_ROUND_ADDED_TOKENS, number, streamed=False)
        for number, probe in enumerate(asked)
    ]
    (left,) = decide(answers, rivals).standing
    assert "content start" in left


def test_calls_are_numbered_on_from_the_history() -> None:
    def history(*ids: object) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "tool_calls": [{"id": each} for each in ids]}]}

    assert next_index({}) == 0
    assert next_index(history("functions.look_up:999")) == 1000
    assert next_index(history("functions.a:0", "functions.b:1")) == 2
    assert next_index(history("call_abc", None)) == 2
    assert next_index(history("x:" + "9" * 400)) == 1
