"""Ctrl-C and termination: the first asks to come to an end, the second ends it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(on_first: Callable[[], None]) -> Iterator[None]:
    """While this is open, the first signal calls `on_first` in the event loop, and takes its usual effect when the
    block has ended; a second one takes it at once. A signal that whoever started this process had it ignore, as shells
    do with SIGINT for background jobs, stays ignored. Signals reach the main thread only; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
    received: list[int] = []

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            loop.call_soon_threadsafe(on_first)
        else:
            restore()
            _take_effect(number)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        if len(received) <= 1:
            restore()
        if len(received) == 1:
            _take_effect(received[0])


def _take_effect(number: int) -> None:
    """As it would have been; a termination that nobody handles becomes an exit, so that what is open is closed."""
    if number == signal.SIGTERM and signal.getsignal(number) == signal.SIG_DFL:
        raise SystemExit(128 + number)
    signal.raise_signal(number)
