"""Memory and speed of shards and exports at ten times the rows: `python benchmarks/shards.py [--quick]`.

Sequences of about 250 tokens are made into shards as the asset does it, checks included, and exported. Each measurement
has a process of its own. To keep: at most 1.2 times the memory at ten times the rows; status 1 where that is missed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from own_process import answer_if_asked, measured_apart, peak_mib

from eagle_assets.export_options import FORMATS
from eagle_assets.lake.audit import require
from eagle_assets.lake.home import Home
from eagle_assets.lake.parquet import ROWS_PER_BATCH
from eagle_assets.lake.schemas import TOKEN_SEQUENCES, TRAINING_SHARDS
from eagle_assets.lake.version import new_version
from eagle_assets.targets.kimi import target_named
from eagle_assets.training.exports.export import export
from eagle_assets.training.exports.request import ExportRequest
from eagle_assets.training.shard_checks import check_shards
from eagle_assets.training.shards import SEQUENCE_COLUMNS, shard_batches

MEMORY_TO_KEEP, VOCABULARY_SIZE, DATASET = 1.2, 163_840, "B3"


def main() -> int:
    answer_if_asked(lambda what, root, rows: measured(what, Home(Path(root)), int(rows)))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2,000 and 20,000 rows, and no verdict on memory")
    arguments = parser.parse_args()
    few = 2_000 if arguments.quick else 20_000
    print(f"{'':<26}{'rows':>10}{'tokens a second':>18}{'peak MiB':>10}{'times':>8}")
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        for what in ("sequences", "shards", *FORMATS):
            peaks = []
            for rows in (few, 10 * few):
                row = measured_apart(__file__, what, f"{folder}/{rows}", str(rows))
                peaks.append(row["peak MiB"])
                if what != "sequences":
                    times = f"{peaks[1] / peaks[0]:.2f}" if len(peaks) == 2 else ""
                    speed = row["tokens"] / row["seconds"]
                    print(f"{what:<26}{rows:>10,}{speed:>18,.0f}{row['peak MiB']:>10.0f}{times:>8}", flush=True)
            kept &= what == "sequences" or peaks[1] <= MEMORY_TO_KEEP * peaks[0]
    print(f"\nmemory at ten times the rows: {MEMORY_TO_KEEP:g} times at most, {'kept' if kept else 'missed'}")
    return int(not kept and not arguments.quick)


def measured(what: str, home: Home, rows: int) -> dict[str, float]:
    target = target_named("moonshotai/kimi-k2.5")
    assert len(target.markers.__dict__) == 8  # loads the vocabulary before the clock runs
    started = time.perf_counter()
    if what == "sequences":
        with new_version(home, "token_sequences", DATASET) as version:
            version.write_batches("part.parquet", TOKEN_SEQUENCES, sequences(rows))
            version.audit([])
        tokens = 0.0
    elif what == "shards":
        tokens = make_shards(home)
    else:
        request = ExportRequest(what, home.root / what, dedup="sequence")  # type: ignore[arg-type]
        tokens = export(home, target, request).manifest["tokens"]
    seconds = time.perf_counter() - started
    return {"tokens": tokens, "seconds": seconds, "peak MiB": peak_mib()}


def make_shards(home: Home) -> float:
    with new_version(home, "training_shards", DATASET) as version:
        published = require(home, "token_sequences", DATASET)
        batches = published.batches(SEQUENCE_COLUMNS, ROWS_PER_BATCH)
        rows = shard_batches(batches, DATASET, VOCABULARY_SIZE, Counter())
        version.write_batches("part.parquet", TRAINING_SHARDS, rows)
        checks = check_shards(
            lambda columns: version.batches("part.parquet", columns),
            lambda columns: published.batches(columns, ROWS_PER_BATCH),
            VOCABULARY_SIZE,
        )
        assert version.audit(checks, [published]).passed
    return checks[1].numbers["tokens"]


def sequences(rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(0)
    for begin in range(0, rows, ROWS_PER_BATCH):
        size = min(ROWS_PER_BATCH, rows - begin)
        columns = {
            "exchange_id": pa.array([f"gen-{begin + i:020d}" for i in range(size)]),
            "provider": pa.array(["Chutes"] * size),
            "verdict": pa.array(random.choice(["exact", "consistent", "unverified"], size)),
            "prompt_ids": lists(random, random.integers(50, 120, size)),
            "output_ids": lists(random, random.integers(50, 300, size)),
        }
        arrays = [columns.get(field.name, pa.nulls(size, field.type)) for field in TOKEN_SEQUENCES]
        yield pa.RecordBatch.from_arrays(arrays, schema=TOKEN_SEQUENCES)


def lists(random: np.random.Generator, lengths: np.ndarray) -> pa.ListArray:
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    ids = (random.zipf(1.2, bounds[-1]) % (VOCABULARY_SIZE - 300)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(ids))


if __name__ == "__main__":
    raise SystemExit(main())
