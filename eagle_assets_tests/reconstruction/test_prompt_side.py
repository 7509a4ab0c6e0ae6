"""Which rendering of tools and history a provider used, by its count of the prompt."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.console.reasons_in_words import reason_in_words
from eagle_assets.reconstruction.evidence.reading import Reading, read
from eagle_assets.reconstruction.files.exchanges import exchanges_in
from eagle_assets.reconstruction.prompts import (
    TEMPLATE,
    PromptCalibration,
    PromptGroup,
    PromptVerdict,
    calibrate_prompts,
    judge_prompt,
    kind_of,
    observe_prompt,
    renderings,
)
from eagle_assets.targets.prompt import prompt_ids
from eagle_assets.targets.target import Target
from eagle_assets_tests.reconstruction.served_exchanges import K2, K2_5, VOCABULARY

ADD = {
    "function": {
        "name": "add",
        "strict": False,
        "description": "Add two numbers, 'a' and \"b\"",
        "parameters": {
            "properties": {"a": {"type": "integer", "description": "first"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "type": "object",
        },
    },
    "type": "function",
}
BOS, THINK = VOCABULARY.special_id("[BOS]"), VOCABULARY.special_id("<think>")

Prompt = Callable[[Target, dict[str, Any]], list[int]]


def request(target: Target, number: int, tools: Sequence[dict[str, Any]] = (), history: bool = False) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Question {'x ' * number}"}]
    if history:
        messages += [{"role": "assistant", "content": "Answer."}, {"role": "user", "content": "And then?"}]
    body: dict[str, Any] = {"model": target.name, "messages": messages}
    return {**body, "tools": list(tools)} if tools else body


def reading(body: dict[str, Any], prompt_tokens: int | None, given: list[int] | None = None) -> Reading:
    answer: dict[str, Any] = {
        "id": "x",
        "model": body["model"],
        "provider": "Lakeside",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 3},
    }
    if given is not None:
        answer["prompt_token_ids"] = given
    line = {"exchange_id": "x", "model": body["model"], "provider": "Lakeside", "status": 200, "request": body}
    return read(exchange_of({**line, "body": json.dumps(answer)}))


def served(prompt: Prompt, requests: Sequence[dict[str, Any]], target: Target = K2_5) -> list[Reading]:
    """The readings of a provider that makes its prompts so."""
    return [reading(body, len(prompt(target, body))) for body in requests]


def judged(seen: Reading, calibration: PromptCalibration) -> PromptVerdict:
    assert seen.situation is not None
    return judge_prompt(seen, renderings(seen.situation.target, seen.exchange.request), calibration.of(seen))


def calibrated(readings: Sequence[Reading]) -> PromptCalibration:
    return calibrate_prompts([seen for seen in map(observe_prompt, readings) if seen is not None])


def mixed(target: Target, tools: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    return [request(target, number, tools if number % 2 else ()) for number in range(8)]


def with_bos(target: Target, body: dict[str, Any]) -> list[int]:
    return [BOS, *prompt_ids(target, body)]


def without_think(target: Target, body: dict[str, Any]) -> list[int]:
    ids = prompt_ids(target, body)
    return ids[:-1] if ids[-1] == THINK else ids


@pytest.mark.parametrize("prompt", [prompt_ids, with_bos, without_think])
@pytest.mark.parametrize("tools", [(), (ADD,)])
def test_explained_offsets_give_the_ids_that_the_provider_used(prompt: Prompt, tools: Sequence[dict[str, Any]]) -> None:
    instant = {**request(K2_5, 3), "reasoning": {"enabled": False}}
    bodies = [*mixed(K2_5, tools), instant, request(K2_5, 2, tools, history=True)]
    readings = served(prompt, bodies)
    calibration = calibrated(readings)
    for seen, body in zip(readings, bodies, strict=True):
        verdict = judged(seen, calibration)
        assert verdict.verdict == "consistent", verdict.reason
        assert verdict.ids == prompt(K2_5, body)


def test_a_constant_that_nothing_explains_is_unverified_with_the_counts() -> None:
    readings = served(lambda target, body: [*prompt_ids(target, body), 1, 2, 3], mixed(K2_5))
    verdict = judged(readings[0], calibrated(readings))
    assert (verdict.verdict, verdict.reason) == ("unverified", "prompt_rendering_unknown")
    assert verdict.ids == prompt_ids(K2_5, request(K2_5, 0))
    (group,) = calibrated(readings).groups.values()
    assert group.unmet == {"text": {3: 8}}


def test_one_prompt_that_differs_among_many_that_agree_is_unverified_alone() -> None:
    readings = [*served(prompt_ids, mixed(K2_5)), *served(with_bos, [request(K2_5, 9)])]
    verdicts = [judged(seen, calibrated(readings)) for seen in readings]
    assert [verdict.verdict for verdict in verdicts] == ["consistent"] * 8 + ["unverified"]
    assert verdicts[-1].reason == "prompt_count_differs: +1"


def test_a_count_or_two_prove_nothing() -> None:
    readings = served(prompt_ids, mixed(K2_5)[:2])
    verdict = judged(readings[0], calibrated(readings))
    assert (verdict.verdict, verdict.reason) == ("unverified", "prompt_counts_too_few: 2")


def test_the_way_in_which_tools_are_declared_is_found_among_the_known_ones() -> None:
    bodies = mixed(K2, (ADD,))
    for name in renderings(K2, bodies[1]):

        def prompt(target: Target, body: dict[str, Any], name: str = name) -> list[int]:
            known = renderings(target, body)
            return [BOS, *known.get(name, known[TEMPLATE])]

        readings = served(prompt, bodies, K2)
        calibration = calibrated(readings)
        for seen, body in zip(readings, bodies, strict=True):
            verdict = judged(seen, calibration)
            if verdict.verdict == "consistent":
                assert verdict.ids == prompt(K2, body), name
            else:
                assert verdict.reason.startswith("prompt_rendering_undecided: "), verdict.reason
                assert f"{name}, [BOS] ahead" in verdict.reason
        text = [
            judged(seen, calibration).verdict
            for seen, body in zip(readings, bodies, strict=True)
            if "tools" not in body
        ]
        assert text == ["consistent"] * 4


def test_renderings_differ_and_the_first_is_the_templates() -> None:
    body = request(K2, 1, (ADD,))
    known = renderings(K2, body)
    assert next(iter(known.items())) == (TEMPLATE, prompt_ids(K2, body))
    assert len({tuple(ids) for ids in known.values()}) == len(known) == 9
    assert list(renderings(K2_5, request(K2_5, 1, (ADD,)))) == [TEMPLATE]
    assert list(renderings(K2, request(K2, 1))) == [TEMPLATE]


def test_ids_that_the_server_gives_are_exact_where_their_count_agrees() -> None:
    body = request(K2_5, 1)
    ids = prompt_ids(K2_5, body)
    nothing = PromptCalibration()
    assert judged(reading(body, len(ids), ids), nothing) == PromptVerdict("exact", "prompt_token_ids", ids)
    wrong = judged(reading(body, len(ids) + 2, ids), nothing)
    assert (wrong.verdict, wrong.reason) == ("unverified", "given_prompt_ids_differ_from_count: +2")


def test_what_is_missing_is_unverified() -> None:
    body = request(K2_5, 1)
    assert judged(reading(body, None), PromptCalibration()).reason == "prompt_not_counted"
    strange = reading({**body, "messages": [{"role": "wizard", "content": "x"}]}, 12)
    assert observe_prompt(strange) is None
    assert judge_prompt(strange, None, None) == PromptVerdict("unverified", "prompt_not_rendered", None)


def test_kinds_are_told_by_what_servers_render_differently() -> None:
    assert [kind_of(request(K2, 1, tools, history)) for history in (False, True) for tools in ((), (ADD,))] == [
        "text",
        "tools",
        "history",
        "tools and history",
    ]


def test_groups_can_be_kept_as_json() -> None:
    (group,) = calibrated(served(with_bos, mixed(K2, (ADD,)), K2)).groups.values()
    assert msgspec.json.decode(msgspec.json.encode(group), type=PromptGroup) == group


SHARED = Path(__file__).parents[3] / "shared"
FILES = sorted(SHARED.glob("recorded/*.jsonl"))

if FILES:

    def test_recorded_prompts_are_explained_or_open() -> None:
        readings = [read(exchange) for exchange in exchanges_in(FILES)]
        calibration = calibrated(readings)
        verdicts: Counter[tuple[str, bool, str]] = Counter()
        for seen in readings:
            if seen.situation is None or not seen.response.prompt_tokens:
                continue
            verdict = judged(seen, calibration)
            verdicts[kind_of(seen.exchange.request), seen.situation.thinking, verdict.verdict] += 1
            assert reason_in_words(verdict.reason) != verdict.reason
            if verdict.verdict == "consistent":
                # Those without <think> at their end have it in the output.
                assert verdict.ids is not None
                assert len(verdict.ids) == seen.response.prompt_tokens
        by_kind: Counter[tuple[str, bool]] = Counter()
        for (what, thinking, _), times in verdicts.items():
            by_kind[what, thinking] += times
        assert verdicts["tools", True, "consistent"] == by_kind["tools", True] > 0
        assert verdicts["text", False, "consistent"] >= 0.85 * by_kind["text", False]
        assert verdicts["tools", False, "consistent"] >= 0.4 * by_kind["tools", False]
