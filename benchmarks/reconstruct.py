"""`eagle-assets reconstruct` against encoders that do nothing else: `python benchmarks/reconstruct.py`.

The command reads a file, calibrates, judges and writes, its start included; the encoders get the texts of the same
answers alone, in batches on all cores, in the same run: splintr itself, and a transformers fast tokenizer made of the
same vocabulary. JSON bodies and event streams of one token a frame are measured apart. Figures to reach with JSON
bodies: 0.5 of the encoder's tokens a second, 5 times the fast tokenizer's, 1.2 times the memory at ten times as many.
On a machine that others use too, the ratio by CPU time is the one to believe.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import splintr
from exchanges import write_exchanges

from eagle_assets.targets.encoders import SPLIT_PATTERN
from eagle_assets.targets.kimi import kimi_vocabulary

CHARACTERS_FOR_FAST = 8_000_000  # of which a slow encoder's speed shows well enough


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exchanges", type=int, default=20_000, help="JSON bodies of the large file")
    parser.add_argument("--streams", type=int, default=400, help="event streams")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, small, large, streams = (Path(folder, name) for name in ("one", "small", "large", "streams"))
        write_exchanges(one, 1, streamed=False)
        write_exchanges(small, arguments.exchanges // 10, streamed=False)
        written = write_exchanges(large, arguments.exchanges, streamed=False)
        of_streams = write_exchanges(streams, arguments.streams, streamed=True)
        of_one, of_small, of_large, of_all_streams = map(run, (one, small, large, streams))
        bare, bare_by_cpu = encoder_alone(written.texts)
        fast = fast_tokenizer_alone(written.texts, Path(folder))
    mean = written.tokens / arguments.exchanges
    command, streamed = written.tokens / of_large.seconds, of_streams.tokens / of_all_streams.seconds
    by_cpu, streamed_by_cpu = written.tokens / of_large.cpu, of_streams.tokens / of_all_streams.cpu
    memory = of_large.memory / of_small.memory
    print(f"{arguments.exchanges:,} JSON bodies, {written.tokens:,} tokens, {mean:,.0f} each on average")
    print(f"reconstruct, JSON bodies    {command:12,.0f} tokens a second in {of_large}")
    print(f"  of which for a file of one line: {of_one}")
    print(f"bare encoder                {bare:12,.0f} tokens a second: ratio {command / bare:.3f} (to reach: 0.5)")
    print(f"  by CPU time               {bare_by_cpu:12,.0f} tokens a second: ratio {by_cpu / bare_by_cpu:.3f}")
    print(f"transformers fast tokenizer {fast:12,.0f} tokens a second: ratio {command / fast:.2f} (to reach: 5)")
    print(f"memory at 10 times as many exchanges: ratio {memory:.2f} (at most 1.2)")
    print(f"{arguments.streams:,} event streams, {of_streams.tokens:,} tokens, as many frames")
    print(f"reconstruct, event streams  {streamed:12,.0f} tokens a second: ratio {streamed / bare:.3f}")
    print(f"  by CPU time               {streamed_by_cpu:12,.0f} a second: ratio {streamed_by_cpu / bare_by_cpu:.3f}")
    return 0


@dataclass(frozen=True)
class Run:
    """What the command takes for a file: seconds, CPU seconds of all its processes, megabytes of the largest."""

    seconds: float
    cpu: float
    memory: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu:.1f} s of CPU, {self.memory:,.0f} MB"


# Workers are no children of the command, so what they used is known only to who takes them over when it has ended.
_WATCHED = """
import ctypes, os, resource, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
try:
    while os.wait():
        pass
except ChildProcessError:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def run(file: Path) -> Run:
    command = [sys.executable, "-m", "eagle_assets.cli", "reconstruct", str(file), "-o", str(file) + ".out"]
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _WATCHED, *command], check=True, capture_output=True, text=True)
    cpu, memory = map(float, done.stdout.split())
    return Run(time.perf_counter() - started, cpu, memory)


def encoder_alone(texts: list[str]) -> tuple[float, float]:
    """Tokens a second, and a second of CPU, of the encoder alone, in one batch on all cores, into a flat buffer."""
    tokenizer: Any = splintr.Tokenizer.from_pretrained("kimi_k2")
    started, cpu_before = time.perf_counter(), time.process_time()
    ids, _ = tokenizer.encode_batch_flat(texts)
    tokens = len(ids) / 4
    return tokens / (time.perf_counter() - started), tokens / (time.process_time() - cpu_before)


def fast_tokenizer_alone(texts: list[str], folder: Path) -> float:
    """Tokens a second of the fast tokenizer that transformers makes of Kimi's `tiktoken.model`, on all cores."""
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    vocabulary, model = kimi_vocabulary(), folder / "tiktoken.model"
    lines = (base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(vocabulary.token_bytes))
    model.write_bytes(b"".join(lines))
    converted = TikTokenConverter(str(model), SPLIT_PATTERN, extra_special_tokens=list(vocabulary.special)).converted()
    fast = PreTrainedTokenizerFast(tokenizer_object=converted)
    some = list(islice(texts, CHARACTERS_FOR_FAST * len(texts) // sum(map(len, texts))))
    started = time.perf_counter()
    ids = fast(some, add_special_tokens=False)["input_ids"]
    seconds = time.perf_counter() - started
    if ids != [vocabulary.encode(text) for text in some]:
        raise SystemExit("the fast tokenizer is another: it gives other ids")
    return sum(map(len, ids)) / seconds


if __name__ == "__main__":
    sys.exit(main())
