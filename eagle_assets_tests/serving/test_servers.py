"""Each behaviour of the server models by example, on ids made of marked text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.serving.coercion import coerced_to_schema
from eagle_assets.serving.detokenise import SglangDetokeniser, VllmDetokeniser
from eagle_assets.serving.gateway import leaves_stop_uncounted, normalises, rewrites_calls, trims
from eagle_assets.serving.served import Frame, Served, Situation, ToolCall
from eagle_assets.serving.servers import (
    KNOWN_SERVERS,
    SGLANG_0_5_8,
    SGLANG_0_5_9,
    SGLANG_0_5_10,
    SGLANG_0_5_12,
    SGLANG_0_5_23,
    VLLM_0_33,
    VLLM_0_33_WITHOUT_BLANKS,
    Server,
)
from eagle_assets.serving.stepping import possible_steppings
from eagle_assets.targets.kimi import target_named

K2_5 = target_named("moonshotai/kimi-k2.5")
K2 = target_named("moonshotai/kimi-k2-0905")
MARKERS = {
    "[THINK_END]": K2_5.markers.think_end,
    "[SECTION]": K2_5.markers.section_begin,
    "[SECTION_END]": K2_5.markers.section_end,
    "[CALL]": K2_5.markers.call_begin,
    "[ARGUMENTS]": K2_5.markers.argument_begin,
    "[CALL_END]": K2_5.markers.call_end,
    "[STOP]": K2_5.markers.stop,
}
TOOLS: tuple[dict[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": "set",
            "parameters": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "r": {"type": "number"}, "s": {"type": "string"}},
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "find", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
    },
)


def ids_of(marked: str) -> list[int]:
    """Canonical ids of text with markers named in capitals."""
    ids: list[int] = []
    for part in re.split(r"(\[[A-Z_]+\])", marked):
        ids += [MARKERS[part]] if part in MARKERS else K2_5.vocabulary.encode(part)
    return ids


def rendered(
    server: Server, marked: str | list[int], *, streamed: bool = False, mode: str = "thinking", history: int = 0
) -> Served:
    target = K2 if mode == "none" else K2_5
    ids = ids_of(marked) if isinstance(marked, str) else marked
    return server.render(ids, Situation(target, mode == "thinking", TOOLS, history, streamed))


def called(*calls: tuple[str, str], closed: bool = True) -> str:
    """A section of calls, given as headers and arguments."""
    inner = "".join(f"[CALL]{header}[ARGUMENTS]{arguments}[CALL_END]" for header, arguments in calls)
    return f"[SECTION]{inner}" + ("[SECTION_END][STOP]" if closed else "")


def pairs(served: Served) -> list[tuple[str, str]]:
    return [(frame.field, frame.text) for frame in served.frames]


# vLLM 0.33


def test_vllm_puts_blanks_round_markers_and_strips_the_reasonings_end() -> None:
    marked = "So. \n[THINK_END]Hi" + called(("functions.set:0", "{}"))
    message = rendered(VLLM_0_33, marked).message
    assert (message.reasoning, message.content) == (" So.", " Hi ")
    message = rendered(VLLM_0_33_WITHOUT_BLANKS, marked).message
    assert (message.reasoning, message.content) == ("So.", "Hi")


def test_vllm_sends_no_content_of_white_space_ahead_of_calls() -> None:
    marked = "So.[THINK_END]\n\n" + called(("functions.set:0", "{}"))
    for streamed in (False, True):
        assert rendered(VLLM_0_33_WITHOUT_BLANKS, marked, streamed=streamed).message.content is None
    assert rendered(VLLM_0_33_WITHOUT_BLANKS, "So.[THINK_END]\n\n[STOP]").message.content == "\n\n"


def test_vllm_swallows_typed_markers_where_it_reads_text_alone() -> None:
    marked = "A `<think>`.[THINK_END]B `<|im_end|>`, `</think>`, `[EOS]`, `<|tool_call_end|>`.[STOP]"
    message = rendered(VLLM_0_33_WITHOUT_BLANKS, marked).message
    assert (message.reasoning, message.content) == ("A ``.", "B ``, ``, ``, `<|tool_call_end|>`.")
    message = rendered(VLLM_0_33_WITHOUT_BLANKS, marked, streamed=True).message
    assert (message.reasoning, message.content) == (
        "A `<think>`.",
        "B `<|im_end|>`, `</think>`, `[EOS]`, `<|tool_call_end|>`.",
    )
    instant = rendered(VLLM_0_33_WITHOUT_BLANKS, "`</think>` `<|im_user|>`[STOP]", mode="instant").message
    assert instant.content == "`</think>` ``"


def test_vllm_lets_typed_markers_end_reasoning_and_content() -> None:
    message = rendered(
        VLLM_0_33_WITHOUT_BLANKS, "A </think> B[THINK_END]C <|tool_calls_section_begin|> D[STOP]"
    ).message
    assert (message.reasoning, message.content) == ("A", " BC ")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (' {"s":"x"}\n', '{"s":"x"}'),
        ("", "{}"),
        (" ", "{}"),
        ('{"n":"3","s":"é"}', '{"n": 3, "s": "é"}'),
        ('{"r":1.0}', '{"r": 1}'),
        ('{"s":3}', '{"s": "3"}'),
        ('{"n":"x"}', '{"n":"x"}'),
        ('{"other":"3"}', '{"other":"3"}'),
        ('{"n":"3"', '{"n":"3"'),
    ],
)
def test_vllm_writes_arguments_anew_only_where_the_schema_changes_a_value(arguments: str, shown: str) -> None:
    marked = "So.[THINK_END]" + called(("functions.set:0", arguments))
    (call,) = rendered(VLLM_0_33_WITHOUT_BLANKS, marked).message.tool_calls
    assert call == ToolCall("functions.set:0", "set", shown)
    (call,) = rendered(VLLM_0_33_WITHOUT_BLANKS, marked, streamed=True).message.tool_calls
    assert call == ToolCall("functions.set:0", "set", arguments)


def test_coercion_reaches_into_containers_and_keeps_the_last_of_equal_keys() -> None:
    schema = {
        "a": {"type": "array", "items": {"type": "boolean"}},
        "o": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}},
        "e": {"enum": ["x", None]},
        "u": {"anyOf": [{"type": "number"}, {"type": "string"}]},
    }
    tools = [{"function": {"name": "f", "parameters": {"properties": schema}}}]

    def written(arguments: str) -> str:
        return coerced_to_schema(arguments, "f", tools)

    assert written('{"a":["true",false,"0"]}') == '{"a": [true, false, false]}'
    assert written('{"o":{"n":"null"}}') == '{"o": {"n": null}}'
    assert written('{"e":"null","e":"x"}') == '{"e":"null","e":"x"}'
    assert written('{"e":"x","e":"null"}') == '{"e": null}'
    assert written('{"u":"1e3"}') == '{"u": 1000}'
    assert written('{"u":"1e999"}') == '{"u":"1e999"}'
    assert written('{"a":["true"]}x') == '{"a":["true"]}x'


def test_vllm_takes_the_name_up_to_the_first_colon_and_makes_ids_for_cut_headers() -> None:
    marked = "So.[THINK_END][SECTION][CALL] functions.a:b:4 [ARGUMENTS]{}[CALL_END][CALL]functions.se"
    expected = [("functions.a:b:4", "a", "{}"), ("functions.functions.se:0", "functions.se", "{}")]
    served = rendered(VLLM_0_33_WITHOUT_BLANKS, marked)
    assert [(call.id, call.name, call.arguments) for call in served.message.tool_calls] == expected
    assert served.finish_reason == "length"


def test_vllm_drops_tokens_of_an_incomplete_character_at_the_end() -> None:
    ids = [*ids_of("So.[THINK_END]Well "), K2_5.vocabulary.id_of_bytes[b" \xf0\x9f"]]
    for streamed in (False, True):
        served = rendered(VLLM_0_33_WITHOUT_BLANKS, ids, streamed=streamed)
        assert (served.message.content, served.completion_tokens) == ("Well ", len(ids))


def test_vllm_holds_back_what_may_become_a_marker_and_what_may_be_stripped() -> None:
    served = rendered(VLLM_0_33_WITHOUT_BLANKS, "So. \n\n[THINK_END] \n**x < y[STOP]", streamed=True)
    assert pairs(served) == [
        ("reasoning", "So"),
        ("reasoning", "."),
        ("content", " \n**"),
        ("content", "x"),
        ("content", " "),
        ("content", "< y"),
    ]


def test_vllm_glues_a_held_marker_beginning_to_a_cut_reasoning() -> None:
    assert rendered(VLLM_0_33_WITHOUT_BLANKS, "So. <", streamed=True).message.reasoning == "So.<"
    assert rendered(VLLM_0_33_WITHOUT_BLANKS, "So. <").message.reasoning == "So. <"


def test_vllm_names_a_call_with_its_first_arguments_and_holds_the_last_brace() -> None:
    marked = "So.[THINK_END]" + called(("functions.set:0", '{"n":3}'))
    assert rendered(VLLM_0_33, marked, streamed=True).frames[2:] == (
        Frame("tool_calls", ' {"', 0, "functions.set:0", "set"),
        Frame("tool_calls", "n", 0),
        Frame("tool_calls", '":', 0),
        Frame("tool_calls", "3", 0),
        Frame("tool_calls", "} ", 0),
    )


def test_vllm_counts_no_streamed_token_that_ends_inside_a_character() -> None:
    split = [K2_5.vocabulary.id_of_bytes[bytes([byte])] for byte in "é".encode()]
    ids = [*ids_of("So "), *split, *ids_of("[THINK_END]x[STOP]")]
    assert rendered(VLLM_0_33, ids).reasoning_tokens == len(ids_of("So ")) + 2
    assert rendered(VLLM_0_33, ids, streamed=True).reasoning_tokens == len(ids_of("So ")) + 1


def test_vllm_loses_its_blank_where_a_step_ends_in_white_space_behind_a_marker() -> None:
    ids = ids_of("So.[THINK_END] \n[STOP]")
    situation = Situation(K2_5, True, TOOLS, streamed=True)
    assert VLLM_0_33.render(ids, situation).message.content == "  \n"
    assert VLLM_0_33.render(ids, situation, [len(ids)]).message.content == "  \n"
    blank = K2_5.vocabulary.id_of_bytes[b" "]
    ids = [*ids_of("So.[THINK_END]"), blank, *ids_of("x[STOP]")]
    assert VLLM_0_33.render(ids, situation).message.content == "  x"
    assert VLLM_0_33.render(ids, situation, [2, 2, 2]).message.content == " x"


def test_vllm_without_tools_skips_special_tokens_of_a_model_that_never_thinks() -> None:
    ids = ids_of("Hi[STOP]")
    assert VLLM_0_33.render(ids, Situation(K2, False)).message.content == "Hi"
    assert VLLM_0_33.render(ids, Situation(K2, False, TOOLS)).message.content == " Hi"
    assert VLLM_0_33.render(ids, Situation(K2_5, False)).message.content == " Hi"


# SGLang 0.5.23


def test_sglang_changes_no_text_and_renumbers_calls() -> None:
    marked = "So. \n[THINK_END] \n" + called(("functions.set:7", ' {"n":"3"} '), ("find:9", "{}"))
    served = rendered(SGLANG_0_5_23, marked, history=2)
    assert (served.message.reasoning, served.message.content) == ("So. \n", " \n")
    assert served.message.tool_calls == (
        ToolCall("functions.set:2", "set", '{"n":"3"}'),
        ToolCall("functions.find:3", "find", "{}"),
    )
    streamed = rendered(SGLANG_0_5_23, marked, history=2, streamed=True)
    assert streamed.message.tool_calls[0] == ToolCall("functions.set:2", "set", ' {"n":"3"} ')
    assert served.reasoning_tokens == streamed.reasoning_tokens == len(ids_of("So. \n")) + 1


@pytest.mark.parametrize(
    ("section", "finish"),
    [
        (called(("functions.set:0", "[1]")), "stop"),
        (called(("functions.set:0", "")), "stop"),
        (called(("functions.my set:0", "{}")), "stop"),
        (called(("functions.set", "{}")), "stop"),
        ('[SECTION][CALL]functions.set:0[ARGUMENTS]{"s":"x', "length"),
    ],
)
def test_sglang_drops_calls_that_its_pattern_does_not_fit(section: str, finish: str) -> None:
    served = rendered(SGLANG_0_5_23, "So.[THINK_END]Hi" + section)
    assert (served.message.content, served.message.tool_calls, served.finish_reason) == ("Hi", (), finish)
    kept = rendered(SGLANG_0_5_23, "So.[THINK_END]Hi" + called(("functions.my set:0", "{}"), ("functions.set:1", "{}")))
    assert kept.message.tool_calls == (ToolCall("functions.set:0", "set", "{}"),)


def test_sglang_finds_the_tool_of_a_bare_number_by_its_arguments() -> None:
    marked = "So.[THINK_END]" + called(("3", '{"query":"x"}'))
    for streamed in (False, True):
        (call,) = rendered(SGLANG_0_5_23, marked, streamed=streamed).message.tool_calls
        assert call == ToolCall("functions.find:0", "find", '{"query":"x"}')


def test_sglang_ends_the_reasoning_at_the_first_typed_marker_too() -> None:
    message = rendered(SGLANG_0_5_23, "A </think> B[THINK_END]C[STOP]").message
    assert (message.reasoning, message.content) == ("A ", " B</think>C")
    message = rendered(SGLANG_0_5_23, "A" + called(("functions.set:0", "{}"))).message
    assert (message.reasoning, message.content, len(message.tool_calls)) == ("A", None, 1)


def test_sglang_shows_replacement_characters_at_a_cut() -> None:
    ids = [*ids_of("So.[THINK_END]Hm"), K2_5.vocabulary.id_of_bytes[b" \xf0\x9f"]]
    for streamed in (False, True):
        assert rendered(SGLANG_0_5_23, ids, streamed=streamed).message.content == "Hm �"


def test_sglang_sends_the_printable_part_of_a_token_early() -> None:
    split = K2_5.vocabulary.id_of_bytes
    ids = [*ids_of("So.[THINK_END]"), split[b" \xf0\x9f"], split[b"\x98"], split[b"\x80"], *ids_of("[STOP]")]
    assert pairs(rendered(SGLANG_0_5_23, ids, streamed=True))[2:] == [("content", " "), ("content", "😀")]


def test_sglang_completes_the_arguments_of_a_last_call_without_any() -> None:
    for arguments, sent in (("", ["", "{}"]), ("{", ["", "{", "}"]), ("{}", ["", "{}"])):
        marked = "So.[THINK_END]" + called(("functions.set:0", arguments))
        frames = rendered(SGLANG_0_5_23, marked, streamed=True).frames
        assert [frame.text for frame in frames if frame.field == "tool_calls"] == sent


def test_sglang_holds_back_beginnings_of_markers_and_loses_them_at_a_cut() -> None:
    served = rendered(SGLANG_0_5_23, "So.[THINK_END]a <|tool_call_x <|[STOP]", streamed=True)
    assert served.message.content == "a <|tool_call_x "
    assert rendered(SGLANG_0_5_23, "So.[THINK_END]a <|[STOP]").message.content == "a <|"


# SGLang 0.5.8 to 0.5.12


def test_early_sglang_strips_the_whole_before_it_splits() -> None:
    marked = " So. [THINK_END]\n Hi \n[STOP]"
    message = rendered(SGLANG_0_5_8, marked).message
    assert (message.reasoning, message.content) == ("So.  ", "Hi")
    message = rendered(SGLANG_0_5_10, marked).message
    assert (message.reasoning, message.content) == ("So. ", "Hi")
    message = rendered(SGLANG_0_5_8, marked, streamed=True).message
    assert (message.reasoning, message.content) == ("  So. ", " \n Hi \n")


def test_early_sglang_takes_every_answer_for_a_reasoning() -> None:
    for streamed in (False, True):
        assert rendered(SGLANG_0_5_8, "Hi[STOP]", mode="instant", streamed=streamed).message.content is None
        assert rendered(SGLANG_0_5_9, "Hi[STOP]", mode="instant", streamed=streamed).message.reasoning is None
        assert rendered(SGLANG_0_5_8, "Hi[STOP]", mode="none", streamed=streamed).message.reasoning is None


def test_early_sglang_leaves_a_section_without_calls_in_the_content() -> None:
    served = rendered(SGLANG_0_5_8, "So.[THINK_END]Hi" + called(("functions.my-set:0", "{}")))
    assert served.message.content == (
        "Hi <|tool_calls_section_begin|> <|tool_call_begin|> functions.my-set:0 <|tool_call_argument_begin|> {} "
        "<|tool_call_end|> <|tool_calls_section_end|>"
    )
    assert (served.message.tool_calls, served.finish_reason) == ((), "tool_calls")


@pytest.mark.parametrize(
    ("server", "headers"),
    [
        (SGLANG_0_5_8, ["functions.set:4"]),
        (SGLANG_0_5_9, ["functions.set:4", "functions.set:6"]),
        (SGLANG_0_5_10, ["functions.set:4", "functions.my-set:5", "functions.set:6"]),
        (SGLANG_0_5_12, ["functions.set:4", "functions.my-set:5", "functions.set:6", "functions.find:7"]),
    ],
)
def test_early_sglang_keeps_the_models_index_and_drops_what_its_pattern_does_not_fit(
    server: Server, headers: list[str]
) -> None:
    calls = (
        ("functions.set:4", "{}"),
        ("functions.my-set:5", "{}"),
        ("functions.set:6", '{\n"n":1}'),
        ("7", '{"query":"x"}'),
    )
    served = rendered(server, "So.[THINK_END]Hi" + called(*calls))
    assert [call.id for call in served.message.tool_calls] == headers


def test_early_sglang_sends_the_blanks_round_markers_after_a_call() -> None:
    frames = rendered(SGLANG_0_5_8, "So.[THINK_END]Hi" + called(("functions.set:4", '{"n":3}')), streamed=True).frames
    assert frames[2:] == (
        Frame("content", " Hi"),
        Frame("tool_calls", "", 0, "functions.set:0", "set"),
        Frame("tool_calls", '{"n', 0),
        Frame("tool_calls", '":', 0),
        Frame("tool_calls", "3", 0),
        Frame("tool_calls", "}", 0),
        Frame("content", " "),
        Frame("content", " "),
    )


def test_early_sglang_counts_reasoning_from_0_5_10_on() -> None:
    counts = [
        rendered(s, "So.[THINK_END]x[STOP]").reasoning_tokens for s in (SGLANG_0_5_8, SGLANG_0_5_9, SGLANG_0_5_10)
    ]
    assert counts == [0, 0, 3]


# Gateways


def test_gateways_change_whole_answers() -> None:
    marked = " So. [THINK_END] e\u0301 " + called(("functions.set:0", '{"s": "e\u0301"}'))
    message = rendered(SGLANG_0_5_23.behind(trims), marked).message
    assert (message.reasoning, message.content) == ("So.", "e\u0301")
    message = rendered(SGLANG_0_5_23.behind(normalises), marked).message
    assert (message.content, message.tool_calls[0].arguments) == (" \u00e9 ", '{"s": "\u00e9"}')
    (call,) = rendered(SGLANG_0_5_23.behind(rewrites_calls), marked).message.tool_calls
    assert re.fullmatch("call_[0-9a-f]{24}", call.id)
    assert call.arguments == '{"s":"e\u0301"}'
    assert rendered(SGLANG_0_5_23.behind(leaves_stop_uncounted), marked).completion_tokens == len(ids_of(marked)) - 1
    assert rendered(SGLANG_0_5_23.behind(leaves_stop_uncounted), "So").completion_tokens == 1


# Steps of a stream


def test_no_steps_explain_frames_that_were_not_all_sent() -> None:
    ids, situation = ids_of("So.[THINK_END]Hi you[STOP]"), Situation(K2_5, True, streamed=True)
    frames = SGLANG_0_5_23.render(ids, situation, [2, 1, 2, 1]).frames
    assert frames == (Frame("reasoning", "So."), Frame("content", "Hi you"))
    found = possible_steppings(SGLANG_0_5_23, ids, situation, frames, range(1, 4))
    assert found
    assert all(SGLANG_0_5_23.render(ids, situation, stepping.sizes).frames == frames for stepping in found)
    assert not possible_steppings(SGLANG_0_5_23, ids, situation, frames, range(1, 2))
    assert not possible_steppings(SGLANG_0_5_23, ids, situation, frames[:1], range(1, 4))
    assert not possible_steppings(SGLANG_0_5_23, ids, situation, (*frames, Frame("content", "x")), range(1, 4))
    assert not possible_steppings(SGLANG_0_5_23, [], situation, frames, range(1, 4))


# All of them

texts = st.text(alphabet=st.sampled_from('ab é😀文 \n<|[{}":,`'), max_size=12)
outputs = st.builds(
    lambda reasoning, content, calls: f"{reasoning}[THINK_END]{content}" + (called(*calls) if calls else "[STOP]"),
    texts,
    texts,
    st.lists(st.tuples(st.just("functions.set:0"), texts), max_size=2),
)


@settings(deadline=None, max_examples=30)
@given(marked=outputs, sizes=st.lists(st.integers(1, 5), max_size=20), server=st.sampled_from(KNOWN_SERVERS))
def test_the_steps_of_a_stream_are_among_those_that_explain_its_frames(
    marked: str, sizes: list[int], server: Server
) -> None:
    ids = ids_of(marked)
    situation = Situation(K2_5, True, TOOLS, streamed=True)
    served = server.render(ids, situation, sizes)
    found = possible_steppings(server, ids, situation, served.frames, range(1, 6))
    assert found
    assert served.reasoning_tokens in {stepping.reasoning_tokens for stepping in found}
    again = server.render(ids, situation, found[0].sizes)
    assert again.frames == served.frames


@settings(deadline=None)
@given(text=st.text(max_size=30), blanks=st.booleans())
def test_detokenisers_lose_nothing_of_whole_characters(text: str, blanks: bool) -> None:
    ids = [*K2_5.vocabulary.encode(text), K2_5.markers.think_end]
    situation = Situation(K2_5, True)
    expected = f" {text} </think>" if blanks and text else f"{' ' * blanks}{text}</think>"
    for detokeniser in (VllmDetokeniser(blanks), SglangDetokeniser(blanks)):
        steps = detokeniser.start(situation)
        assert "".join(steps.add([token], token == ids[-1]) for token in ids) == expected
        assert detokeniser.start(situation).add(ids, last=True) == expected
