"""A request's prompt as ids: the chat template as PyPI `renderers` writes it, with the target's own vocabulary.

`renderers` joins its scaffold and the caller's texts into strings and leaves it to the tokenizer to find the
markers in them. Here a caller's text never becomes a marker, so the tokenizer that it is given encodes nothing:
it passes texts through, and only `<think>` of the scaffold becomes an id. What lies between two markers is then
encoded as one text, as a server does that renders the template to a string.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache, lru_cache
from importlib import import_module
from itertools import count, groupby
from types import ModuleType
from typing import Any

from eagle_assets.targets.target import Target

ROLES = ("system", "user", "assistant", "tool")

_THINK = re.compile(r"<(/?think)>")
_SCAFFOLD_THINK = re.compile(r"<think>(?:(.*)</think>)?", re.DOTALL)


class PromptError(ValueError):
    """A request whose messages or tools cannot be rendered; one sentence that says which and why."""


def prompt_ids(target: Target, request: dict[str, Any]) -> list[int]:
    """Ids of the prompt that `request` (a chat-completions body) gives the target, up to where it generates.

    Thinking is what `target.thinks(request)` says. Raises PromptError for messages or tools that have no
    rendering: an unknown role, parts that are no text, a text with half a surrogate pair.
    """
    messages, tools = _checked_messages(request.get("messages")), _checked_tools(request.get("tools"))
    thinking = target.thinks(request)
    encode = target.vocabulary.encode
    try:
        if all(message.keys() == _PLAIN and message["role"] in ("system", "user") for message in messages):
            roles = tuple(message["role"] for message in messages)
            template = _template(target, thinking, roles, json.dumps(tools) if tools else "[]")
            texts = [message["content"] for message in messages]
            return [i for run in template for i in (run if isinstance(run, tuple) else encode(_filled(run, texts)))]
        messages, tools, seal = _sealed(messages, tools)
        runs = _rendered(target, thinking, messages, tools)
        return [i for run in runs for i in (run if isinstance(run, tuple) else encode(run.replace(seal, "")))]
    except UnicodeEncodeError:
        raise PromptError("a text of the request has half a surrogate pair, which no tokenizer can encode") from None
    except RecursionError:
        raise PromptError("the messages or tools are nested too deeply") from None


_PLAIN = {"role", "content"}
_SLOT = re.compile("\ue000(\\d+)\ue001")


@lru_cache(maxsize=256)
def _template(target: Target, thinking: bool, roles: tuple[str, ...], tools: str) -> tuple[tuple[int, ...] | str, ...]:
    """The prompt of plain turns with a slot for each text; runs without one are ids already.

    Rendering a conversation takes far longer than encoding it, and of many prompts only the texts differ.
    """
    messages = [{"role": role, "content": f"\ue000{number}\ue001"} for number, role in enumerate(roles)]
    sealed_messages, sealed_tools, seal = _sealed(messages, json.loads(tools))
    runs = _rendered(target, thinking, sealed_messages, sealed_tools)
    plain = (run if isinstance(run, tuple) else run.replace(seal, "") for run in runs)
    return tuple(
        run if isinstance(run, tuple) or _SLOT.search(run) else tuple(target.vocabulary.encode(run)) for run in plain
    )


def _filled(run: str, texts: list[str]) -> str:
    return _SLOT.sub(lambda slot: texts[int(slot[1])], run)


def _rendered(
    target: Target, thinking: bool, messages: list[dict[str, Any]], tools: Any
) -> list[tuple[int, ...] | str]:
    """The rendered prompt as runs of text and runs of marker ids, in turn. Raises PromptError."""
    if tools and target.thinking == "never":
        messages, tools = [_declared_as_json(tools), *messages], None
    try:
        rendered: list[int | str] = _renderer(target, thinking).render_ids(
            messages, tools=tools or None, add_generation_prompt=True
        )
    except Exception as error:  # renderers raises whatever an unusual tool schema leads it to
        raise PromptError(f"the tools or messages cannot be rendered ({type(error).__name__}: {error})") from error
    return [
        "".join(map(str, run)) if is_text else tuple(map(int, run))
        for is_text, run in groupby(rendered, key=lambda piece: isinstance(piece, str))
    ]


class _PassingTokenizer:
    """What `renderers` needs of a tokenizer: marker ids by text, and texts that pass through unencoded."""

    unk_token_id = None
    name_or_path = ""

    def __init__(self, target: Target) -> None:
        self._special = target.vocabulary.special
        self._think_begin = target.markers.think_begin
        self._think_end = target.markers.think_end

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._special.get(token)

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int | str]:
        scaffold = _SCAFFOLD_THINK.fullmatch(text)
        if scaffold is None:
            return [text]
        if scaffold[1] is None:
            return [self._think_begin]
        return [self._think_begin, scaffold[1], self._think_end]


@cache
def _renderer(target: Target, thinking: bool) -> Any:
    renderers, tokenizer = load_renderers(), _PassingTokenizer(target)
    if target.thinking == "never":
        return renderers.KimiK2Renderer(tokenizer)
    return renderers.KimiK25Renderer(tokenizer, renderers.KimiK25RendererConfig(thinking=thinking))


@cache
def load_renderers() -> Any:
    """The package `renderers`, without its client for a server: that imports the whole of `openai`, which takes longer
    than most files of exchanges take to judge."""
    client = ModuleType("renderers.client")
    client.__getattr__ = lambda name: None  # type: ignore[method-assign]
    sys.modules.setdefault(client.__name__, client)
    try:
        return import_module("renderers")
    finally:
        if sys.modules[client.__name__] is client:
            del sys.modules[client.__name__]


def _declared_as_json(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The turn that declares tools to K2. `renderers` writes compact JSON; the prompt counts of the providers that
    render the model's own template (WandB, Fireworks) fit only default spacing, keys sorted."""
    return {"role": "tool_declare", "content": json.dumps(tools, sort_keys=True, ensure_ascii=False)}


