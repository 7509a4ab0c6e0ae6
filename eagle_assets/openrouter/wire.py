"""A response as its raw bytes say it: read tolerantly, with every oddity noted, never through an SDK.

Client SDKs drop `provider`, `native_finish_reason`, `reasoning` and `choices[].error`; a body may be JSON
behind keep-alive blanks or an event stream, whole or cut, with an error anywhere in it (FACTS 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from eagle_assets.openrouter.alike import Alike, alike
from eagle_assets.openrouter.deltas import Deltas
from eagle_assets.openrouter.event_stream import data_of, looks_like_event_stream, parts
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.response import ReceivedCall, Response
from eagle_assets.openrouter.tolerant_json import parse_json
from eagle_assets.openrouter.values import as_count, as_dict, as_ids, as_list, as_name, as_text

_UNREAD = ("refusal", "function_call", "images", "audio")  # of a message, beside what the target model writes
_IDS = ("token_ids", "response_token_ids", "output_ids")  # of a choice: vLLM's name, SGLang's, others'
_EXCERPT = 120  # letters of a body that is none, for a message
_MOST_KNOWN = 4  # kinds of events of a stream that are alike: one for each field, as a rule


def read_response(exchange: Exchange) -> Response:
    """Read the body of an exchange. Never raises: what cannot be read is an `error` with its reason."""
    if exchange.malformed is not None:
        return Response(error=exchange.malformed, notes=("malformed_line",))
    body = exchange.body.removeprefix(b"\xef\xbb\xbf")
    if not body.strip():
        response = Response(error=exchange.transport_error or "empty body", notes=("empty_body",))
    elif looks_like_event_stream(body):
        response = _Stream(body).response()
    else:
        response = _read_json_body(body)
    if exchange.transport_error and response.complete:
        response.notes += ("transport_error",)
    if exchange.status is None:
        response.notes += ("no_http_status",)
        # Whoever recorded a whole answer may not have kept its status.
        if exchange.transport_error or not response.complete:
            response.error = response.error or exchange.transport_error or "no HTTP answer came"
    elif exchange.status >= 400:
        response.notes += (f"http_{exchange.status}",)
        response.error = response.error or f"HTTP status {exchange.status}"
    return response


def _read_json_body(body: bytes) -> Response:
    try:
        document = parse_json(body.strip())
    except ValueError:
        head = body.strip()[:1]
        cut = head == b"{"
        return Response(
            error="the JSON body is cut or damaged" if cut else "the body is not JSON: " + _excerpt(body),
            notes=("truncated_transport" if cut else "not_json",),
        )
    if not isinstance(document, dict):
        return Response(error="the body is JSON, but no object", notes=("not_a_completion",))
    response = Response(complete=True)
    _read_head(response, document)
    _read_error(response, document)
    choices = document.get("choices")
    choice = as_dict(choices[0]) if isinstance(choices, list) and choices else {}
    if not choice:
        response.complete = False
        response.notes += ("choices_null" if choices is None and "choices" in document else "choices_missing",)
        response.error = response.error or "the body holds no choices"
        return response
    if isinstance(choices, list) and len(choices) > 1:
        response.notes += ("several_choices",)
    _read_error(response, choice)
    _read_finish(response, choice)
    message = as_dict(choice.get("message"))
    _read_texts(response, message)
    response.tool_calls = tuple(
        ReceivedCall(as_text(c.get("id")), as_text(f.get("name")), as_text(f.get("arguments")))
        for c in map(as_dict, as_list(message.get("tool_calls")))
        for f in [as_dict(c.get("function"))]
    )
    response.token_ids = next(filter(None, (as_ids(choice.get(name)) for name in _IDS)), None)
    response.prompt_token_ids = as_ids(document.get("prompt_token_ids")) or as_ids(choice.get("prompt_token_ids"))
    entries = as_list(as_dict(choice.get("logprobs")).get("content"))
    response.logprobs = tuple(map(as_dict, entries)) or None
    return response


def _read_head(response: Response, document: Mapping[str, Any]) -> None:
    response.response_id = as_name(document.get("id")) or response.response_id
    response.model = as_name(document.get("model")) or response.model
    response.provider = as_name(document.get("provider")) or response.provider
    if isinstance(document.get("usage"), dict):
        response.usage = document["usage"]


def _read_error(response: Response, holder: Mapping[str, Any]) -> None:
    error = holder.get("error")
    if not error:
        return
    details = as_dict(error)
    code = details.get("code")
    raw = as_name(as_dict(details.get("metadata")).get("raw"))
    message = as_name(details.get("message")) or as_name(error) or "error without a message"
    response.error = f"{message}: {raw}" if raw and raw not in message else message
    response.error_code = code if isinstance(code, int) else as_name(code)
    response.note("error_body")


def _read_finish(response: Response, choice: Mapping[str, Any]) -> None:
    response.finish_reason = as_name(choice.get("finish_reason")) or response.finish_reason
    response.native_finish_reason = as_name(choice.get("native_finish_reason")) or response.native_finish_reason


def _read_texts(response: Response, message: Mapping[str, Any]) -> None:
    reasoning, other = as_text(message.get("reasoning")), as_text(message.get("reasoning_content"))
    details = _text_of_details(message)
    if reasoning and ((other and other != reasoning) or (details and details != reasoning)):
        response.notes += ("reasoning_fields_differ",)
    response.reasoning = reasoning or other or details
    response.content = _text_of_content(message)
    _note_unread(response, message)


def _note_unread(response: Response, message: Mapping[str, Any]) -> None:
    if any(message.get(name) for name in _UNREAD):
        response.note("unread_output")


def _text_of_content(message: Mapping[str, Any]) -> str | None:
    """The content, which may come as a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(as_text(as_dict(part).get("text")) or "" for part in content)
    return as_text(content)


