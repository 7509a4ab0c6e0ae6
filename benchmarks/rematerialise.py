"""What a second materialisation costs, and what memory many responses take: `python benchmarks/rematerialise.py`.

A journal is filled with answers of the sandbox's kind, and `eagle-assets run B3 --until training_shards` makes the
dataset; then 1 % new answers come, and the same is run again. Each has a process of its own. What is proved and learnt
before any dataset is made (`tokenizer_report`, `provider_calibration`) takes the same however many responses there are,
and has a line of its own. The two runs of Dagster that follow it are measured whole: `prompts` with `raw_responses`
(nothing is left to be bought), and `token_sequences` with `training_shards`.

To reach: both runs again take at most 0.1 of the first time, ten times as many responses at most 1.2 times the memory,
and from journal to shard (all but `prompts`) as many tokens a second as tiktoken's batch on two threads gives for the
same texts. Status 1 where one is missed. With `--responses 5000` it takes about a minute, and says less: starting up is
part of every run, and a part of 2,048 responses that is not full takes less memory than one that is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

from own_process import answer_if_asked, forget_peak, measured_apart, peak_mib

BEFORE = "provider_calibration"  # the last of what comes before
RUNS = ("prompts, raw_responses", "token_sequences, training_shards")
AGAIN, MEMORY, TOKENS = 0.1, 1.2, 1.0
DATASET = "B3"


def main() -> int:
    from eagle_assets.sandbox.process import running_sandbox  # here, as each worker imports this module again

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--responses", type=int, default=20_000, help="responses of the larger dataset")
    many = parser.parse_args().responses
    with tempfile.TemporaryDirectory() as folder, running_sandbox(Path(folder, "truth.jsonl")) as base_url:
        few_first, _, _ = materialised_twice(Path(folder, "few"), many // 10, base_url)
        first, again, texts = materialised_twice(Path(folder, "many"), many, base_url)
    tokens, bare = encoded_by_tiktoken(texts)
    print(f"{many:,} responses, then 1 % more; {tokens:,} tokens of text")
    print(f"{'':<34}{'first, s':>10}{'again, s':>10}{'ratio':>8}{'MiB at a tenth':>16}{'MiB':>8}{'times':>8}")
    print(f"{'before, whatever their number':<34}{first['before']:>10.1f}{again['before']:>10.1f}")
    for run in RUNS:
        memory = f"{few_first[f'{run}, MiB']:>16,.0f}{first[f'{run}, MiB']:>8,.0f}"
        times = first[f"{run}, MiB"] / few_first[f"{run}, MiB"]
        print(f"{run:<34}{first[run]:>10.1f}{again[run]:>10.1f}{again[run] / first[run]:>8.3f}{memory}{times:>8.2f}")
    ratio = sum(again[run] for run in RUNS) / sum(first[run] for run in RUNS)
    memory = max(first[f"{run}, MiB"] for run in RUNS) / max(few_first[f"{run}, MiB"] for run in RUNS)
    speed = tokens / (sum(first[run] for run in RUNS) - first["prompts"])
    print(f"both again, after 1 % new: {ratio:.3f} of the first time (to reach: {AGAIN:g})")
    print(f"memory at ten times as many responses: {memory:.2f} times (to reach: {MEMORY:g})")
    share = f"{speed / bare:.3f} of tiktoken's {bare:,.0f} on two threads (to reach: {TOKENS:g})"
    print(f"journal to shard: {speed:,.0f} tokens a second, {share}")
    return int(ratio > AGAIN or memory > MEMORY or speed < TOKENS * bare)


def materialised_twice(
    folder: Path, responses: int, base_url: str
) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """What a run takes the first time and after 1 % more, and the texts of all answers."""
    folder.mkdir()
    dataset = {"source": "openrouter", "prompts": "B3.jsonl", "max_tokens": 4096}
    (folder / "datasets.yaml").write_text(json.dumps({"datasets": {DATASET: dataset}}))
    os.environ |= {
        "EAGLE_ASSETS_HOME": str(folder / "home"),
        "EAGLE_ASSETS_DATASETS": str(folder / "datasets.yaml"),
        "OPENROUTER_API_KEY": "sandbox",
        "OPENROUTER_BASE_URL": base_url,
        "DAGSTER_HOME": str(folder),
    }
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    texts = write_answers(folder, range(responses))
    first = measured_apart(__file__)
    write_answers(folder, range(responses, responses + max(1, responses // 100)))
    return first, measured_apart(__file__), texts


def measured() -> dict[str, float]:
    """Seconds of each run of Dagster and of the asset `prompts`, and the most memory of any process during each."""
    import logging

    from eagle_assets.defs.outcomes import Outcome
    from eagle_assets.defs.run import materialise, prepare

    logging.disable(logging.INFO)
    ended: dict[str, float] = {}
    found: dict[str, float] = {}

    def note(outcome: Outcome) -> None:
        if outcome.status != "materialised":
            raise SystemExit(f"{outcome.asset}: {outcome.reason}")
        ended[outcome.asset] = time.perf_counter()
        of_worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        for run in RUNS:
            if outcome.asset in run.split(", "):
                found[f"{run}, MiB"] = max(found.get(f"{run}, MiB", 0.0), peak_mib(), of_worker)
        if outcome.asset == "prompts":
            found["prompts"] = outcome.seconds
        forget_peak()

    began = time.perf_counter()
    materialise(prepare([DATASET], until="training_shards"), on_outcome=note)
    for asset, name in zip((BEFORE, *(run.split(", ")[-1] for run in RUNS)), ("before", *RUNS), strict=True):
        found[name], began = ended[asset] - began, ended[asset]
    return found


def write_answers(folder: Path, numbers: range) -> list[str]:
    """Add prompts to the prompts file and their answers to the journal, as if they had been bought; gives the texts."""
    from exchanges import made_exchanges

    from eagle_assets.configuration import load_configuration
    from eagle_assets.openrouter.journal import Journal
    from eagle_assets.openrouter.journal_reader import journal_folder
    from eagle_assets.openrouter.ledger import Ledger
    from eagle_assets.openrouter.requests import Prompt, build_request, request_key

    configuration = load_configuration(folder / "datasets.yaml")
    texts: list[str] = []
    Ledger.open(folder / "home", configuration).close()
    with (
        (folder / "B3.jsonl").open("a", encoding="utf-8") as prompts,
        Journal.open(journal_folder(folder / "home", DATASET)) as journal,
    ):
        for number, made in zip(numbers, made_exchanges(numbers, streamed=False), strict=True):
            messages = made.line["request"]["messages"]
            prompts.write(json.dumps({"prompt_id": f"q{number}", "messages": messages}, ensure_ascii=False) + "\n")
            prompt = Prompt(f"q{number}", tuple(messages))
            request = build_request(prompt, configuration.bought[DATASET], configuration)
            attempt = journal.ask(f"local-{number}", prompt.prompt_id, request_key(request), request)
            journal.begin(attempt, 200, [])
            journal.receive(attempt, made.line["body"].encode(), 0.1)
            journal.end(attempt)
            texts += made.texts
    return texts


def encoded_by_tiktoken(texts: list[str]) -> tuple[int, float]:
    """Tokens of the texts, and how many a second tiktoken makes of them on two threads."""
    import tiktoken

    from eagle_assets.targets.encoders import SPLIT_PATTERN
    from eagle_assets.targets.kimi import kimi_vocabulary

    ranks = kimi_vocabulary().id_of_bytes
    encoding = tiktoken.Encoding("kimi", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={})
    started = time.perf_counter()
    tokens = sum(map(len, encoding.encode_ordinary_batch(texts, num_threads=2)))
    return tokens, tokens / (time.perf_counter() - started)


if __name__ == "__main__":
    answer_if_asked(measured)
    raise SystemExit(main())
