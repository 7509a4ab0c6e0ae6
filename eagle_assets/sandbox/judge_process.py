"""The small target as a process beside the demo: trained on the sandbox's own text, served as SGLang would."""

from __future__ import annotations

import argparse
import json
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from eagle_assets.sandbox.judge_server import JudgeServer
from eagle_assets.sandbox.local import MODEL
from eagle_assets.sandbox.outputs import true_output
from eagle_assets.sandbox.process import HOST, SandboxFailed, end_with_standard_input, running
from eagle_assets.sandbox.small_target import SmallTarget
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import prompt_ids

SEEDS = range(1, 13)
ENOUGH_SAID = 10_000  # tokens of answers to one prompt that are enough


def training_text(prompts: Sequence[Path]) -> Iterator[tuple[list[int], list[int]]]:
    """What the sandbox's model says to the prompts of these files under SEEDS, as far as that is not ENOUGH_SAID: the
    same questions as the datasets ask, and other answers than any of them holds, because those were given without a
    seed."""
    target = target_named(MODEL)
    for path in prompts:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            request: dict[str, Any] = {"model": MODEL, "messages": row["messages"], **row.get("params", {})}
            if row.get("tools"):
                request["tools"] = row["tools"]
            prompt = prompt_ids(target, request)
            said = 0
            for seed in SEEDS:
                output = true_output({**request, "seed": seed})
                yield prompt, output
                said += len(output)
                if said >= ENOUGH_SAID:
                    break


@contextmanager
def running_judge(prompts: Sequence[Path]) -> Iterator[str]:
    """A judge in a process of its own, trained on these prompts; gives its base URL at once, and answers when it is
    ready. It ends with the block, and with this process. Raises SandboxFailed."""
    with running([sys.executable, "-m", "eagle_assets.sandbox.judge_process", *map(str, prompts)]) as base_url:
        if not base_url:
            raise SandboxFailed("the small judge could not be started")
        yield base_url


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("prompts", nargs="+", type=Path)
    arguments = parser.parse_args()
    end_with_standard_input()
    with socket.create_server((HOST, 0)) as listener:
        print(f"http://{HOST}:{listener.getsockname()[1]}", flush=True)  # who connects from now on waits
        target = target_named(MODEL)
        server = JudgeServer(SmallTarget(target, training_text(arguments.prompts)), target)
        uvicorn.Server(uvicorn.Config(server.app, log_level="critical", lifespan="off")).run(sockets=[listener])


if __name__ == "__main__":
    _main()