def _text_of_details(message: Mapping[str, Any]) -> str | None:
    texts = [as_text(as_dict(d).get("text")) or "" for d in as_list(message.get("reasoning_details"))]
    return "".join(texts) or None


def _excerpt(body: bytes) -> str:
    text = " ".join(body[: 4 * _EXCERPT].decode("utf-8", "replace").split())
    return text[:_EXCERPT] + ("…" if len(text) > _EXCERPT else "")


class _Stream:
    """Joins the frames of an event stream into one response."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._texts: dict[str, list[str]] = {"reasoning": [], "content": []}
        self._calls: list[dict[str, Any]] = []
        self._call_of_index: dict[int, int] = {}
        self._deltas = Deltas()
        self._token_ids: list[int] = []
        self._logprobs: list[dict[str, Any]] = []
        self._result = Response(streamed=True)
        self._done = False
        self._frame = 0
        self._known: dict[Alike, str] = {}
        self._last: Alike | None = None

    def response(self) -> Response:
        result = self._result
        events = parts(self._body)
        position = 0
        while position < len(events):
            texts = self._read_alike(events, position)
            if not texts:
                self._read_event(events[position])
            position += texts or 1
        result.reasoning = "".join(self._texts["reasoning"]) or None
        result.content = "".join(self._texts["content"]) or None
        result.tool_calls = tuple(
            ReceivedCall(c["id"], c["name"], "".join(c["arguments"]) if c["has_arguments"] else None)
            for c in self._calls
        )
        result.deltas = self._deltas
        result.token_ids = tuple(self._token_ids) or None
        result.logprobs = tuple(self._logprobs) or None
        self._judge_completeness()
        return result

    def _judge_completeness(self) -> None:
        result = self._result
        cut = "bad_last_frame" in result.notes
        result.complete = (
            not cut and result.error is None and (self._done or (bool(result.usage) and bool(result.finish_reason)))
        )
        if not self._frame and result.error is None:
            result.error = "the event stream holds no frame"
            result.notes += ("empty_body",)
        elif not result.complete and result.error is None:
            result.error = "the event stream was cut before its end"
            result.notes += ("truncated_transport",)
        elif result.error is not None and self._deltas:
            result.notes += ("midstream_error",)

    def _read_alike(self, events: Sequence[bytes], position: int) -> int:
        """Read events from a position on as one that was alike was read; gives how many there are."""
        for known, field_name in self._known.items():
            if texts := known.texts_from(events, position):
                self._texts[field_name] += texts
                self._deltas.add(field_name, texts, self._frame + 1)
                self._frame += len(texts)
                return len(texts)
        return 0

    def _read_event(self, event: bytes) -> None:
        before = self._state()
        for data in data_of(event):
            stripped = data.strip()
            if stripped == b"[DONE]":
                self._done = True
            elif stripped:
                self._read_frame(stripped)
        if before != self._state():  # what such an event says may no longer be what the next would say
            self._known.clear()
            return
        pattern = alike(event)
        if pattern is not None and pattern == self._last and (field_name := _field_of_text(pattern)):
            self._known = {pattern: field_name, **dict(islice(self._known.items(), _MOST_KNOWN - 1))}
        self._last = pattern

    def _state(self) -> tuple[object, ...]:
        """All that reading an event depends on or changes, but for the texts."""
        r = self._result
        head = (r.response_id, r.model, r.provider, r.usage, r.error, r.error_code, r.prompt_token_ids, r.notes)
        lengths = (len(self._token_ids), len(self._logprobs), len(self._calls))
        return *head, r.finish_reason, r.native_finish_reason, self._done, *lengths

    def _read_frame(self, data: bytes) -> None:
        result = self._result
        if "bad_last_frame" in result.notes:  # it was not the last after all
            result.notes = tuple(note for note in result.notes if note != "bad_last_frame")
            result.note("bad_frame")
        try:
            document = parse_json(data)
        except ValueError:
            result.note("bad_last_frame")
            return
        if not isinstance(document, dict):
            result.note("bad_frame")
            return
        self._frame += 1
        _read_head(result, document)
        _read_error(result, document)
        result.prompt_token_ids = as_ids(document.get("prompt_token_ids")) or result.prompt_token_ids
        for choice in map(as_dict, as_list(document.get("choices"))):
            if choice.get("index") not in (0, None):
                result.note("several_choices")
                continue
            _read_error(result, choice)
            _read_finish(result, choice)
            result.prompt_token_ids = as_ids(choice.get("prompt_token_ids")) or result.prompt_token_ids
            self._token_ids += as_ids(choice.get("token_ids")) or ()
            self._logprobs += map(as_dict, as_list(as_dict(choice.get("logprobs")).get("content")))
            self._read_delta(as_dict(choice.get("delta")) or as_dict(choice.get("message")))

    def _read_delta(self, delta: Mapping[str, Any]) -> None:
        reasoning = (
            as_text(delta.get("reasoning")) or as_text(delta.get("reasoning_content")) or _text_of_details(delta)
        )
        for field_name, text in (("reasoning", reasoning), ("content", _text_of_content(delta))):
            self._add_text(field_name, text)
        for part in map(as_dict, as_list(delta.get("tool_calls"))):
            self._read_call_part(part)
        _note_unread(self._result, delta)

    def _add_text(self, field_name: str, text: str | None) -> None:
        if text:
            self._texts[field_name].append(text)
            self._deltas.add(field_name, [text], self._frame)

    def _read_call_part(self, part: Mapping[str, Any]) -> None:
        position = self._position_of(part)
        call = self._calls[position]
        function = as_dict(part.get("function"))
        call["id"] = call["id"] or as_text(part.get("id"))
        call["name"] = call["name"] or as_text(function.get("name"))
        arguments = as_text(function.get("arguments"))
        if arguments is not None:
            call["has_arguments"] = True
            call["arguments"].append(arguments)
        self._deltas.add("tool_calls", [arguments or ""], self._frame, position)

    def _position_of(self, part: Mapping[str, Any]) -> int:
        index = as_count(part.get("index"))
        if index is not None and index in self._call_of_index:
            return self._call_of_index[index]
        if index is None:
            self._result.note("tool_index_missing")
            if self._calls and not part.get("id"):
                return len(self._calls) - 1
        self._calls.append({"id": None, "name": None, "arguments": [], "has_arguments": False})
        if index is not None:
            self._call_of_index[index] = len(self._calls) - 1
        return len(self._calls) - 1


def _field_of_text(pattern: Alike) -> str:
    """The field that gets the text of such events; "" where there is more to reading them."""
    reader = _Stream(b"")
    reader._read_event(pattern.with_text(b"text"))
    deltas = [(delta.text, delta.call) for delta in reader._deltas]
    return reader._deltas[0].field if reader._frame == 1 and deltas == [("text", None)] else ""
