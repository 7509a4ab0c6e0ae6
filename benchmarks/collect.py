"""Collection on loopback against plain httpx that throws the body away: `python benchmarks/collect.py [--quick]`.

Both stream the same answers from the same server, with 128 requests in flight, in one run. Collection goes through the
asset: journaled, budgeted, written as Parquet and audited. Each measurement has a process of its own, so that its
memory is its own. Figures to reach: 5 times the requests a second; at most 1.2 times the memory at 20 times as many
responses. Status 1 where one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from own_process import answer_if_asked, measured_apart, peak_mib

IN_FLIGHT = 128
ANSWER_TOKENS = 100
PLAIN_REQUESTS = 600
FEW, MANY = 1_000, 20_000
SPEED_TO_REACH, MEMORY_TO_KEEP = 5.0, 1.2


def main() -> int:
    answer_if_asked(measured)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2,000 responses at most, and no verdict on memory")
    arguments = parser.parse_args()
    many = 2_000 if arguments.quick else MANY
    with server() as url:
        plain = measured_apart(__file__, "plain", url, str(PLAIN_REQUESTS))
        few = measured_apart(__file__, "collection", url, str(FEW))
        lot = measured_apart(__file__, "collection", url, str(many))
    speed = lot["a second"] / plain["a second"]  # the few are for the memory: starting up is much of their time
    memory = lot["peak MiB"] / few["peak MiB"]
    print(f"{'':<34}{'responses':>10}{'a second':>10}{'CPU ms':>10}{'peak MiB':>10}")
    for name, row in (("plain httpx, body thrown away", plain), ("collection", few), ("collection", lot)):
        cells = f"{row['responses']:>10,.0f}{row['a second']:>10.0f}{row['CPU ms']:>10.2f}{row['peak MiB']:>10.0f}"
        print(f"{name:<34}{cells}")
    print(f"\n{speed:.1f} times as many a second ({SPEED_TO_REACH:g} to reach); ", end="")
    print(f"{memory:.2f} times the memory at {many // FEW} times the responses ({MEMORY_TO_KEEP:g} at most)")
    print(f"{plain['CPU ms'] / lot['CPU ms']:.1f} times as little CPU for each request")
    if not arguments.quick:  # too few to tell what each costs from what the start does
        seconds = {n: n / row["a second"] for n, row in ((FEW, few), (many, lot))}
        steady = (many - FEW) / (seconds[many] - seconds[FEW])
        start = seconds[FEW] - FEW / steady
        print(f"once it is at work {steady / plain['a second']:.1f} times as many; its start takes {start:.1f} s")
    return int(speed < SPEED_TO_REACH or (not arguments.quick and memory > MEMORY_TO_KEEP))


def measured(what: str, url: str, requests: str) -> dict[str, float]:
    return plain_httpx(url, int(requests)) if what == "plain" else collection(url, int(requests))


@contextmanager
def server() -> Iterator[str]:
    """The server in a process of its own; gives its base URL."""
    command = [sys.executable, str(Path(__file__).with_name("collect_server.py")), str(ANSWER_TOKENS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/api/v1"
        finally:
            process.kill()


def plain_httpx(url: str, requests: int) -> dict[str, float]:
    """Ask with plain httpx, as its documentation shows it, and throw away what comes."""
    import httpx

    async def ask_all() -> None:
        at_once = asyncio.Semaphore(IN_FLIGHT)
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=IN_FLIGHT), timeout=60) as client:

            async def ask(number: int) -> None:
                async with at_once, client.stream("POST", f"{url}/chat/completions", json=request(number)) as response:
                    async for _ in response.aiter_bytes():
                        pass

            await asyncio.gather(*(ask(number) for number in range(requests)))

    began, cpu = time.monotonic(), time.process_time()
    asyncio.run(ask_all())
    return figures(requests, time.monotonic() - began, time.process_time() - cpu)


def collection(url: str, requests: int) -> dict[str, float]:
    """Materialise `raw_responses` of one dataset; what comes before it is not measured."""
    with tempfile.TemporaryDirectory() as folder:
        rows = ({"prompt_id": f"p{i}", "messages": request(i)["messages"]} for i in range(requests))
        Path(folder, "prompts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        dataset = {"source": "openrouter", "prompts": "prompts.jsonl", "max_tokens": 256}
        Path(folder, "datasets.yaml").write_text(json.dumps({"concurrency": IN_FLIGHT, "datasets": {"B3": dataset}}))
        os.environ |= {
            "EAGLE_ASSETS_HOME": f"{folder}/home",
            "EAGLE_ASSETS_DATASETS": f"{folder}/datasets.yaml",
            "OPENROUTER_API_KEY": "benchmark",
            "OPENROUTER_BASE_URL": url,
            "DAGSTER_HOME": "",
        }
        import dagster as dg

        from eagle_assets.defs.execution import QUIET
        from eagle_assets.defs.graph import the_definitions

        job = the_definitions().resolve_implicit_global_asset_job_def()

        def materialise(*assets: str, dataset: str | None) -> None:
            job.execute_in_process(
                instance=dg.DagsterInstance.ephemeral(),
                partition_key=dataset,
                asset_selection=[dg.AssetKey(asset) for asset in assets],
                run_config=QUIET,
            )

        materialise("tokenizer_report", "provider_calibration", dataset=None)
        materialise("prompts", dataset="B3")
        began, cpu = time.monotonic(), time.process_time()
        materialise("raw_responses", dataset="B3")
        return figures(requests, time.monotonic() - began, time.process_time() - cpu)


def request(number: int) -> dict[str, object]:
    messages = [{"role": "user", "content": f"Prompt {number}: say something that is worth a hundred tokens."}]
    return {"model": "moonshotai/kimi-k2.5", "messages": messages, "max_tokens": 256, "stream": True}


def figures(responses: int, seconds: float, cpu_seconds: float) -> dict[str, float]:
    return {
        "responses": responses,
        "a second": responses / seconds,
        "CPU ms": 1e3 * cpu_seconds / responses,
        "peak MiB": peak_mib(),
    }


if __name__ == "__main__":
    sys.exit(main())
