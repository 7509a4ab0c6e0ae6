"""Prompt files, and the requests that are made of their rows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from eagle_assets.configuration import MOST_ANSWER_TOKENS, Configuration, OpenRouterDataset, ServerDataset
from eagle_assets.openrouter.wrong_rows import WrongRows, in_other_form

ROLES = ("system", "developer", "user", "assistant", "tool")
SET_BY_US = ("model", "models", "messages", "tools", "stream", "stream_options", "usage", "provider", "route", "n")
PARAMS = (
    *("max_tokens", "temperature", "top_p", "top_k", "top_a", "min_p", "min_tokens", "seed", "stop", "logit_bias"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "logprobs", "top_logprobs"),
    *("reasoning", "include_reasoning", "reasoning_effort", "verbosity", "tool_choice", "parallel_tool_calls"),
    *("response_format", "structured_outputs", "transforms", "plugins", "chat_template_kwargs", "user"),
)
"""What OpenRouter and servers read. Others are sent as they are, but for what looks like a slip in one of these: no
server says a word of it, and the answers would be bought without."""

# What cannot change the ids: how the answer travels and who may give it.
NOT_IN_KEY = ("stream", "stream_options", "usage", "provider")


_HALF_A_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


class PromptsError(WrongRows):
    """A prompts file cannot be used; the message names the file and the lines, and says what is wrong."""


class _Wrong(Exception):
    """What is wrong with a row, in words that go after its line number."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One row of a prompts file; `line` counts from 1."""

    prompt_id: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    line: int = 0


def read_prompts(path: Path) -> list[Prompt]:
    """Rows of a JSONL file `{"prompt_id", "messages", "tools"?, "params"?}`, in order; blank lines are skipped.

    Raises PromptsError where rows cannot be used.
    """
    prompts: dict[str, Prompt] = {}
    problems = []
    for number, line in prompt_lines(path):
        try:
            prompt = _prompt(line, number)
            if (first := prompts.get(prompt.prompt_id)) is not None:
                raise _Wrong(f"prompt_id {prompt.prompt_id!r} is already on line {first.line}; each must be its own")
        except _Wrong as wrong:
            problems.append(f"line {number}: {wrong}")
            continue
        prompts[prompt.prompt_id] = prompt
    if problems:
        raise PromptsError.of(path, problems)
    if not prompts:
        raise PromptsError(f"prompts file {path} holds no prompt; it needs a JSON object on each line")
    return list(prompts.values())


def prompt_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The rows of a prompts file as they stand there, each with its line, counted from 1. Raises PromptsError where it
    cannot be read."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and (other := in_other_form(line)) is not None:
                    raise PromptsError(f"prompts file {path} cannot be read: {other}")
                row = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).removesuffix(b"\n")
                if row.strip():
                    yield number, row
    except FileNotFoundError:
        raise PromptsError(f"prompts file {path} does not exist; mend `prompts` in the datasets file") from None
    except OSError as error:
        raise PromptsError(f"prompts file {path} cannot be read: {error.strerror}") from None


def prompts_in(path: Path, lines: Iterable[tuple[int, bytes]]) -> list[Prompt]:
    """The prompts of some lines of a file. Raises PromptsError for the first that cannot be used."""
    prompts = []
    for number, line in lines:
        try:
            prompts.append(_prompt(line, number))
        except _Wrong as wrong:
            raise PromptsError.of(path, [f"line {number}: {wrong}"]) from None
    return prompts


def build_request(
    prompt: Prompt, dataset: OpenRouterDataset | ServerDataset, configuration: Configuration
) -> dict[str, Any]:
    """The body of the chat-completions request: messages as given, always with `max_tokens`.

    OpenRouter is asked for a stream, the team's own server for one JSON body with the ids. A prompt's `params` win over
    the dataset. `max_tokens` bounds the cost of the request in flight (FACTS 3).
    """
    params = dict(prompt.params)
    tools: dict[str, Any] = {}
    if prompt.tools:
        tools = {"tools": list(prompt.tools), "tool_choice": params.pop("tool_choice", "auto")}
    asked = {
        "messages": list(prompt.messages),
        **tools,
        "max_tokens": params.pop("max_tokens", dataset.max_tokens),
    }
    if isinstance(dataset, ServerDataset):
        model, extra = dataset.model or configuration.target, dataset.extra_body
        return {"model": model, **asked, **extra, **params, "stream": False, "return_token_ids": True}
    return {
        "model": configuration.target,
        **asked,
        **params,
        "stream": True,
        "stream_options": {"include_usage": True},
        "usage": {"include": True},
        "provider": configuration.routing.as_request(),
    }


