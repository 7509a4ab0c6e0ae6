"""Prompts: their shape, what never becomes a marker, what cannot be rendered, and recorded prompt counts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_assets.targets.kimi import known_targets, target_named
from eagle_assets.targets.prompt import PromptError, prompt_ids
from eagle_assets.targets.target import Target

K25 = target_named("moonshotai/kimi-k2.5")
K2 = target_named("moonshotai/kimi-k2-0905")
RECORDED = Path(__file__).parents[3] / "shared" / "recorded"
INSTANT = {"reasoning": {"enabled": False}}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


def text_of(target: Target, request: dict[str, Any]) -> str:
    return target.vocabulary.decode(prompt_ids(target, request)).decode()


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def markers_in(target: Target, ids: list[int]) -> list[str]:
    return [target.vocabulary.special_text[i] for i in ids if i in target.vocabulary.special_text]


def test_thinking_prompt_ends_inside_think() -> None:
    assert (
        text_of(K25, user("Hi"))
        == "<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|><think>"
    )
    assert prompt_ids(K25, user("Hi"))[-1] == 163606


def test_instant_prompt_ends_after_an_empty_think() -> None:
    ids = prompt_ids(K25, user("Hi") | INSTANT)
    assert ids[-2:] == [163606, 163607]
    assert ids[:-1] == prompt_ids(K25, user("Hi"))


@pytest.mark.parametrize(
    ("asked", "thinks"),
    [
        ({"reasoning": {"effort": "none"}}, False),
        ({"reasoning_effort": "none"}, False),
        ({"chat_template_kwargs": {"thinking": False}}, False),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, True),
        ({"chat_template_kwargs": {"thinking": True}}, True),
        ({"reasoning": "none", "chat_template_kwargs": [False]}, True),
        ({"reasoning": {"exclude": True}}, True),
    ],
)
def test_the_switches_of_thinking(asked: dict[str, Any], thinks: bool) -> None:
    assert prompt_ids(K25, user("Hi") | asked) == prompt_ids(K25, user("Hi") | ({} if thinks else INSTANT))


def test_k2_never_thinks_and_is_given_its_system_turn() -> None:
    assert text_of(K2, user("Hi")) == (
        "<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>\n"
        "<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|>"
    )


def test_tools_are_declared_first_as_types_or_as_json() -> None:
    request = user("Hi") | {"tools": [WEATHER]}
    assert text_of(K25, request).startswith(
        "<|im_system|>tool_declare<|im_middle|># Tools\n\n## functions\nnamespace functions {\n"
        "// The weather in a place.\ntype weather = (_: {\n  place: string\n}) => any;\n}\n<|im_end|><|im_user|>"
    )
    declared = json.dumps([WEATHER], sort_keys=True)
    assert text_of(K2, request).startswith(
        f"<|im_system|>tool_declare<|im_middle|>{declared}<|im_end|><|im_system|>system"
    )


def test_a_tool_cycle_keeps_its_reasoning_and_a_finished_turn_loses_it() -> None:
    call = {
        "id": "functions.weather:0",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"place": "Rome"}'},
    }
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ciao", "reasoning": "forgotten"},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "reasoning": "kept", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.weather:0", "content": [{"type": "text", "text": "sunny"}]},
    ]
    text = text_of(K25, {"messages": turns})
    assert "<|im_assistant|>assistant<|im_middle|><think></think>Ciao<|im_end|>" in text
    assert (
        "<think>kept</think><|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
        '<|tool_call_argument_begin|>{"place": "Rome"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>'
    ) in text
    assert "## Return of functions.weather:0\nsunny<|im_end|>" in text


@pytest.mark.parametrize("target", known_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("marker", sorted(m for m in K25.vocabulary.special if "reserved" not in m))
def test_a_marker_in_any_text_stays_text(target: Target, marker: str) -> None:
    def request(word: str) -> dict[str, Any]:
        tool = json.loads(json.dumps(WEATHER).replace("place", word).replace("The weather", f"~0~{word}"))
        tool["function"]["parameters"]["properties"]["list"] = {"type": "array", "items": {"enum": [word, [word]]}}
        call = {"id": word, "type": "function", "function": {"name": "weather", "arguments": f'{{"a": "{word}"}}'}}
        return {
            "tools": [tool],
            "messages": [
                {"role": "system", "content": word},
                {"role": "user", "content": word, "name": word},
                {"role": "assistant", "content": f"{word}\n\nx"},
                {"role": "user", "content": [{"type": "text", "text": word[:3]}, {"type": "text", "text": word[3:]}]},
                {"role": "assistant", "content": word, "reasoning_content": word, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": word, "content": word},
            ],
        }

    ids = prompt_ids(target, request(marker))
    assert markers_in(target, ids) == markers_in(target, prompt_ids(target, request("word")))
    plain = target.vocabulary.decode(prompt_ids(target, request("QWORDQ"))).decode()
    assert target.vocabulary.decode(ids).decode() == plain.replace("QWORDQ", marker)


def test_neighbouring_texts_are_encoded_as_one() -> None:
    request = {
        "messages": [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "\n\n  b"}]
    }
    after_middle = text_of(K25, request).split("<|im_middle|>")[2].partition("<|im_end|>")[0]
    whole = K25.vocabulary.encode(after_middle)
    assert after_middle == "## Return of a\n\n\n  b"
    assert whole != K25.vocabulary.encode("## Return of a\n") + K25.vocabulary.encode("\n\n  b")
    ids = prompt_ids(K25, request)
    assert any(ids[i : i + len(whole)] == whole for i in range(len(ids)))


@pytest.mark.parametrize(
    ("request_body", "sentence"),
    [
        ({}, "messages must be a list"),
        ({"messages": "Hi"}, "messages must be a list"),
        ({"messages": []}, "at least one message"),
        ({"messages": ["Hi"]}, "message 1 must be an object"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "message 1 has the role 'narrator'"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "message 1 has the role"),
        (user(None), "content of message 1 (user) must be a text"),
        (user([{"type": "image_url", "image_url": {"url": "data:"}}]), "part of type 'image_url'"),
        (user("half a pair \ud83d"), "half a surrogate pair"),
        (user("x") | {"tools": {"name": "weather"}}, "tools must be a list"),
        (
            user("x") | {"tools": [{"function": {"name": "f", "parameters": {"properties": {"a": {"x": 1}}}}}]},
            "Invalid JSON Schema",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "tool_calls": [{"id": "1"}]}]},
            "function that has a name",
        ),
        ({"messages": [{"role": "tool", "tool_call_id": 7, "content": "x"}]}, "tool_call_id of message 1 (tool)"),
    ],
)
def test_what_cannot_be_rendered_is_one_sentence(request_body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PromptError, match=re.escape(sentence)):
        prompt_ids(K25, request_body)


def recorded_k25() -> list[tuple[dict[str, Any], int]]:
    """Requests of recorded K2.5 exchanges, and the prompt tokens that a server counted."""
    if not RECORDED.is_dir():
        return []
    lines = [json.loads(line) for path in sorted(RECORDED.glob("*.jsonl")) for line in path.open(encoding="utf-8")]
    return [
        (line, int(counts[-1]))
        for line in lines
        if "kimi-k2.5" in line["model"] and (counts := re.findall(r'"prompt_tokens":\s*(\d+)', line["body"]))
    ]


if recorded := recorded_k25():

    def test_recorded_prompt_counts() -> None:
        """AtlasCloud generates `<think>`, so its prompts are one shorter; the others count exactly these ids."""
        differences = {(line["provider"], count - len(prompt_ids(K25, line["request"]))) for line, count in recorded}
        assert {d for provider, d in differences if provider == "AtlasCloud"} <= {-1}
        assert {d for provider, d in differences if provider != "AtlasCloud"} <= {0}


@given(
    st.lists(st.tuples(st.sampled_from(["system", "user"]), st.text(max_size=40)), min_size=1, max_size=4),
    st.sampled_from(known_targets()),
    st.booleans(),
)
def test_plain_turns_filled_into_a_template_are_what_the_renderer_makes_of_them(
    turns: list[tuple[str, str]], target: Target, thinking: bool
) -> None:
    messages = [{"role": role, "content": text} for role, text in turns]
    request = {"messages": messages, "reasoning": {"enabled": thinking}}
    # A name takes a turn off the short way without changing what is rendered of it.
    named = {**request, "messages": [{**message, "name": message["role"]} for message in messages]}
    assert prompt_ids(target, request) == prompt_ids(target, named)


def test_a_prompt_is_rendered_without_a_client_for_a_server() -> None:
    code = (
        "import sys\n"
        "from eagle_assets.targets.kimi import target_named\n"
        "from eagle_assets.targets.prompt import prompt_ids\n"
        "prompt_ids(target_named('moonshotai/kimi-k2.5'), {'messages': [{'role': 'user', 'content': 'Hi'}]})\n"
        "assert not {'openai', 'httpx', 'aiohttp', 'transformers'} & sys.modules.keys()\n"
        "import renderers.client\n"
        "assert renderers.client.generate\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
