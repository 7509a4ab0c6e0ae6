"""Kill −9 at twenty instants, then a run to the end, held against the sandbox's own books and an undisturbed run."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from eagle_assets.configuration import Configuration, Settings
from eagle_assets.lake.schemas import RAW_RESPONSES, TOKEN_SEQUENCES, TRAINING_SHARDS
from eagle_assets.openrouter.client import CollectionSummary, collect_missing
from eagle_assets.openrouter.journal_reader import open_journal
from eagle_assets.openrouter.ledger import budget_totals
from eagle_assets.openrouter.requests import Prompt
from eagle_assets.openrouter.timing import Timing
from eagle_assets.reconstruction.sequences import calibrate_rows, sequence_rows
from eagle_assets.reconstruction.stored import row_of_record
from eagle_assets.sandbox.faults import Faults
from eagle_assets.sandbox.process import running_sandbox
from eagle_assets.targets.kimi import target_named
from eagle_assets.training.shards import shard_batches
from eagle_assets_tests.openrouter.router import wanted

KILLS = 20
CONCURRENCY = 8
QUICK = Timing(wait_first=0.01, wait_most=0.2, generation_wait_first=0.01, meter_quiet=0.2)
DATASET = {"source": "openrouter", "prompts": "p.jsonl", "max_tokens": 700}
CONFIGURATION = Configuration.model_validate({"datasets": {"B3": DATASET}, "concurrency": CONCURRENCY})
PROMPTS = [
    Prompt(f"p{i}", ({"role": "user", "content": f"What is {i} × {i + 7}? Write two short paragraphs about it."},))
    for i in range(200)
]


def collect(home: Path, base_url: str) -> CollectionSummary:
    settings = Settings.model_validate({"OPENROUTER_API_KEY": "sandbox", "OPENROUTER_BASE_URL": base_url})
    asked = wanted(PROMPTS, CONFIGURATION, prompt_tokens=40)
    return collect_missing(home, "B3", asked, CONFIGURATION, settings, timing=QUICK)


def shards(home: Path) -> bytes:
    """The training shards that a journal leads to, as a Parquet file."""
    prompt_ids = [prompt.prompt_id for prompt in PROMPTS]
    rows = [row_of_record(record, "B3") for record in open_journal(home, "B3").read(prompt_ids)]
    rows = pa.Table.from_pylist(rows, schema=RAW_RESPONSES).to_pylist()
    sequences = pa.Table.from_pylist(list(sequence_rows(rows, calibrate_rows(rows))), schema=TOKEN_SEQUENCES)
    size = target_named(CONFIGURATION.target).vocabulary.size
    batches = list(shard_batches(sequences.to_batches(), "B3", size, Counter()))
    pq.write_table(pa.Table.from_batches(batches, TRAINING_SHARDS), home / "shards.parquet")
    return (home / "shards.parquet").read_bytes()


def answers_of(truth_file: Path) -> int:
    """How many answers the sandbox has billed."""
    return truth_file.read_bytes().count(b"\n") if truth_file.exists() else 0


def test_twenty_kills_lose_nothing_and_buy_nothing_twice(tmp_path: Path) -> None:
    instants = random.Random(20)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["eagle_assets_tests.openrouter.test_kill"])
    disturbed, calm = tmp_path / "disturbed", tmp_path / "calm"
    faults = Faults(same_ids=1)
    with running_sandbox(tmp_path / "calm.jsonl", faults=faults) as base_url:
        assert collect(calm, base_url).answered == len(PROMPTS)

    truth = tmp_path / "disturbed.jsonl"
    with running_sandbox(truth, faults=faults) as base_url:
        for _ in range(KILLS):
            target = answers_of(truth) + instants.randrange(1, 14)
            process = processes.Process(target=collect, args=(disturbed, base_url))
            process.start()
            while answers_of(truth) < target:
                assert process.is_alive()
                time.sleep(0.002)
            time.sleep(instants.uniform(0, 0.03))
            process.kill()
            process.join()
        summary = collect(disturbed, base_url)
        books = httpx.get(base_url.replace("/api/v1", "/sandbox/books")).json()

    records = list(open_journal(disturbed, "B3").read())
    interrupted = [r for r in records if str(r.exchange.transport_error).startswith("interrupted")]
    in_flight = sum(r.outcome != "answered" for r in interrupted)
    answered = Counter(r.prompt_id for r in records if r.outcome == "answered")
    assert summary.answered + summary.already == len(PROMPTS)
    assert answered == Counter(p.prompt_id for p in PROMPTS)
    assert in_flight <= KILLS * CONCURRENCY
    assert len(truth.read_text().splitlines()) <= len(PROMPTS) + in_flight + 1  # the sandbox cuts one stream itself

    spent = budget_totals(disturbed, CONFIGURATION).all
    assert spent.reserved_usd == 0
    assert books["billed_usd"] <= spent.spent_usd <= books["billed_usd"] * 1.02
    assert shards(disturbed) == shards(calm)
