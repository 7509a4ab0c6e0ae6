"""The true outputs: a function of the request alone, in the grammar, and fit for what was asked."""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.sandbox.answering import situation_of, steps_of
from eagle_assets.sandbox.outputs import off_the_canonical_path, true_output
from eagle_assets.serving.output import parse_output
from eagle_assets.targets.kimi import target_named
from eagle_assets_tests.sandbox.packaged import packaged_requests

TARGET = target_named("moonshotai/kimi-k2.5")
VOCABULARY = TARGET.vocabulary
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "note": {"type": "string"}},
            "required": ["a", "b"],
        },
    },
}


def asked(question, **more):
    return {"model": TARGET.name, "messages": [{"role": "user", "content": question}], **more}


def text_of(ids):
    return VOCABULARY.decode(ids).decode("utf-8", "replace")


def is_canonical(ids, request):
    output = parse_output(ids, situation_of(request))
    segments = [output.reasoning or (), output.content, *(c.header for c in output.calls)]
    segments += [c.arguments or () for c in output.calls]
    return all(VOCABULARY.encode(text_of(segment)) == list(segment) for segment in segments)


def test_neither_provider_nor_stream_changes_the_output():
    request = asked("What is 12 × 13?")
    other = request | {"stream": True, "provider": {"only": ["harbour"]}, "usage": {"include": True}}
    assert true_output(request) == true_output(other) == true_output(request)


def test_another_question_gets_another_answer():
    assert true_output(asked("Tell me about rivers.")) != true_output(asked("Tell me about lakes."))


def test_packaged_outputs_are_in_the_grammar_and_varied():
    requests = packaged_requests()
    outputs = [true_output(request) for request in requests]
    parsed = [parse_output(ids, situation_of(request)) for ids, request in zip(outputs, requests, strict=True)]
    off_path = sum(not is_canonical(ids, request) for ids, request in zip(outputs, requests, strict=True))
    assert 0.02 < off_path / len(outputs) < 0.1
    assert any(not output.stopped for output in parsed)
    assert any(output.reasoning is None for output in parsed)
    assert {len(output.calls) for output in parsed} >= {0, 1, 2, 3}
    texts = [text_of(segment) for output in parsed for segment in (output.reasoning or (), output.content) if segment]
    assert 0.02 < sum(text.startswith(" ") for text in texts) / len(texts) < 0.12
    assert len({text[:2] for text in texts}) > 50
    assert max(map(len, outputs)) > 5_000


@pytest.mark.parametrize("limit", [1, 5, 40, 10_000])
def test_max_tokens_only_cuts(limit):
    request = asked("Compare rivers with lakes.")
    whole = true_output(request)
    cut = true_output(request | {"max_tokens": limit})
    assert cut == whole[:limit]
    assert (cut[-1] == TARGET.markers.stop) == (limit >= len(whole))


@given(question=st.text(max_size=200), instant=st.booleans(), tools=st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_question_gets_a_whole_output(question, instant, tools):
    request = asked(question, reasoning={"enabled": not instant}, tools=[ADD] if tools else [])
    ids = true_output(request)
    output = parse_output(ids, situation_of(request))
    assert output.stopped
    assert (output.reasoning is None) == instant
    VOCABULARY.decode(ids).decode()


def test_calls_respect_the_declared_tools():
    for request in packaged_requests("B6"):
        declared = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request["tools"]}
        ids = true_output(request)
        history = [call["id"] for message in request["messages"] for call in message.get("tool_calls") or ()]
        first = max((int(i.rpartition(":")[2]) + 1 for i in history), default=0)
        for index, call in enumerate(parse_output(ids, situation_of(request)).calls, start=first):
            if not call.closed:
                continue
            name, number = text_of(call.header).removeprefix("functions.").split(":")
            arguments = json.loads(text_of(call.arguments))
            assert int(number) == index
            assert set(declared[name]["required"]) <= arguments.keys() <= declared[name]["properties"].keys()


def test_tool_choice_none_calls_nothing():
    request = asked("Add 2 and 3.", tools=[ADD])
    assert parse_output(true_output(request), situation_of(request)).calls
    request["tool_choice"] = "none"
    assert not parse_output(true_output(request), situation_of(request)).calls


@pytest.mark.parametrize(
    ("question", "result"),
    [
        ("What is 37 × 46?", "1702"),
        ("Solve 3x + 7 = 52.", "x = 15"),
        ("A jacket costs $80, minus 15 %.", "$68.00"),
        ("The greatest common divisor of 1071 and 462?", "**21**"),
        ("The prime factors of 360?", "2^3 × 3^2 × 5"),
        ("Sum the integers from 1 to 100.", "**5050**"),
        ("Solve x^2 - 5x + 6 = 0.", "(x - 2)(x - 3)"),
        ("The median of 3, 41, 8, 27, 16, 30?", "| median | 21.5 |"),
        ("A triangle has legs of 5 and 12.", "**13**"),
        ("How can I choose 3 books from 10?", "**120**"),
    ],
)
def test_sums_are_right(question, result):
    assert result in text_of(true_output(asked(question)))


@given(text=st.text(min_size=3, max_size=80), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_leaving_the_canonical_path_keeps_the_bytes(text, seed):
    ids = [*VOCABULARY.encode(text), TARGET.markers.stop]
    changed = off_the_canonical_path(VOCABULARY, ids, Random(seed))
    assert VOCABULARY.decode(changed) == VOCABULARY.decode(ids)
    assert len(ids) <= len(changed) <= len(ids) + 1


def test_a_word_can_leave_the_canonical_path():
    ids = [*VOCABULARY.encode("Reconstruction"), TARGET.markers.stop]
    assert off_the_canonical_path(VOCABULARY, ids, Random(1)) != ids


@given(tokens=st.integers(0, 500), most=st.integers(1, 5), seed=st.integers(0, 99))
def test_steps_cover_the_tokens(tokens, most, seed):
    steps = steps_of(tokens, most, Random(seed))
    assert sum(steps) == tokens
    assert all(1 <= step <= most for step in steps)
