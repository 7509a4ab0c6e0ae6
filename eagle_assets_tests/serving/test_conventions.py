"""Conventions: each rule by an example, and what holds of any output under any convention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.serving.convention import EVERY_EDGE, Convention, Edge
from eagle_assets.serving.conventions import (
    BARE_TOOL_IDS,
    BLANKS_ROUND_ADDED_TOKENS,
    STOP_NOT_COUNTED,
    THINK_GENERATED,
    VERBATIM,
)
from eagle_assets.serving.frames import Strip
from eagle_assets.serving.output import Ids, join_output
from eagle_assets.serving.served import Message, Served, Situation, ToolCall
from eagle_assets_tests.serving.outputs import (
    INSTANT,
    MARKERS,
    NEVER,
    THINKING,
    VOCABULARY,
    canonical,
    ordinary,
    outputs,
)

PLAIN = Convention("plain")
STREAMED = replace(THINKING, streamed=True)
TOOLS: tuple[dict[str, object], ...] = ({"type": "function", "function": {"name": "f"}},)
M = MARKERS


def spelt(*parts: str | int) -> list[int]:
    """Ids of texts and markers, each text encoded for itself."""
    return [token for part in parts for token in ([part] if isinstance(part, int) else VOCABULARY.encode(part))]


def call(header: str, arguments: str) -> list[int]:
    return spelt(M.call_begin, header, M.argument_begin, arguments, M.call_end)


ANSWER = spelt("Think.", M.think_end, "Say.", M.stop)
ACTION = [
    *spelt("Think.", M.think_end, "Say.", M.section_begin),
    *call("functions.f:0", ' {"a": 1} '),
    *call("functions.g:4", "{}"),
    *spelt(M.section_end, M.stop),
]


def texts_of(served: Served) -> tuple[str | None, ...]:
    message = served.message
    return message.reasoning, message.content, *(c.arguments for c in message.tool_calls)


# ---- rules, one by one


def test_nothing_is_changed_by_the_plain_convention() -> None:
    served = PLAIN.render(ACTION, THINKING)
    calls = (ToolCall("functions.f:0", "f", ' {"a": 1} '), ToolCall("functions.g:4", "g", "{}"))
    assert served.message == Message("Think.", "Say.", calls)
    assert (served.finish_reason, served.completion_tokens, served.prompt_offset) == ("tool_calls", len(ACTION), 0)
    assert served.frames == ()
    assert PLAIN.render(ANSWER, THINKING).message == Message("Think.", "Say.")
    assert PLAIN.render(spelt("Say.", M.stop), INSTANT).message == Message(None, "Say.")


@pytest.mark.parametrize(
    ("edge", "shown"),
    [
        ("reasoning_start", (" Think.", "Say.", ' {"a": 1} ', "{}")),
        ("reasoning_end", ("Think. ", "Say.", ' {"a": 1} ', "{}")),
        ("content_start", ("Think.", " Say.", ' {"a": 1} ', "{}")),
        ("content_end", ("Think.", "Say. ", ' {"a": 1} ', "{}")),
        ("arguments_start", ("Think.", "Say.", '  {"a": 1} ', " {}")),
        ("arguments_end", ("Think.", "Say.", ' {"a": 1}  ', "{} ")),
    ],
)
def test_a_blank_at_each_edge(edge: Edge, shown: tuple[str, ...]) -> None:
    convention = replace(PLAIN, blanks=frozenset({edge}))
    assert texts_of(convention.render(ACTION, STREAMED)) == shown
    if not edge.startswith("arguments"):  # in JSON a parser strips these
        assert texts_of(convention.render(ACTION, THINKING)) == shown
    else:
        assert texts_of(convention.render(ACTION, THINKING)) == ("Think.", "Say.", ' {"a": 1} ', "{}")


def test_no_blank_where_no_added_token_is_met() -> None:
    convention = replace(PLAIN, blanks=EVERY_EDGE)
    assert convention.render(spelt("Thi"), THINKING).message == Message(" Thi", None)
    assert convention.render(spelt("Think.", M.think_end, "Sa"), THINKING).message == Message(" Think. ", " Sa")
    assert convention.render(spelt("Think.", M.think_end, M.stop), THINKING).message == Message(" Think. ", None)
    assert convention.render(spelt("Say.", M.stop), INSTANT).message == Message(None, " Say.")
    # K2's prompt ends in a special token, which is skipped unless tools are declared.
    assert convention.render(spelt("Say.", M.stop), NEVER).message == Message(None, "Say.")
    assert convention.render(spelt("Say.", M.stop), replace(NEVER, tools=TOOLS)).message == Message(None, " Say.")


@pytest.mark.parametrize(
    ("strip", "shown"), [("none", " \n a \n"), ("left", "a \n"), ("right", " \n a"), ("both", "a")]
)
def test_stripping(strip: Strip, shown: str) -> None:
    ids = spelt(" \n a \n", M.think_end, " \n a \n", M.stop)
    assert replace(PLAIN, reasoning_strip=strip).render(ids, THINKING).message == Message(shown, " \n a \n")
    assert replace(PLAIN, content_strip=strip).render(ids, THINKING).message == Message(" \n a \n", shown)


def test_stripping_comes_after_the_blanks() -> None:
    convention = replace(PLAIN, blanks=EVERY_EDGE, reasoning_strip="right")
    assert convention.render(spelt("a\n", M.think_end, "b", M.stop), THINKING).message == Message(" a", " b")


def test_a_blank_content_before_calls_is_null() -> None:
    ids = spelt("a", M.think_end, "\n ", M.section_begin, *call("functions.f:0", "{}"), M.section_end, M.stop)
    assert PLAIN.render(ids, THINKING).message.content == "\n "
    assert replace(PLAIN, blank_content_is_null=True).render(ids, THINKING).message.content is None
    alone = spelt("a", M.think_end, "\n ", M.stop)
    assert replace(PLAIN, blank_content_is_null=True).render(alone, THINKING).message.content == "\n "


@pytest.mark.parametrize(
    ("tool_ids", "ids"),
    [
        ("kept", ["functions.f:0", "functions.g:4"]),
        ("bare", ["f:0", "g:4"]),
        ("renumbered", ["functions.f:3", "functions.g:4"]),
    ],
)
def test_tool_ids(tool_ids: Any, ids: list[str]) -> None:
    served = replace(PLAIN, tool_ids=tool_ids).render(ACTION, replace(THINKING, calls_in_history=3))
    assert [c.id for c in served.message.tool_calls] == ids
    assert [c.name for c in served.message.tool_calls] == ["f", "g"]


def test_opaque_tool_ids_tell_nothing_and_differ() -> None:
    calls = replace(PLAIN, tool_ids="opaque").render(ACTION, THINKING).message.tool_calls
    assert len({c.id for c in calls}) == 2
    assert not any("f" in c.id.removeprefix("call_").strip("abcdef0123456789") or ":" in c.id for c in calls)
    assert [c.name for c in calls] == ["f", "g"]


@pytest.mark.parametrize("name", ["f", "get-weather", "a:b", "größe", "functions.f"])
def test_names_of_functions(name: str) -> None:
    ids = spelt("a", M.think_end, M.section_begin, *call(f"functions.{name}:12", "{}"), M.section_end, M.stop)
    (made,) = PLAIN.render(ids, THINKING).message.tool_calls
    assert (made.id, made.name) == (f"functions.{name}:12", name)


def arguments_shown(convention: Convention, arguments: str, streamed: bool = False) -> str:
    ids = spelt("a", M.think_end, M.section_begin, *call("functions.f:0", arguments), M.section_end, M.stop)
    return convention.render(ids, replace(THINKING, streamed=streamed)).message.tool_calls[0].arguments


def test_arguments_are_kept_stripped_or_written_anew() -> None:
    written = ' {"ä": [1, "\\u00e9"],  "b": 1.50}\n'
    compact = replace(PLAIN, arguments="compact")
    assert arguments_shown(PLAIN, written) == written
    assert arguments_shown(replace(PLAIN, arguments="stripped"), written) == written.strip()
    assert arguments_shown(replace(PLAIN, arguments="stripped"), written, streamed=True) == written
    assert arguments_shown(compact, written) == '{"ä":[1,"é"],"b":1.5}'
    assert arguments_shown(compact, written, streamed=True) == '{"ä":[1,"é"],"b":1.5}'
    assert arguments_shown(compact, '{"a": 1') == '{"a": 1'


def test_texts_are_normalised() -> None:
    ids = spelt("\u1f77", M.think_end, "\u1f77", M.stop)
    assert PLAIN.render(ids, THINKING).message == Message("\u1f77", "\u1f77")
    assert replace(PLAIN, nfc=True).render(ids, THINKING).message == Message("\u03af", "\u03af")


def test_an_incomplete_character_is_shown_or_dropped() -> None:
    ids = next(ids for ids in map(VOCABULARY.encode, "𓀀𒀀🀀🂡𐎀") if len(ids) > 1)
    cut = spelt("a", M.think_end, "b") + ids[:1]
    assert replace(PLAIN, incomplete="replaced").render(cut, THINKING).message.content == "b\ufffd"
    assert replace(PLAIN, incomplete="dropped").render(cut, THINKING).message.content == "b"


# ---- counts


def test_counts_of_every_rule() -> None:
    assert PLAIN.render(ANSWER, THINKING).completion_tokens == len(ANSWER)
    assert replace(PLAIN, stop_counted=False).render(ANSWER, THINKING).completion_tokens == len(ANSWER) - 1
    assert replace(PLAIN, stop_counted=False).render(ANSWER[:-1], THINKING).completion_tokens == len(ANSWER) - 1
    assert replace(PLAIN, section_end_counted=False).render(ACTION, THINKING).completion_tokens == len(ACTION) - 1
    assert replace(PLAIN, section_end_counted=False).render(ANSWER, THINKING).completion_tokens == len(ANSWER)


def test_a_generated_think_marker_is_counted_and_missing_in_the_prompt() -> None:
    served = replace(PLAIN, think_generated=True).render([M.think_begin, *ANSWER], THINKING)
    assert served.message == Message("Think.", "Say.")
    assert (served.completion_tokens, served.prompt_offset) == (len(ANSWER) + 1, -1)
    assert replace(PLAIN, think_generated=True).render(spelt("Say.", M.stop), INSTANT).prompt_offset == 0


@pytest.mark.parametrize(("rule", "count"), [("with_end", 3), ("without_end", 2), ("zero", 0), (None, None)])
def test_counts_of_reasoning(rule: Any, count: int | None) -> None:
    assert len(VOCABULARY.encode("Think.")) == 2
    convention = replace(PLAIN, reasoning_count=rule)
    assert convention.render(ANSWER, THINKING).reasoning_tokens == count
    assert convention.render(spelt("Say.", M.stop), INSTANT).reasoning_tokens is None


@pytest.mark.parametrize(
    ("ids", "finish"), [(ANSWER, "stop"), (ACTION, "tool_calls"), (ANSWER[:-1], "length"), (ACTION[:-1], "length")]
)
def test_finish_reasons(ids: list[int], finish: str) -> None:
    assert PLAIN.render(ids, THINKING).finish_reason == finish


# ---- frames


def frames_of(ids: list[int], convention: Convention = PLAIN, steps: list[int] | None = None) -> list[tuple[str, str]]:
    return [(frame.field, frame.text) for frame in convention.render(ids, STREAMED, steps).frames]


def test_a_frame_for_each_token() -> None:
    assert frames_of(ANSWER) == [("reasoning", "Think"), ("reasoning", "."), ("content", "Say"), ("content", ".")]


def test_a_frame_for_each_step() -> None:
    ids = spelt("One two three four.", M.think_end, "b", M.stop)
    assert frames_of(ids, steps=[2, 3]) == [("reasoning", "One two"), ("reasoning", " three four."), ("content", "b")]


def test_white_space_that_may_be_stripped_is_held_back() -> None:
    convention = replace(PLAIN, reasoning_strip="right")
    ids = spelt("a", "\n", "b", "\n", M.think_end, "c", M.stop)
    assert frames_of(ids, convention) == [("reasoning", "a"), ("reasoning", "\nb"), ("content", "c")]


def test_a_character_comes_with_the_token_that_completes_it() -> None:
    ids = next(ids for ids in map(VOCABULARY.encode, "𓀀𒀀🀀🂡𐎀") if len(ids) > 1)
    assert frames_of([*ids, M.think_end, M.stop]) == [("reasoning", VOCABULARY.decode(ids).decode())]


def test_a_call_is_announced_before_its_arguments() -> None:
    frames = PLAIN.render(ACTION, STREAMED).frames
    announced = [(f.call, f.id, f.name) for f in frames if f.id is not None]
    assert announced == [(0, "functions.f:0", "f"), (1, "functions.g:4", "g")]
    assert "".join(f.text for f in frames if f.call == 0) == ' {"a": 1} '


# ---- what holds of any output


conventions = st.builds(
    Convention,
    name=st.just("any"),
    blanks=st.sets(st.sampled_from(get_args(Edge))).map(frozenset),
    reasoning_strip=st.sampled_from(["none", "left", "right", "both"]),
    content_strip=st.sampled_from(["none", "left", "right", "both"]),
    blank_content_is_null=st.booleans(),
    arguments=st.sampled_from(["kept", "stripped", "compact"]),
    tool_ids=st.sampled_from(["kept", "bare", "renumbered", "opaque"]),
    incomplete=st.sampled_from(["replaced", "dropped"]),
    nfc=st.booleans(),
    think_generated=st.booleans(),
    stop_counted=st.booleans(),
    section_end_counted=st.booleans(),
    reasoning_count=st.sampled_from(["with_end", "without_end", "zero", None]),
) | st.sampled_from([VERBATIM, BLANKS_ROUND_ADDED_TOKENS, BARE_TOOL_IDS, THINK_GENERATED, STOP_NOT_COUNTED])
situations = st.sampled_from([THINKING, INSTANT, NEVER]).flatmap(
    lambda s: st.builds(replace, st.just(s), tools=st.sampled_from([(), TOOLS]), calls_in_history=st.integers(0, 3))
)


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    convention=conventions,
    situation=situations,
    segments=st.sampled_from([canonical, ordinary]),
    steps=st.none() | st.lists(st.integers(1, 4), max_size=12),
)
def test_frames_joined_are_the_message(
    data: st.DataObject,
    convention: Convention,
    situation: Situation,
    segments: st.SearchStrategy[Ids],
    steps: list[int] | None,
) -> None:
    ids = join_output(data.draw(outputs(situation, segments)), MARKERS)
    served = convention.render(ids, replace(situation, streamed=True), steps)
    joined = {name: "".join(f.text for f in served.frames if f.field == name) for name in ("reasoning", "content")}
    assert joined == {"reasoning": served.message.reasoning or "", "content": served.message.content or ""}
    for index, made in enumerate(served.message.tool_calls):
        mine = [frame for frame in served.frames if frame.call == index]
        assert (mine[0].id, mine[0].name) == (made.id, made.name)
        assert "".join(frame.text for frame in mine) == made.arguments
    assert not any(frame.text == "" and frame.id is None for frame in served.frames)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), convention=conventions, situation=situations)
def test_counts_follow_the_rules(data: st.DataObject, convention: Convention, situation: Situation) -> None:
    output = data.draw(outputs(situation, ordinary))
    ids = join_output(output, MARKERS)
    served = convention.render(ids, situation)
    uncounted = int(output.stopped and not convention.stop_counted)
    uncounted += output.section_closed and not convention.section_end_counted
    assert served.completion_tokens == len(ids) - uncounted
    assert len(served.message.tool_calls) == len(output.calls)
    assert (served.finish_reason == "length") == (not output.stopped)
    assert served.frames == ()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), convention=conventions, situation=situations)
def test_texts_render_as_their_ids_do(data: st.DataObject, convention: Convention, situation: Situation) -> None:
    output = data.draw(outputs(situation, canonical))
    texts = output.over(lambda segment: VOCABULARY.decode(segment).decode())
    if not convention.nfc:  # which ids show token by token
        assert (
            convention.message(texts, situation) == convention.render(join_output(output, MARKERS), situation).message
        )


@given(data=st.data())
def test_a_think_marker_that_was_generated_is_not_shown(data: st.DataObject) -> None:
    output = data.draw(outputs(THINKING, canonical))
    ids = join_output(output, MARKERS)
    begun = join_output(replace(output, think_begun=True), MARKERS)
    assert THINK_GENERATED.render(begun, THINKING).message == THINK_GENERATED.render(ids, THINKING).message
