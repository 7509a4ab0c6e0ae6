"""`eagle-assets reconstruct` against the bare encoder on the same texts and cores: `python benchmarks/reconstruct.py`.

Answers of the sandbox's kind, each another, unstreamed, in one file. The command reads it, calibrates, judges and
writes; the bare encoder gets the texts alone, in one batch on all cores, in the same run. Also memory at ten times as
many exchanges, and a transformers fast tokenizer that only encodes. Figures to reach: 0.5 of the encoder's tokens a
second, 5 times the fast tokenizer's, 1.2 times the memory.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

FEW = 2_000
PROVIDERS = ("Lakeside", "Harbour", "Tundra", "Copperline")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exchanges", type=int, default=10 * FEW, help="exchanges of the large file")
    count = parser.parse_args().exchanges
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large.jsonl"), Path(folder, "small.jsonl")
        texts = write_exchanges(large, count)
        write_exchanges(small, count // 10)
        seconds, memory = run(large)
        _, memory_of_small = run(small)
        bare_seconds, tokens = encode_bare(texts)
        fast_seconds, fast_tokens = encode_fast(texts[: len(texts) // 20])
    command, bare, fast = tokens / seconds, tokens / bare_seconds, fast_tokens / fast_seconds
    print(f"{count:,} exchanges, {tokens:,} tokens of output text")
    print(f"reconstruct            {command:12,.0f} tokens a second, {memory:,.0f} MB")
    print(f"bare encoder, batches  {bare:12,.0f} tokens a second: ratio {command / bare:.3f} (to reach: 0.5)")
    print(f"fast tokenizer         {fast:12,.0f} tokens a second: ratio {command / fast:.2f} (to reach: 5)")
    print(f"memory at 10 times as many exchanges: ratio {memory / memory_of_small:.2f} (at most 1.2)")
    return 0


def write_exchanges(path: Path, count: int) -> list[str]:
    """Write exchanges, and give the texts of their answers."""
    from eagle_assets.sandbox.outputs import true_output
    from eagle_assets.targets.kimi import target_named

    target = target_named("moonshotai/kimi-k2.5")
    vocabulary = target.vocabulary
    outputs = [true_output(request) for request in requests()]
    answers = [answer for ids in outputs if (answer := split(vocabulary.decode(ids).decode("utf-8", "replace")))]
    random, texts = Random(1), []
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            reasoning, content = random.choice(answers)
            reasoning = f"{reasoning} Case {number}"
            tokens = len(vocabulary.encode(reasoning)) + len(vocabulary.encode(content)) + 2
            texts += [reasoning, content]
            file.write(json.dumps(exchange(number, reasoning, content, tokens), ensure_ascii=False) + "\n")
    return texts


def requests() -> Iterator[dict[str, Any]]:
    """The requests of the packaged prompts without tools."""
    from eagle_assets.configuration import PACKAGED_DATASETS_FILE, load_configuration
    from eagle_assets.openrouter.requests import build_request, read_prompts

    configuration = load_configuration(PACKAGED_DATASETS_FILE)
    for dataset in configuration.bought.values():
        for prompt in read_prompts(dataset.prompts):
            if not prompt.tools:
                yield build_request(prompt, dataset, configuration)


def split(text: str) -> tuple[str, str] | None:
    """Reasoning and content of a whole output without calls."""
    match = re.fullmatch(r"(.*?)</think>(.+)<\|im_end\|>", text, re.DOTALL)
    return None if match is None or "\ufffd" in text else (match[1], match[2])


def exchange(number: int, reasoning: str, content: str, tokens: int) -> dict[str, Any]:
    provider = PROVIDERS[number % len(PROVIDERS)]
    message = {"role": "assistant", "content": content, "reasoning": reasoning}
    body = {
        "id": f"gen-{number}",
        "model": "moonshotai/kimi-k2.5-0127",
        "provider": provider,
        "choices": [{"index": 0, "finish_reason": "stop", "native_finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 12, "completion_tokens": tokens},
    }
    request = {"model": "moonshotai/kimi-k2.5", "messages": [{"role": "user", "content": f"Case {number}?"}]}
    return {
        "exchange_id": f"gen-{number}",
        "model": "moonshotai/kimi-k2.5-0127",
        "provider": provider,
        "status": 200,
        "request": request,
        "body": json.dumps(body, ensure_ascii=False),
    }


def run(file: Path) -> tuple[float, float]:
    """Seconds and megabytes (of the largest process) that the command takes for a file."""
    watch = "import resource, sys, subprocess; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL); "
    watch += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    command = [sys.executable, "-m", "eagle_assets.cli", "reconstruct", str(file), "-o", str(file) + ".out"]
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", watch, *command], check=True, capture_output=True, text=True)
    return time.perf_counter() - started, float(done.stdout)


def encode_bare(texts: list[str]) -> tuple[float, int]:
    """Seconds and tokens of the encoder alone, in one batch on all cores."""
    from eagle_assets.targets.kimi import kimi_vocabulary

    vocabulary = kimi_vocabulary()
    started = time.perf_counter()
    tokens = len(vocabulary.encode_batch(texts).ids)
    return time.perf_counter() - started, tokens


def encode_fast(texts: list[str]) -> tuple[float, int]:
    """Seconds and tokens of a fast tokenizer with the same vocabulary size and kind, in batches on all cores."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=20_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts[:2_000], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    started = time.perf_counter()
    tokens = sum(map(len, fast(texts, add_special_tokens=False)["input_ids"]))
    return time.perf_counter() - started, tokens


if __name__ == "__main__":
    sys.exit(main())
