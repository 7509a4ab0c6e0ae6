"""One request over HTTP, noted in the journal as it goes: no retries, no judgement."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx
import msgspec
from httpx_aiohttp import HttpxAiohttpClient

from eagle_assets.openrouter.attempts import Attempt
from eagle_assets.openrouter.journal import Journal
from eagle_assets.openrouter.redaction import StreamRedactor, redacted
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.values import as_dict


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong with the transport: `never_sent` where the request surely did not leave, `overlong` where more
    came than any answer may hold."""

    sentence: str
    never_sent: bool = False
    overlong: bool = False
    timed_out: bool = False


class Server:
    """A server, the key that it wants, if it wants one, and the connections to it. The key leaves this object only in
    requests."""

    def __init__(self, base_url: str, key: str | None, connections: int, timing: Timing) -> None:
        self._key = key or ""
        self._timing = timing
        base = base_url.rstrip("/") + "/"
        self._completions = httpx.URL(f"{base}chat/completions")  # parsed once: it is asked for each time
        self._client: httpx.AsyncClient = HttpxAiohttpClient(
            base_url=base,
            headers={
                **({"Authorization": f"Bearer {key}"} if key else {}),
                "Accept-Encoding": "identity",  # so that the bytes kept are the bytes sent
            },
            limits=httpx.Limits(max_connections=connections, keepalive_expiry=30.0),
            timeout=httpx.Timeout(None, connect=timing.connect),
        )

    @property
    def key_digest(self) -> str:
        """Tells keys apart, and tells nothing of the key."""
        return hashlib.sha256(f"eagle-assets ledger {self._key}".encode()).hexdigest()[:16]

    async def meter_usd(self) -> float | None:
        """What this key has spent so far in all, by `/key`; None where that cannot be had."""
        status, document = await self.get("key")
        usage = as_dict(as_dict(document).get("data")).get("usage")
        if status != 200 or not isinstance(usage, int | float) or isinstance(usage, bool) or usage < 0:
            return None
        return float(usage)

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def ask(self, attempt: Attempt, journal: Journal) -> Trouble | None:
        """Send the request of `attempt` and note all that comes. Returns what went wrong with the transport, if
        anything did."""
        clock = _Clock(self._timing)
        redactor = StreamRedactor(self._key)
        try:
            async with asyncio.timeout_at(clock.first_byte) as deadline:
                headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
                content = msgspec.json.encode(attempt.request)
                async with self._client.stream("POST", self._completions, content=content, headers=headers) as response:
                    shown = [(name, redacted(value, self._key)) for name, value in response.headers.multi_items()]
                    journal.begin(attempt, response.status_code, shown)
                    deadline.reschedule(clock.next_byte)
                    async for piece in response.aiter_bytes():
                        if kept := redactor.feed(piece):
                            journal.receive(attempt, kept, clock.seconds)
                        deadline.reschedule(clock.next_byte)
                        if attempt.size > self._timing.body_most:
                            most = self._timing.body_most >> 20
                            return Trouble(f"given up: more than {most} MiB came without an end", overlong=True)
        except TimeoutError:
            return Trouble(self._timed_out(attempt, clock), timed_out=True)
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError) as error:
            cause = error.__cause__ or error
            never_sent = isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            return Trouble(redacted(f"{type(cause).__name__}: {cause}", self._key), never_sent=never_sent)
        finally:
            if rest := redactor.rest():
                journal.receive(attempt, rest, clock.seconds)
        return None

    async def get(self, path: str, **params: str) -> tuple[int | None, Any]:
        """Status and JSON document of a GET; None for what did not come, or is no JSON."""
        try:
            async with asyncio.timeout(self._timing.first_byte):
                response = await self._client.get(path, params=params)
            return response.status_code, msgspec.json.decode(redacted(response.text, self._key))
        except msgspec.DecodeError:
            return response.status_code, None
        except (httpx.HTTPError, aiohttp.ClientError, OSError):
            return None, None

    def _timed_out(self, attempt: Attempt, clock: _Clock) -> str:
        if clock.seconds >= self._timing.total:
            return f"timed out: no end after {self._timing.total:g} s"
        if attempt.status is None:
            return f"timed out: no answer within {self._timing.first_byte:g} s"
        return f"timed out: nothing more came for {self._timing.between_bytes:g} s"


class _Clock:
    """Deadlines of one attempt, in the event loop's time."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._now = asyncio.get_running_loop().time
        self._start = self._now()

    @property
    def seconds(self) -> float:
        """Since the request left."""
        return self._now() - self._start

    @property
    def first_byte(self) -> float:
        return self._start + min(self._timing.first_byte, self._timing.total)

    @property
    def next_byte(self) -> float:
        return min(self._now() + self._timing.between_bytes, self._start + self._timing.total)
