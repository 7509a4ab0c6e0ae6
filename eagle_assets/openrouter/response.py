"""What a response says, however it came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eagle_assets.openrouter.deltas import Deltas
from eagle_assets.openrouter.values import as_amount, as_count, as_dict


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A tool call as received. `arguments` is None where the server sent null or nothing."""

    id: str | None
    name: str | None
    arguments: str | None


@dataclass(slots=True)
class Response:
    """What an exchange's body holds. Texts are None where the server sent null or nothing.

    `error` is the provider's own message; `complete` says whether the transport brought the whole of the answer;
    `notes` are the oddities met while reading, as short codes.
    """

    streamed: bool = False
    complete: bool = False
    error: str | None = None
    error_code: int | str | None = None
    response_id: str | None = None
    model: str | None = None
    provider: str | None = None
    reasoning: str | None = None
    content: str | None = None
    tool_calls: tuple[ReceivedCall, ...] = ()
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    deltas: Deltas = field(default_factory=Deltas)
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[dict[str, Any], ...] | None = None
    notes: tuple[str, ...] = ()

    def note(self, code: str) -> None:
        """Add a code to the notes, once."""
        if code not in self.notes:
            self.notes += (code,)

    @property
    def prompt_tokens(self) -> int | None:
        return as_count(self.usage.get("prompt_tokens"))

    @property
    def completion_tokens(self) -> int | None:
        return as_count(self.usage.get("completion_tokens"))

    @property
    def reasoning_tokens(self) -> int | None:
        return as_count(as_dict(self.usage.get("completion_tokens_details")).get("reasoning_tokens"))

    @property
    def cost_usd(self) -> float | None:
        """What the exchange cost; None means unknown, which is not zero."""
        return as_amount(self.usage.get("cost"))
