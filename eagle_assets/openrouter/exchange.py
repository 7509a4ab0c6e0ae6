"""One exchange with a chat-completions server, as recorded: the request, and the response byte for byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Exchange:
    """`body` is what came over the wire; `status` is None where no HTTP answer came at all, or where
    it was not recorded.

    `arrivals` are pairs (byte offset, seconds since the request left) where they were recorded;
    `order` is the exchange's place among others, in time or in a file: a provider may change in between;
    `generation` is the `data` object of `/generation`, where it was asked; `stray` is why the answer is
    not from whom it was asked, where that was looked at; `malformed` is what is wrong with a line that should have held
    an exchange; `other` keeps every further key.
    """

    exchange_id: str
    model: str
    provider: str | None
    status: int | None
    request: dict[str, Any]
    body: bytes
    transport_error: str | None = None
    generation: dict[str, Any] | None = None
    arrivals: tuple[tuple[int, float], ...] = ()
    order: float = 0.0
    stray: str | None = None
    malformed: str | None = None
    other: dict[str, Any] = field(default_factory=dict)
