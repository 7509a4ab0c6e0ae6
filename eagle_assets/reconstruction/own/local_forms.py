"""The forms in which a team's own server gives its ids, each read into the same row.

- A plain row: `{"prompt_id", "prompt_ids", "output_ids", "finish_reason"?, "text"?}`.
- What SGLang's `/generate` returns: `output_ids` with `meta_info`, `text` unless the tokenizer was skipped, and
  `prompt_token_ids` if it was asked with `return_prompt_token_ids`.
- A chat completion that was asked with `return_token_ids`: `prompt_token_ids` and `choices[].token_ids` of vLLM,
  `choices[].prompt_token_ids` and `choices[].response_token_ids` of SGLang (0.5.23; not yet 0.5.12).

The last two may stand alone or under `response`, with the request under `request` and a `prompt_id` beside them.
Nothing is encoded: ids that are not there are missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.wire import read_response

STOP_STRING = "stop_string"  # ended by a text that the request named, not by the model


@dataclass(frozen=True, slots=True)
class LocalResponse:
    """Ids as a server gave them, and what it said of them. None: it did not say.

    `text` is what it showed of the output. `message` is the chat completion that the ids came in, `tools` what its
    request declared.
    """

    prompt_id: str
    prompt_ids: list[int]
    output_ids: list[int]
    finish_reason: str | None = None
    text: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    message: Response | None = None
    tools: tuple[dict[str, Any], ...] = ()


class _Plain(msgspec.Struct):
    prompt_id: str
    prompt_ids: list[int]
    output_ids: list[int]
    finish_reason: str | None = None
    text: str | None = None


class _Finish(msgspec.Struct):
    type: str
    matched: int | str | list[int] | None = None


class _MetaInfo(msgspec.Struct):
    id: str | None = None
    finish_reason: _Finish | str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_token_ids: list[int] | None = None


class _Generated(msgspec.Struct):
    meta_info: _MetaInfo
    output_ids: list[int]
    prompt_token_ids: list[int] | None = None
    text: str | None = None


class _Choice(msgspec.Struct):
    stop_reason: int | str | None = None  # vLLM's name
    matched_stop: int | str | None = None  # SGLang's


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    id: str | None = None


class _Request(msgspec.Struct):
    input_ids: list[int] | None = None
    tools: list[dict[str, Any]] | None = None


class _Around(msgspec.Struct):
    """What may stand round a response, or beside its own keys."""

    prompt_id: str | None = None
    prompt_ids: list[int] | None = None
    input_ids: list[int] | None = None
    request: _Request | None = None
    response: msgspec.Raw = msgspec.Raw()
    meta_info: msgspec.Raw = msgspec.Raw()
    choices: msgspec.Raw = msgspec.Raw()

    @property
    def asked_with(self) -> list[int] | None:
        return self.prompt_ids or self.input_ids or (self.request.input_ids if self.request else None)


_around = msgspec.json.Decoder(_Around)
_plain = msgspec.json.Decoder(_Plain)
_generated = msgspec.json.Decoder(_Generated)
_chat = msgspec.json.Decoder(_Chat)


def local_response(line: bytes) -> LocalResponse:
    """Read a line in whichever form it is. Raises ValueError, with what is missing or wrong."""
    around = _around.decode(line)
    if bytes(around.response):
        inner = _around.decode(around.response)
        body = bytes(around.response)
    else:
        inner, body = around, line
    if bytes(inner.meta_info) and not bytes(inner.choices):
        return _of_generate(body, around, inner)
    if bytes(inner.choices):
        return _of_chat(body, around, inner)
    row = _plain.decode(line)
    return LocalResponse(row.prompt_id, row.prompt_ids, row.output_ids, row.finish_reason, row.text)


def served_response(prompt_id: str, request: bytes, body: bytes) -> LocalResponse:
    """A chat completion that our own client was given for a request. Raises ValueError, as `local_response` does."""
    return _of_chat(body, _Around(prompt_id, request=msgspec.json.decode(request, type=_Request)), _Around())


def _of_generate(body: bytes, around: _Around, inner: _Around) -> LocalResponse:
    answer = _generated.decode(body)
    said = answer.meta_info
    finish = said.finish_reason
    return LocalResponse(
        prompt_id=_named(around.prompt_id or inner.prompt_id or said.id),
        prompt_ids=_asked(around.asked_with or inner.asked_with or answer.prompt_token_ids or said.prompt_token_ids),
        output_ids=answer.output_ids,
        finish_reason=_finish_reason(finish.type, finish.matched) if isinstance(finish, _Finish) else finish,
        text=answer.text,
        prompt_tokens=said.prompt_tokens,
        completion_tokens=said.completion_tokens,
    )


def _of_chat(body: bytes, around: _Around, inner: _Around) -> LocalResponse:
    chat = _chat.decode(body)
    if len(chat.choices) != 1:
        raise ValueError(f"it holds {len(chat.choices)} choices; write each to a line of its own")
    message = read_response(Exchange("", "", None, 200, {}, body))
    if message.token_ids is None:
        raise ValueError("the completion has no ids; ask the server with return_token_ids")
    stopped_by = chat.choices[0].stop_reason, chat.choices[0].matched_stop
    return LocalResponse(
        prompt_id=_named(around.prompt_id or inner.prompt_id or chat.id),
        prompt_ids=_asked(list(message.prompt_token_ids or ()) or around.asked_with or inner.asked_with),
        output_ids=list(message.token_ids),
        finish_reason=_finish_reason(message.finish_reason, next((s for s in stopped_by if isinstance(s, str)), None)),
        prompt_tokens=message.prompt_tokens,
        completion_tokens=message.completion_tokens,
        message=message,
        tools=tuple((around.request.tools if around.request else None) or ()),
    )


def _finish_reason(reason: str | None, matched: object) -> str | None:
    return STOP_STRING if reason == "stop" and isinstance(matched, str) else reason


def _named(prompt_id: str | None) -> str:
    if not prompt_id:
        raise ValueError("it has neither a prompt_id nor an id of its own")
    return prompt_id


def _asked(prompt_ids: list[int] | None) -> list[int]:
    if not prompt_ids:
        raise ValueError(
            "the ids of the prompt are missing; keep what was sent as `input_ids`, or ask the server with "
            "return_token_ids (SGLang's /generate: return_prompt_token_ids)"
        )
    return prompt_ids
