"""Bodies as servers send them, whole and damaged: what is read of them, and what is noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of, read_exchange_line
from eagle_assets.openrouter.response import ReceivedCall, Response
from eagle_assets.openrouter.values import as_count, as_ids
from eagle_assets.openrouter.wire import read_response

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 2}, "cost": 0.25}


def received(body: bytes | str, status: int | None = 200, transport_error: str | None = None) -> Response:
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    return read_response(Exchange("x", "m", None, status, {}, data, transport_error))


def json_body(**changes: Any) -> str:
    message = {"role": "assistant", "content": "Hello", "reasoning": "Greet."}
    choice = {"index": 0, "finish_reason": "stop", "native_finish_reason": "end", "message": message}
    body = {"id": "gen-1", "model": "m-1", "provider": "P", "choices": [choice], "usage": USAGE}
    message |= changes.pop("message", {})
    choice |= changes.pop("choice", {})
    return json.dumps(body | changes)


def stream(*frames: Any, done: bool = True, between: str = "\n\n") -> str:
    texts = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames] + ["[DONE]"] * done
    return "".join(f"data: {text}{between}" for text in texts)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": "gen-1",
        "model": "m-1",
        "provider": "P",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish}],
    }


LAST = delta("stop", content="") | {"usage": USAGE}
GREETING = (delta(reasoning="Gre"), delta(reasoning="et."), delta(content="Hel"), delta(content="lo"), LAST)


def is_the_greeting(response: Response) -> bool:
    shown = (response.reasoning, response.content, response.finish_reason, response.completion_tokens, response.error)
    return shown == ("Greet.", "Hello", "stop", 4, None) and response.complete


# ---- whole answers


def test_a_json_body_is_read_whole() -> None:
    response = received(json_body())
    assert is_the_greeting(response)
    assert not response.streamed
    assert (response.response_id, response.model, response.provider) == ("gen-1", "m-1", "P")
    assert (response.native_finish_reason, response.prompt_tokens, response.reasoning_tokens) == ("end", 9, 2)
    assert (response.cost_usd, response.notes) == (0.25, ())


def test_a_stream_is_joined_and_keeps_its_deltas() -> None:
    response = received(stream(*GREETING))
    assert is_the_greeting(response)
    assert response.streamed
    assert [(d.field, d.text) for d in response.deltas] == [
        ("reasoning", "Gre"),
        ("reasoning", "et."),
        ("content", "Hel"),
        ("content", "lo"),
    ]
    assert (response.response_id, response.model, response.provider, response.cost_usd) == ("gen-1", "m-1", "P", 0.25)


@pytest.mark.parametrize(
    "body",
    [
        "\n         \n" * 5 + json_body(),
        json_body() + "\n\n",
        json_body(message={"reasoning": None, "reasoning_content": "Greet."}),
        json_body(message={"reasoning": None, "reasoning_details": [{"text": "Gre"}, {"text": "et."}]}),
        json_body(message={"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}),
        json_body(unknown={"a": [1, {"b": None}]}),
        ": OPENROUTER PROCESSING\n\n" * 5 + stream(*GREETING),
        "\n         \n" + stream(*GREETING),
        ': data: {"choices": [{"delta": {"content": "no"}}]}\n\n' + stream(*GREETING),
        stream(*GREETING, between="\r\n\r\n"),
        stream(*GREETING, between="\r\r"),
        stream(*GREETING).replace("data: ", "data:"),
        stream(*GREETING).replace("data: ", "event: message\nid: 1\ndata: "),
        stream(*GREETING, done=False),
        stream(*GREETING).rstrip("\n"),
        stream(*GREETING[:-1], delta("stop"), {"choices": [], "usage": USAGE}),
        stream(*GREETING[:-1], delta("stop"), {"usage": USAGE}),
        stream(*GREETING[:-1], delta("stop"), LAST),
        stream(*GREETING[:-1], delta(None, content=None, reasoning=None, tool_calls=None), LAST),
        stream(delta(role="assistant", content=""), *GREETING),
        stream(delta(content="", reasoning=""), *GREETING),
        stream(*GREETING).replace('"reasoning": "', '"reasoning_content": "'),
        stream(delta(reasoning="Gre", reasoning_content="Gre"), *GREETING[1:]),
        stream(delta(reasoning="Gre", reasoning_details=[{"text": "Gre"}]), *GREETING[1:]),
        stream(delta(reasoning_details=[{"text": "Greet."}]), *GREETING[2:]),
        stream({"choices": [{"message": {"reasoning": "Greet.", "content": "Hello"}}]}, LAST),
        stream(*GREETING[:-1], "", LAST),
    ],
)
def test_the_same_answer_in_other_clothes(body: str) -> None:
    assert is_the_greeting(received(body))


def test_a_stream_may_send_its_content_as_lists_of_parts() -> None:
    texts = [str(number) for number in range(40)]
    frames = [delta(content=[{"type": "text", "text": text}]) for text in texts]
    response = received(stream(*frames, delta("stop")))
    assert response.content == "".join(texts)
    assert [each.text for each in response.deltas] == texts


def test_blanks_and_unusual_characters_of_a_text_are_kept() -> None:
    text = " \n\u00a0a\u2028b\x85c\r\nd\u0301\ufeff <|im_end|>\n\n"
    assert received(json_body(message={"content": text})).content == text
    assert received(stream(*(delta(content=character) for character in text), LAST)).content == text


def test_control_characters_and_half_surrogates_are_let_through() -> None:
    raw = json_body(message={"content": "HERE"})
    assert received(raw.replace("HERE", "a\nb\tc\x01")).content == "a\nb\tc\x01"
    assert received(raw.replace("HERE", "\\ud83d")).content == "\ud83d"
    assert received(raw.replace("HERE", "\\ud83d\\ude00")).content == "😀"
    assert received(stream(delta(content="HERE"), LAST).replace("HERE", "\\ud83d")).content == "\ud83d"
    assert received(raw.encode().replace(b"HERE", b"a\xff")).content == "a\udcff"


def test_reasoning_that_differs_between_two_fields_is_noted() -> None:
    response = received(json_body(message={"reasoning_content": "Other."}))
    assert response.reasoning == "Greet."
    assert "reasoning_fields_differ" in response.notes
    assert "reasoning_fields_differ" not in received(json_body(message={"reasoning_content": "Greet."})).notes


# ---- tool calls


def test_calls_of_a_json_body() -> None:
    calls = [
        {"id": "functions.f:0", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": None, "function": {"name": "g", "arguments": None}},
        {"function": None},
        7,
    ]
    assert received(json_body(message={"tool_calls": calls})).tool_calls == (
        ReceivedCall("functions.f:0", "f", '{"a": 1}'),
        ReceivedCall(None, "g", None),
        ReceivedCall(None, None, None),
        ReceivedCall(None, None, None),
    )


def part(arguments: str | None, index: int | None, call_id: str | None = None, name: str | None = None) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"id": call_id, "function": function} | ({} if index is None else {"index": index})


@pytest.mark.parametrize("indices", [(0, 1), (None, None), (5, 2)])
def test_call_parts_are_joined_with_and_without_their_index(indices: tuple[int | None, int | None]) -> None:
    first, second = indices
    frames = (
        delta(tool_calls=[part("", first, "functions.f:0", "f")]),
        delta(tool_calls=[part('{"a"', first)]),
        delta(tool_calls=[part(": 1}", first)]),
        delta(tool_calls=[part("{", second, "functions.g:1", "g")]),
        delta(tool_calls=[part("}", second)]),
        LAST,
    )
    response = received(stream(*frames))
    assert response.tool_calls == (
        ReceivedCall("functions.f:0", "f", '{"a": 1}'),
        ReceivedCall("functions.g:1", "g", "{}"),
    )
    assert ("tool_index_missing" in response.notes) == (first is None)


def test_parts_of_several_calls_may_be_interleaved_or_share_a_frame() -> None:
    frames = (
        delta(tool_calls=[part("{", 0, "a:0", "a"), part("[", 1, "b:1", "b")]),
        delta(tool_calls=[part("]", 1), part("}", 0)]),
        LAST,
    )
    calls = received(stream(*frames)).tool_calls
    assert calls == (ReceivedCall("a:0", "a", "{}"), ReceivedCall("b:1", "b", "[]"))


def test_a_streamed_call_without_arguments_has_none() -> None:
    response = received(stream(delta(tool_calls=[part(None, 0, "a:0", "a")]), LAST))
    assert response.tool_calls == (ReceivedCall("a:0", "a", None),)


# ---- ids that the server gives


def test_given_ids_of_both_kinds() -> None:
    whole = received(json_body(choice={"token_ids": [1, 2]}, prompt_token_ids=[3]))
    assert (whole.token_ids, whole.prompt_token_ids) == ((1, 2), (3,))
    of_sglang = received(json_body(choice={"response_token_ids": [1, 2], "prompt_token_ids": [3]}))
    assert (of_sglang.token_ids, of_sglang.prompt_token_ids) == ((1, 2), (3,))
    frame = delta(content="a")
    frame["choices"][0]["token_ids"] = [1]
    streamed = received(stream(frame | {"prompt_token_ids": [3]}, frame, LAST))
    assert (streamed.token_ids, streamed.prompt_token_ids) == ((1, 1), (3,))


@pytest.mark.parametrize("value", [None, [], "12", [1, "2"], [1.5], [True], {"0": 1}, [[1]], [None]])
def test_what_is_no_list_of_ids_is_none(value: object) -> None:
    assert as_ids(value) is None
    assert received(json_body(choice={"token_ids": value})).token_ids is None


def test_logprobs_are_kept_as_they_are() -> None:
    entries = [{"token": "a", "bytes": [97], "logprob": -0.1}]
    assert received(json_body(choice={"logprobs": {"content": entries}})).logprobs == tuple(entries)
    assert received(json_body(choice={"logprobs": {"content": None}})).logprobs is None
    frame = delta(content="a")
    frame["choices"][0]["logprobs"] = {"content": entries}
    assert received(stream(frame, frame, LAST)).logprobs == (*entries, *entries)


# ---- errors and damage


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        ({"message": "Rate limited", "code": 429}, "Rate limited", 429),
        (
            {"message": "Provider error", "code": 502, "metadata": {"raw": "overloaded"}},
            "Provider error: overloaded",
            502,
        ),
        ({"message": "overloaded", "metadata": {"raw": "overloaded"}}, "overloaded", None),
        ("just words", "just words", None),
        ({"code": "no_words"}, "error without a message", "no_words"),
        ([1], "error without a message", None),
    ],
)
def test_an_error_inside_200_is_read_wherever_it_stands(error: Any, message: str, code: Any) -> None:
    bodies = (
        json.dumps({"error": error}),
        "\n     \n" + json.dumps({"error": error, "id": "gen-1"}),
        json_body(choice={"error": error}),
        stream({"error": error, "choices": []}),
        stream(*GREETING[:3], {"error": error, "choices": [{"delta": {}, "finish_reason": "error"}]}),
        stream(*GREETING[:3], {"choices": [{"delta": {}, "error": error}]}),
    )
    for body in bodies:
        response = received(body)
        assert (response.error, response.error_code) == (message, code)
        assert "error_body" in response.notes


def test_an_error_in_the_middle_of_a_stream_keeps_what_came() -> None:
    response = received(stream(*GREETING[:3], {"error": {"message": "gone"}}, done=False))
    assert (response.error, response.reasoning, response.content) == ("gone", "Greet.", "Hel")
    assert "midstream_error" in response.notes
    assert not response.complete


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (b"", "empty_body"),
        (b"\n         \n" * 9, "empty_body"),
        (b": OPENROUTER PROCESSING\n\n" * 9, "empty_body"),
        (b"<html>502</html>", "not_json"),
        (b'"a text"', "not_a_completion"),
        (b"[]", "not_a_completion"),
        (b"null", "not_a_completion"),
        (json_body().encode()[:-9], "truncated_transport"),
        (b"{" + b'"a":[' * 5000, "truncated_transport"),
        (b'{"choices": null}', "choices_null"),
        (b'{"choices": []}', "choices_missing"),
        (b'{"choices": {}}', "choices_missing"),
        (b'{"choices": [null]}', "choices_missing"),
        (b"{}", "choices_missing"),
        (stream(*GREETING[:3], done=False).encode(), "truncated_transport"),
        (stream(*GREETING[:4], done=False).encode()[:-9], "bad_last_frame"),
    ],
)
def test_what_is_no_whole_answer_says_so(body: bytes, note: str) -> None:
    response = received(body)
    assert response.error
    assert not response.complete
    assert note in response.notes


def test_an_end_without_an_answer_is_an_error() -> None:
    response = received(b"data: [DONE]\n\n")
    assert response.error
    assert "empty_body" in response.notes


def test_a_page_that_is_no_json_is_quoted_in_short() -> None:
    response = received(b"<html>\n<h1>502   Bad gateway</h1>" + b"x" * 10_000, status=502)
    assert response.error is not None
    assert "<html> <h1>502 Bad gateway</h1>" in response.error
    assert len(response.error) < 200
    assert "http_502" in response.notes


def test_fused_and_foreign_frames_are_noted_and_the_rest_is_read() -> None:
    fused = json.dumps(GREETING[2]) + "data: " + json.dumps(GREETING[3])
    response = received(stream(GREETING[0], GREETING[1], fused, LAST))
    assert "bad_frame" in response.notes
    assert (response.reasoning, response.finish_reason) == ("Greet.", "stop")
    assert "bad_frame" in received(stream("[1]", *GREETING)).notes
    assert "bad_frame" in received(stream(*GREETING[:2], "{" + '"a":[' * 5000, *GREETING[2:])).notes


def test_a_frame_that_is_cut_at_the_end_makes_the_stream_incomplete() -> None:
    whole = stream(*GREETING, done=False).encode()
    assert all(not received(whole[:end]).complete for end in range(1, len(whole) - 2))


def test_several_choices_are_noted_and_the_first_is_read() -> None:
    other = {"index": 1, "delta": {"content": "Bye"}, "finish_reason": None}
    frames = [frame | {"choices": [*frame["choices"], other]} for frame in GREETING]
    response = received(stream(*frames))
    assert is_the_greeting(response)
    assert response.notes.count("several_choices") == 1
    two = json.loads(json_body())
    two["choices"].append({"index": 1, "message": {"content": "Bye"}})
    assert "several_choices" in received(json.dumps(two)).notes


@pytest.mark.parametrize("field", ["refusal", "function_call", "images", "audio"])
def test_output_that_is_not_read_is_noted(field: str) -> None:
    frames = [*GREETING[:2], {"choices": [{"index": 0, "delta": {field: "x"}}]}, *GREETING[2:]]
    assert "unread_output" in received(stream(*frames)).notes
    for said in (None, "", [], {}, "x"):
        body = json.loads(json_body())
        body["choices"][0]["message"][field] = said
        assert ("unread_output" in received(json.dumps(body)).notes) == (said == "x")


def test_status_and_transport_speak_too() -> None:
    assert received(b"", None, "connection refused").error == "connection refused"
    assert received(b"", None).error
    assert received(json_body()[:-9], None).error == "the JSON body is cut or damaged"
    assert received(json_body(), None, "reset by peer").error == "reset by peer"
    unknown = received(json_body(), None)
    assert (unknown.error, unknown.notes) == (None, ("no_http_status",))
    assert received(json_body(), 500).error == "HTTP status 500"
    assert received(json.dumps({"error": {"message": "no"}}), 500).error == "no"
    assert "transport_error" in received(json_body(), 200, "reset by peer").notes
    assert received(stream(*GREETING[:2], done=False), 200, "reset by peer").error


# ---- counts and costs


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (7.0, 7), (2**31 - 1, 2**31 - 1)]
    + [(v, None) for v in (None, -1, 1.5, True, "7", [7], 2**31, 10**30, float("inf"), float("nan"))],
)
def test_counts(value: object, count: int | None) -> None:
    assert as_count(value) == count
    assert received(json_body(usage={"completion_tokens": value})).completion_tokens == count


@pytest.mark.parametrize(
    ("value", "cost"), [(0, 0.0), (0.5, 0.5), (3, 3.0)] + [(v, None) for v in (None, -1, "0", True)]
)
def test_an_unknown_cost_is_not_zero(value: object, cost: float | None) -> None:
    assert received(json_body(usage={"cost": value})).cost_usd == cost
    assert received(json_body(usage=None)).cost_usd is None


# ---- lines of a file


def test_a_line_of_a_file() -> None:
    line = {
        "exchange_id": "x",
        "model": "m",
        "provider": "P",
        "status": 200,
        "request": {"a": 1},
        "body": "é",
        "more": 1,
    }
    exchange = read_exchange_line(json.dumps(line).encode())
    assert exchange == Exchange("x", "m", "P", 200, {"a": 1}, "é".encode(), other={"more": 1})


def test_a_body_may_be_bytes_text_an_object_or_missing() -> None:
    assert exchange_of({"exchange_id": "x", "body_base64": "/wA="}).body == b"\xff\x00"
    assert json.loads(exchange_of({"exchange_id": "x", "body": {"a": "é"}}).body) == {"a": "é"}
    assert exchange_of({"exchange_id": "x"}).body == b""


def test_a_request_may_be_an_object_its_text_or_missing() -> None:
    for request in ({"model": "m"}, '{"model": "m"}'):
        exchange = exchange_of({"exchange_id": "x", "request": request})
        assert (exchange.request, exchange.model) == ({"model": "m"}, "m")
    assert exchange_of({"exchange_id": "x"}).request == {}


def test_an_exchange_without_a_name_is_called_after_its_place() -> None:
    for unnamed in ({}, {"exchange_id": None}, {"exchange_id": ""}):
        assert exchange_of({**unnamed, "body": "{}"}, place="monday.jsonl:3").exchange_id == "monday.jsonl:3"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"{}",
        b'{"exchange_id": 5.5}',
        b'{"exchange_id": "x", "body": 5}',
        b'{"exchange_id": "x", "request": [1]}',
        b'{"exchange_id": "x", "request": "{"}',
        b'{"exchange_id": "x", "request": "[]"}',
        b'{"exchange_id": "x", "body_base64": "!"}',
        b'{"a":' * 5000,
    ],
)
def test_a_line_that_is_no_exchange_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_exchange_line(line)
