"""OpenRouter's wire format round what a provider served: a JSON body or an event stream, byte for byte as recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eagle_assets.sandbox.providers import Provider
from eagle_assets.serving.served import Frame, Served, ToolCall
from eagle_assets.targets.target import Target

KEEP_ALIVE = b"\n         \n"
COMMENT = b": OPENROUTER PROCESSING\n\n"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Answer:
    """One answered request: `prompt_ids` and `output_ids` are the true ones, as this provider generated them."""

    generation_id: str
    created: int
    model: str
    target: Target
    provider: Provider
    served: Served
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt_ids)

    @property
    def cost_usd(self) -> float:
        return float(sum(self.provider.cost(self.prompt_tokens, self.served.completion_tokens)))

    def usage(self) -> dict[str, Any]:
        prompt_cost, completion_cost = self.provider.cost(self.prompt_tokens, self.served.completion_tokens)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.served.completion_tokens,
            "total_tokens": self.prompt_tokens + self.served.completion_tokens,
            "cost": self.cost_usd,
            "is_byok": False,
            "prompt_tokens_details": {
                "cached_tokens": 0,
                "cache_write_tokens": 0,
                "audio_tokens": 0,
                "video_tokens": 0,
            },
            "cost_details": {
                "upstream_inference_cost": self.cost_usd,
                "upstream_inference_prompt_cost": float(prompt_cost),
                "upstream_inference_completions_cost": float(completion_cost),
            },
            "completion_tokens_details": {
                "reasoning_tokens": self.served.reasoning_tokens or 0,
                "image_tokens": 0,
                "audio_tokens": 0,
            },
        }


def json_body(answer: Answer) -> bytes:
    """The body of an answer that is not streamed, without the keep-alive blanks ahead of it."""
    message = answer.served.message
    shown: dict[str, Any] = {
        "role": "assistant",
        "content": message.content,
        "refusal": None,
        "reasoning": message.reasoning,
    }
    if message.tool_calls:
        shown["tool_calls"] = [_whole_call(i, call) for i, call in enumerate(message.tool_calls)]
    if message.reasoning:
        shown["reasoning_details"] = _details(message.reasoning)
    choice: dict[str, Any] = {
        "index": 0,
        "logprobs": None,
        "finish_reason": answer.served.finish_reason,
        "native_finish_reason": answer.served.finish_reason,
        "message": shown,
    }
    body = _head(answer, "chat.completion") | {"choices": [choice], "usage": answer.usage()}
    if answer.provider.gives_token_ids:
        choice["token_ids"] = answer.output_ids
        body["prompt_token_ids"] = answer.prompt_ids
    return _json(body)


def event_stream(answer: Answer) -> Iterator[bytes]:
    """The events of a streamed answer up to `[DONE]`, without the comments ahead of them."""
    head = _head(answer, "chat.completion.chunk")
    finish = answer.served.finish_reason
    ids_of_events: Iterator[list[int]] = iter(())
    if answer.provider.gives_token_ids:
        ids_of_events = ids_of_frames(answer.target, answer.output_ids, answer.served.frames)

    def event(delta: dict[str, Any], finish_reason: str | None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "native_finish_reason": finish_reason}
        ids = next(ids_of_events, None)
        if ids is not None:
            choice["token_ids"] = ids
        return b"data: " + _json(head | {"choices": [choice]} | more) + b"\n\n"

    first = {"prompt_token_ids": answer.prompt_ids} if answer.provider.gives_token_ids else {}
    for frame in answer.served.frames:
        yield event(_delta(frame), None, **first)
        first = {}
    yield event({"content": "", "role": "assistant", "reasoning": None}, finish, **first)
    if answer.provider.usage_frame_has_choice:
        yield event({"content": "", "role": "assistant"}, finish, usage=answer.usage())
    else:
        yield b"data: " + _json(head | {"choices": [], "usage": answer.usage()}) + b"\n\n"
    yield DONE


def ids_of_frames(target: Target, output_ids: Sequence[int], frames: Sequence[Frame]) -> Iterator[list[int]]:
    """For each frame of a server that shows texts as they are, the ids it was made of; last, those left for the
    frame that finishes. A frame takes ids until their bytes cover its text; markers go with what follows them."""
    vocabulary, markers = target.vocabulary, target.markers
    position = 0
    surplus = 0  # bytes already taken that belong to frames to come
    for frame in frames:
        start, missing = position, len(frame.text.encode()) - surplus
        if frame.id is not None:
            while position < len(output_ids) and output_ids[position] != markers.argument_begin:
                position += 1
            position += 1
        while missing > 0 and position < len(output_ids):
            if output_ids[position] not in vocabulary.special_text:
                missing -= len(vocabulary.bytes_of(output_ids[position]))
            position += 1
        surplus = -missing
        yield list(output_ids[start:position])
    yield list(output_ids[position:])


def error_body(message: str, code: int, metadata: dict[str, Any] | None = None) -> bytes:
    """An error as OpenRouter words it; `metadata` names the provider where one is to blame."""
    error = {"message": message, "code": code} | ({"metadata": metadata} if metadata else {})
    return _json({"error": error, "user_id": "user_sandbox"})


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": answer.generation_id,
        "object": kind,
        "created": answer.created,
        "model": answer.model,
        "provider": answer.provider.name,
        "system_fingerprint": None,
    }


def _delta(frame: Frame) -> dict[str, Any]:
    if frame.field == "content":
        return {"content": frame.text, "role": "assistant"}
    if frame.field == "reasoning":
        details = _details(frame.text)
        return {"content": "", "role": "assistant", "reasoning": frame.text, "reasoning_details": details}
    call: dict[str, Any] = {"index": frame.call}
    function = {"arguments": frame.text}
    if frame.id is not None:
        call |= {"id": frame.id, "type": "function"}
        function = {"name": frame.name or "", "arguments": frame.text}
    return {"content": None, "role": "assistant", "tool_calls": [call | {"function": function}]}


def _whole_call(index: int, call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"type": "function", "index": index, "id": call.id, "function": function}


def _details(text: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
