"""Whatever the bytes, reading a response never raises, and what it gives has the types that it says."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.response import ReceivedCall, Response
from eagle_assets.openrouter.wire import read_response

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 2}, "cost": 0.25}
CALL = {"index": 0, "id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGE = {"content": "Hello", "reasoning": "Greet.", "reasoning_details": [{"text": "Greet."}], "tool_calls": [CALL]}
CHOICE = {
    "index": 0,
    "finish_reason": "tool_calls",
    "native_finish_reason": "tool_calls",
    "message": MESSAGE,
    "token_ids": [1, 2],
    "logprobs": {"content": [{"token": "a", "bytes": [97]}]},
    "error": None,
}
BODY = {
    "id": "gen-1",
    "model": "m-1",
    "provider": "P",
    "choices": [CHOICE],
    "usage": USAGE,
    "prompt_token_ids": [3],
    "error": {"message": "no", "code": 429, "metadata": {"raw": "busy"}},
}


def received(body: bytes) -> Response:
    return read_response(Exchange("x", "m", None, 200, {}, body))


def check_types(response: Response) -> None:
    texts = (
        response.error,
        response.response_id,
        response.model,
        response.provider,
        response.reasoning,
        response.content,
        response.finish_reason,
        response.native_finish_reason,
    )
    assert all(text is None or type(text) is str for text in texts)
    assert all(type(note) is str for note in response.notes)
    assert type(response.usage) is dict
    assert type(response.complete) is bool
    for count in (response.prompt_tokens, response.completion_tokens, response.reasoning_tokens):
        assert count is None or (type(count) is int and 0 <= count < 2**31)
    assert response.cost_usd is None or (type(response.cost_usd) is float and response.cost_usd >= 0)
    for ids in (response.token_ids, response.prompt_token_ids):
        assert ids is None or (type(ids) is tuple and ids and all(type(i) is int for i in ids))
    assert response.logprobs is None or all(type(entry) is dict for entry in response.logprobs)
    for call in response.tool_calls:
        assert type(call) is ReceivedCall
        assert all(text is None or type(text) is str for text in (call.id, call.name, call.arguments))
    for delta in response.deltas:
        assert delta.field in ("reasoning", "content", "tool_calls")
        assert type(delta.text) is str
        assert (delta.call is not None) == (delta.field == "tool_calls")
        assert delta.call is None or 0 <= delta.call < len(response.tool_calls)
    for field in ("reasoning", "content"):
        if response.streamed:
            assert "".join(d.text for d in response.deltas if d.field == field) == (getattr(response, field) or "")


odd_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**31, 2**63, 2**64, 10**30, -(10**30), 1e308])
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.sampled_from(["²", "\ud800", "data: {}", "[DONE]", "\n\n", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "content", "a"]), inner),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@st.composite
def damaged_bodies(draw: st.DrawFn, streamed: bool) -> bytes:
    """A body, or the frames of a stream, with some values dropped or replaced, and bytes cut off or changed."""
    frames: list[Any] = [json.loads(json.dumps(BODY)) for _ in range(draw(st.integers(1, 3)) if streamed else 1)]
    for frame in frames:
        if not draw(st.booleans()):
            del frame["error"]
        if streamed:
            frame["choices"][0]["delta"] = frame["choices"][0].pop("message")
    for _ in range(draw(st.integers(0, 4))):
        container, key = draw(st.sampled_from(places(frames)))
        if isinstance(container, dict) and draw(st.booleans()):
            del container[key]
        else:
            container[key] = draw(odd_values)
    texts = [json.dumps(frame, ensure_ascii=draw(st.booleans())) for frame in frames]
    body = "".join(f"data: {text}\n\n" for text in texts) + "data: [DONE]\n\n" if streamed else texts[0]
    data = body.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + (b"" if draw(st.booleans()) else data[at + 1 :])
    return data


@given(st.binary() | st.binary().map(lambda data: b"data: " + data) | st.binary().map(lambda data: b'{"a"' + data))
def test_any_bytes_can_be_read(body: bytes) -> None:
    check_types(received(body))


@settings(max_examples=80, deadline=None)
@given(damaged_bodies(streamed=False))
def test_damaged_json_bodies_can_be_read(body: bytes) -> None:
    check_types(received(body))


@settings(max_examples=80, deadline=None)
@given(damaged_bodies(streamed=True))
def test_damaged_streams_can_be_read(body: bytes) -> None:
    check_types(received(body))


texts = st.text(st.characters(codec="utf-8"), max_size=12)


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces, some of them empty."""
    ends = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


@st.composite
def streams(draw: st.DrawFn, reasoning: str, content: str, arguments: str | None) -> bytes:
    """One of the many event streams in which a server may send an answer."""
    deltas: list[dict[str, Any]] = [{"reasoning": piece} for piece in draw(cut(reasoning))]
    deltas += [{"content": piece} for piece in draw(cut(content))]
    if arguments is not None:
        pieces = draw(cut(arguments))
        first = {"index": 0, "id": "functions.f:0", "function": {"name": "f", "arguments": pieces[0]}}
        parts = [first, *({"index": 0, "function": {"arguments": piece}} for piece in pieces[1:])]
        deltas += [{"tool_calls": [part]} for part in parts]
    frames = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if draw(st.booleans()):
        tail: list[Any] = [last, {"choices": [], "usage": USAGE}]
    else:
        tail = [last | {"usage": USAGE}]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    space = draw(st.sampled_from(["", " "]))
    body = draw(st.sampled_from(["", ": OPENROUTER PROCESSING" + end * 2]))
    for frame in [*frames, *tail]:
        # JSON may be spread over several data lines wherever white space is allowed in it.
        lines = json.dumps(frame, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))).split("\n")
        body += draw(st.sampled_from(["", ": comment" + end, "event: message" + end, ": comment" + end * 2]))
        body += "".join(f"data:{space}{line.lstrip()}{end}" for line in lines) + end
    return (body + f"data:{space}[DONE]{end}{end}").encode()


@settings(max_examples=80, deadline=None)
@given(data=st.data(), reasoning=texts, content=texts, arguments=st.none() | texts)
def test_an_answer_is_the_same_however_it_is_cut_and_framed(
    data: st.DataObject, reasoning: str, content: str, arguments: str | None
) -> None:
    response = received(data.draw(streams(reasoning, content, arguments)))
    assert (response.reasoning or "", response.content or "") == (reasoning, content)
    calls = () if arguments is None else (ReceivedCall("functions.f:0", "f", arguments),)
    assert response.tool_calls == calls
    assert (response.complete, response.error, response.finish_reason, response.usage) == (True, None, "stop", USAGE)
    assert response.notes == ()
    check_types(response)
