"""How many requests may be in flight: more while all goes well, fewer as soon as somebody is overloaded.

Additive increase and multiplicative decrease, as TCP does it (RFC 5681), with its slow start. A request's provider is
known only when it answers, so what is limited for a provider is the asking again of what it turned away; its trouble
slows everything by its share of the traffic.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

FIRST_WINDOW = 8
DECREASE = 0.5
RECENT = 256  # answers over which a provider's share of the traffic is taken


@dataclass(slots=True)
class Window:
    """How many requests may be in flight at once: `size`, from 1 to `most`."""

    size: float
    most: int
    growing_fast: bool = True
    decreased_at: float = float("-inf")

    def grow(self) -> None:
        self.size = min(self.most, self.size + (1.0 if self.growing_fast else 1.0 / self.size))

    def shrink(self, asked_at: float, now: float, share: float = 1.0) -> None:
        """Once for all that was asked before: they met the same trouble."""
        if asked_at > self.decreased_at:
            self.size = max(1.0, self.size * (1.0 - DECREASE * share))
            self.growing_fast, self.decreased_at = False, now


@dataclass(slots=True)
class ProviderPace:
    """What is known of one provider: its window, how long it asked to be left alone, what it answered and failed."""

    window: Window
    rests_until: float = float("-inf")
    in_flight: int = 0
    attempts: int = 0
    failures: int = 0


@dataclass(slots=True)
class Permit:
    """Leave to send one request; `expected` is the provider that turned it away before, if one did."""

    asked_at: float
    expected: str | None = None


@dataclass(slots=True)
class Pace:
    """Admits requests. `most` bounds those in flight; times are those of `now`, in seconds."""

    most: int
    now: Callable[[], float] = monotonic
    in_flight: int = 0
    providers: dict[str, ProviderPace] = field(default_factory=dict)
    window: Window = field(init=False)
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    _recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT))

    def __post_init__(self) -> None:
        self.window = Window(float(min(FIRST_WINDOW, self.most)), self.most)

    async def admit(self, expected: str | None = None) -> Permit:
        """Wait until a request may leave."""
        if expected is not None:
            provider = self._provider(expected)
            while (pause := self._pause_for(provider)) > 0:
                await asyncio.sleep(pause)
            provider.in_flight += 1
        try:
            while self.in_flight >= int(self.window.size):
                turn = asyncio.get_running_loop().create_future()
                self._waiting.append(turn)
                await turn
        except BaseException:
            if expected is not None:
                self._provider(expected).in_flight -= 1
            self._wake()
            raise
        self.in_flight += 1
        return Permit(self.now(), expected)

    def release(
        self, permit: Permit, provider: str | None, *, overloaded: bool, failed: bool, rest: float | None = None
    ) -> None:
        """The request has ended. `rest` is how many seconds the server asked to be left alone."""
        self.in_flight -= 1
        if permit.expected is not None:
            self._provider(permit.expected).in_flight -= 1
        if provider is not None:
            known = self._provider(provider)
            known.attempts += 1
            known.failures += failed
            self._recent.append(provider)
            if overloaded:
                known.window.shrink(permit.asked_at, self.now())
                known.rests_until = max(known.rests_until, self.now() + (rest or 0.0))
            elif not failed:
                known.window.grow()
        if overloaded:
            self.window.shrink(permit.asked_at, self.now(), self._share(provider))
        elif not failed:
            self.window.grow()
        self._wake()

    def _share(self, provider: str | None) -> float:
        """A provider's share of the recent traffic; all of it where nobody is named."""
        if provider is None:
            return 1.0
        return Counter(self._recent)[provider] / len(self._recent)

    def _pause_for(self, provider: ProviderPace) -> float:
        """Seconds until it is worth looking again whether this provider can take one more."""
        resting = provider.rests_until - self.now()
        if resting > 0:
            return resting
        return 0.05 if provider.in_flight >= int(provider.window.size) else 0.0

    def _provider(self, name: str) -> ProviderPace:
        if name not in self.providers:
            self.providers[name] = ProviderPace(Window(float(min(FIRST_WINDOW, self.most)), self.most))
        return self.providers[name]

    def _wake(self) -> None:
        free = int(self.window.size) - self.in_flight
        while self._waiting and free > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
