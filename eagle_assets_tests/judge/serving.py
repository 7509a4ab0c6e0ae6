"""A small target on a real loopback socket, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from eagle_assets.sandbox.small_target import SmallTarget
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
encode, markers = TARGET.vocabulary.encode, TARGET.markers
PROMPT = [*encode("Which way?"), markers.think_begin]


def said(reasoning: str, content: str) -> list[int]:
    return [*encode(reasoning), markers.think_end, *encode(content), markers.stop]


TAUGHT = [said(f"I take road {n}.", f"Take road {n}.\n\nIt is short.") for n in range(1, 9)]


def taught_target() -> SmallTarget:
    return SmallTarget(TARGET, [(PROMPT, output) for output in TAUGHT])


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """The base URL under which `app` answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
