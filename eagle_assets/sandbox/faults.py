"""What the sandbox does wrong when it is asked to: what a client must live through, served over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from starlette.responses import Response

from eagle_assets.openrouter.event_stream import looks_like_event_stream
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import read_exchange_line
from eagle_assets.sandbox.routing import digest_of

ANOTHER_MODEL = "openai/gpt-5.4-mini"
HUGE_FRAME_BYTES = 50 << 20


@dataclass(frozen=True)
class Faults:
    """Each number is n where each n-th streamed answer goes wrong so; 0 for never.

    `excluded`: from a provider that routing excludes. `foreign`: from another model. `stall`: nothing more comes after
    the first half. `huge`: a frame of 50 MB. `endless`: frames without an end. `same_ids` is 1 where the same request
    gets the same generation id each time, so that two runs can be held against each other.
    """

    excluded: int = 0
    foreign: int = 0
    stall: int = 0
    huge: int = 0
    endless: int = 0
    same_ids: int = 0

    @classmethod
    def parse(cls, words: Iterable[str]) -> Faults:
        """Faults from words such as `excluded=8`. Raises ValueError with a sentence."""
        known = [f.name for f in fields(cls)]
        found = {}
        for word in words:
            name, _, number = word.partition("=")
            if name not in known or not (number.isascii() and number.isdigit() and int(number)):
                raise ValueError(
                    f"{word!r} is no fault; write NAME=N, where NAME is one of {', '.join(known)} and N is above 0"
                )
            found[name] = int(number)
        return cls(**found)

    def words(self) -> list[str]:
        """What `parse` makes these faults of."""
        return [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name)]

    async def spoilt(self, events: Sequence[bytes], number: int) -> AsyncIterator[bytes]:
        """The events of the n-th streamed answer, spoilt where that is due."""
        half = len(events) // 2
        for place, event in enumerate(events):
            if place == half and _is_due(self.stall, number):
                await asyncio.sleep(3_600)
            if place == half and _is_due(self.huge, number):
                yield _frame_with("!" * HUGE_FRAME_BYTES)
            while place == half and _is_due(self.endless, number):
                yield _frame_with("!" * 65_536)
                await asyncio.sleep(0)
            yield event

    def is_excluded(self, number: int) -> bool:
        return _is_due(self.excluded, number)

    def is_foreign(self, number: int) -> bool:
        return _is_due(self.foreign, number)


@dataclass
class Replays:
    """Recorded exchanges: whoever asks what was asked in one gets its answer, byte for byte, once; then a good one."""

    waiting: dict[bytes, list[Exchange]] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path) -> Replays:
        """From a file of exchange lines, as `eagle-assets reconstruct` takes them; raises ValueError."""
        replays = cls()
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                exchange = read_exchange_line(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number} is no exchange: {error}") from None
            replays.waiting.setdefault(digest_of(exchange.request, "messages"), []).append(exchange)
        if not replays.waiting:
            raise ValueError(f"{path} holds no exchange to replay")
        return replays

    def answer(self, request: Mapping[str, Any]) -> Response | None:
        """The recorded answer, if one is waiting for this request."""
        waiting = self.waiting.get(digest_of(request, "messages"))
        if not waiting:
            return None
        exchange = waiting.pop(0)
        kind = "text/event-stream" if looks_like_event_stream(exchange.body) else "application/json"
        return Response(exchange.body, exchange.status or 502, media_type=kind)


def _frame_with(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text.encode()


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number % every == 0