def request_key(request: Mapping[str, Any]) -> str:
    """Sha256, in hex, of all that determines the answer: an answer to the same key need not be bought again."""
    determining = {name: value for name, value in request.items() if name not in NOT_IN_KEY}
    canonical = json.dumps(determining, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _prompt(line: bytes, number: int) -> Prompt:
    try:
        row = msgspec.json.decode(line.decode())
    except UnicodeDecodeError as error:
        raise _Wrong(f"it is not UTF-8 at byte {error.start + 1}; save the file as UTF-8") from None
    except (msgspec.DecodeError, RecursionError) as error:
        if half := _HALF_A_CHARACTER.search(line):
            raise _Wrong(f"{half[0].decode()} is half a character; write both halves, or the character") from None
        raise _Wrong(f"it is not JSON ({error})") from None
    if not isinstance(row, dict):
        raise _Wrong("it is no JSON object")
    if unknown := sorted(row.keys() - {"prompt_id", "messages", "tools", "params"}):
        raise _Wrong(f"unknown key {unknown[0]!r}; known are prompt_id, messages, tools, params")
    prompt_id = row.get("prompt_id")
    if not isinstance(prompt_id, str) or not prompt_id:
        raise _Wrong("prompt_id is missing, or is no text")
    return Prompt(
        prompt_id=prompt_id,
        messages=_messages(row.get("messages")),
        tools=_tools(row.get("tools")),
        params=_params(row.get("params"), has_tools=bool(row.get("tools"))),
        line=number,
    )


def _messages(value: object) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not value:
        raise _Wrong("messages is missing, empty, or no list")
    for position, message in enumerate(value, start=1):
        if not isinstance(message, dict):
            raise _Wrong(f"message {position} is no object")
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise _Wrong(f"message {position} has role {role!r}; it must be one of {', '.join(ROLES)}")
        if content is None and not (role == "assistant" and message.get("tool_calls")):
            raise _Wrong(f"message {position} ({role}) has no content")
        if content is not None and not isinstance(content, str | list):
            raise _Wrong(f"message {position} ({role}): content is neither text nor a list of parts")
        if role == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise _Wrong(f"message {position} (tool) has no tool_call_id")
    return tuple(value)


def _tools(value: object) -> tuple[dict[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _Wrong("tools is no list")
    for position, tool in enumerate(value, start=1):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _Wrong(f'tool {position} is not of the form {{"type": "function", "function": {{"name": …}}}}')
    return tuple(value)


def _params(value: object, *, has_tools: bool) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Wrong("params is no object")
    if taken := [name for name in SET_BY_US if name in value]:
        raise _Wrong(f"params may not set {taken[0]!r}; it is the row's or the datasets file's")
    for name in value:
        if name not in PARAMS and (meant := get_close_matches(name, PARAMS, 1, 0.8)):
            raise _Wrong(f"params: {name!r} is no parameter of any server; is {meant[0]!r} meant?")
    for name in ("plugins", "transforms"):
        if name in value:
            raise _Wrong(f"params: {name} makes the router change or bill what nobody here can know; leave it out")
    reasoning = value.get("reasoning")
    if (isinstance(reasoning, dict) and reasoning.get("exclude")) or value.get("include_reasoning") is False:
        raise _Wrong("params: reasoning that is generated and not shown cannot be turned back into ids; ask for it")
    if "max_completion_tokens" in value:
        raise _Wrong("params: use max_tokens instead of max_completion_tokens")
    max_tokens = value.get("max_tokens", 1)
    if type(max_tokens) is not int or not 1 <= max_tokens <= MOST_ANSWER_TOKENS:
        raise _Wrong(
            f"params: max_tokens is {max_tokens!r}; it must be a whole number from 1 to {MOST_ANSWER_TOKENS:,}"
        )
    if "tool_choice" in value and not has_tools:
        raise _Wrong("params: tool_choice without tools")
    return value
