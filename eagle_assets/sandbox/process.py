"""The sandbox as a process: in the foreground for a person, in the background for a run that ends it for certain."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from eagle_assets.sandbox.answering import load_target
from eagle_assets.sandbox.faults import Faults, Replays
from eagle_assets.sandbox.server import Sandbox

HOST = "127.0.0.1"


class SandboxFailed(RuntimeError):
    """The sandbox's process ended before it could listen."""


def serve(
    port: int,
    truth_file: Path | None,
    announce: Callable[[str], None],
    faults: Faults | None = None,
    replay: Path | None = None,
) -> None:
    """Serve on the loopback interface until interrupted. `announce` is called with the base URL once the port is
    taken; port 0 takes a free one. Raises OSError where the port is in use, ValueError for a bad file to replay."""
    replays = Replays.of_file(replay) if replay is not None else None
    with socket.create_server((HOST, port)) as listener:
        announce(f"http://{HOST}:{listener.getsockname()[1]}/api/v1")  # who connects from now on waits, and is answered
        load_target()
        config = uvicorn.Config(
            Sandbox(truth_file, faults=faults, replays=replays).app, log_level="critical", lifespan="off"
        )
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def running_sandbox(
    truth_file: Path, port: int = 0, faults: Faults | None = None, replay: Path | None = None
) -> Iterator[str]:
    """A sandbox in a process of its own; gives its base URL. It ends with the block, and also when this process is
    killed: it watches its standard input, which then closes."""
    command = [sys.executable, "-m", "eagle_assets.sandbox.process", "--port", str(port)]
    command += ["--truth-file", str(truth_file), *(f"--fault={word}" for word in (faults or Faults()).words())]
    command += [f"--replay={replay}"] if replay is not None else []
    with running(command) as base_url:
        if not base_url:
            raise SandboxFailed(f"the sandbox could not be started on port {port}; is the port taken?")
        yield base_url


@contextmanager
def running(command: Sequence[str]) -> Iterator[str]:
    """A process of this room beside this one; gives its first line, which is empty where it could not begin.

    It ends with the block, and also when this process is killed: see `end_with_standard_input`.
    """
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def end_with_standard_input() -> None:
    """End this process when its standard input closes, as it does when the one that started it is gone."""
    threading.Thread(target=_end_with_standard_input, daemon=True).start()


def _end_with_standard_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--truth-file", type=Path, required=True)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--replay", type=Path)
    arguments = parser.parse_args()
    end_with_standard_input()
    try:
        serve(
            arguments.port,
            arguments.truth_file,
            announce=lambda base_url: print(base_url, flush=True),
            faults=Faults.parse(arguments.fault),
            replay=arguments.replay,
        )
    except (OSError, ValueError) as error:
        sys.exit(f"sandbox: {error}")


if __name__ == "__main__":
    _main()