def _sealed(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> tuple[Any, Any, str]:
    """Messages and tools in which no text reads `<think>` or `</think>`, and the seal that was put into those that do.

    The seal is plain ASCII that occurs nowhere in them, so that it comes through any JSON escaping unchanged.
    """
    try:
        text = json.dumps([messages, tools], ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptError(f"messages and tools must be JSON ({error})") from None
    seal = next(mark for mark in (f"~{n}~" for n in count()) if mark not in text)
    return *json.loads(_THINK.sub(rf"<\1{seal}>", text)), seal


def _checked_messages(messages: Any) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise PromptError("messages must be a list with at least one message")
    return [_checked_message(number, message) for number, message in enumerate(messages, start=1)]


def _checked_message(number: int, message: Any) -> dict[str, Any]:
    """The keys that templates read, and nothing else."""
    if not isinstance(message, dict):
        raise PromptError(f"message {number} must be an object with role and content")
    role = message.get("role")
    if role not in ROLES:
        raise PromptError(f"message {number} has the role {role!r}; known are {', '.join(ROLES)}")
    where = f"message {number} ({role})"
    checked = {"role": role, "content": _checked_content(where, message.get("content"), may_lack=role == "assistant")}
    for key in ("name", "tool_call_id"):
        if message.get(key) is not None:
            checked[key] = _checked_text(f"{key} of {where}", message[key])
    if role == "assistant":
        reasoning = next((message[k] for k in ("reasoning_content", "reasoning") if message.get(k) is not None), None)
        if reasoning is not None:
            checked["reasoning_content"] = _checked_text(f"reasoning of {where}", reasoning)
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(map(_is_call, calls)):
            raise PromptError(f"tool_calls of {where} must be a list of calls, each with a function that has a name")
        checked["tool_calls"] = calls
    return checked


def _checked_content(where: str, content: Any, may_lack: bool) -> str | None:
    if content is None and may_lack:
        return None
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                kind = part.get("type") if isinstance(part, dict) else type(part).__name__
                raise PromptError(f"{where} has a part of type {kind!r}; only text can be rendered")
        return "".join(part["text"] for part in content)
    return _checked_text(f"content of {where}", content)


def _checked_text(what: str, text: Any) -> str:
    if not isinstance(text, str):
        raise PromptError(f"{what} must be a text, not {type(text).__name__}")
    return text


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments", ""), (str, dict))
        and isinstance(call.get("id") or "", str)
    )


def _checked_tools(tools: Any) -> list[dict[str, Any]]:
    if tools is None:
        return []
    if not isinstance(tools, list) or not all(
        isinstance(tool, dict) and isinstance(tool.get("function"), dict) for tool in tools
    ):
        raise PromptError("tools must be a list of objects, each with a function")
    return tools
