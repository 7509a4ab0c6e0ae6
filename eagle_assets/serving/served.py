"""What a server shows of a sequence of ids: a message, frames, counts. No envelope, no wire format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from eagle_assets.targets.target import Target

Field = Literal["reasoning", "content", "tool_calls"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the server reports it; `arguments` is text, JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """Texts are None where the server sends null or leaves the field out."""

    reasoning: str | None
    content: str | None
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One delta of a stream. For `tool_calls`, `call` is the index of the call; `id` and `name` come with its first."""

    field: Field
    text: str
    call: int | None = None
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What a server knows besides the ids: the target model, and what of the request matters to parsing."""

    target: Target
    thinking: bool
    tools: tuple[dict[str, Any], ...] = ()
    calls_in_history: int = 0
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """A rendered output. `frames` is empty unless the situation is streamed.

    `completion_tokens` is what usage reports; `reasoning_tokens` is None where a server's figure follows no
    rule; `prompt_offset` is what it adds to the true number of prompt tokens.
    """

    message: Message
    frames: tuple[Frame, ...]
    finish_reason: str
    completion_tokens: int
    reasoning_tokens: int | None
    prompt_offset: int
