"""Shards file by file, each made from one file of sequences: what would come out the same stays as it is.

What a file of sequences comes to is kept beside it, so that one that did not change is not read again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eagle_assets.durability import write_atomically
from eagle_assets.lake.audit import Check, Published
from eagle_assets.lake.code import digest_of_code
from eagle_assets.lake.kept import Part, forget_others, parts_of
from eagle_assets.lake.schemas import TRAINING_SHARDS
from eagle_assets.lake.version import ROWS_PER_BATCH, NewVersion
from eagle_assets.training.ragged import Ragged
from eagle_assets.training.shard_checks import Batches, ShardsFound
from eagle_assets.training.shards import SEQUENCE_COLUMNS, is_trusted, shard_batches

_CODE = ("training/shards.py", "training/shard_checks.py", "training/shard_parts.py", "training/ragged.py")
_IDS, _STRINGS = ("prompt_ids", "output_ids"), ("exchange_id", "provider", "verdict")
_LEFT_OUT = "left_out_"
_KEPT = "shards"


@dataclass(frozen=True, slots=True)
class Shards:
    """The checks of a version, what it counts (tokens, and rows that were left out by reason), and the tokens of each
    row, prompt and output."""

    checks: list[Check]
    counts: dict[str, float]
    row_tokens: list[int]


class _ComesTo(msgspec.Struct, frozen=True):
    """What a file of sequences comes to: the recipe of its shards, and the tokens of each of their rows."""

    recipe: str
    row_tokens: list[int]


def write_shards(version: NewVersion, sequences: Published, dataset: str, vocabulary_size: int) -> Shards:
    """Make the shards of every file of sequences that changed in what shards are made of, and keep the others."""
    found, left_out = ShardsFound(), Counter[str]()
    row_tokens, new = list[int](), dict[Path, _ComesTo]()
    parts = parts_of(sequences, _KEPT, digest_of_code(_CODE))
    for part in parts:
        name, of_part, known = part.file.written_as, _reader(part.path), _known(part)
        recipe = _recipe(of_part(SEQUENCE_COLUMNS), name, dataset) if known is None else known.recipe
        kept = version.keep_made_from(recipe)
        if kept is None:
            counts = _write_part(version, found, name, of_part, dataset, vocabulary_size)
            version.tell(name, recipe, counts)
        else:
            counts = kept.counts
            found.add_good(counts)
        if known is None:
            known = new[part.kept] = _ComesTo(recipe, _row_tokens(version.batches(name, ["input_ids"])))
        row_tokens += known.row_tokens
        left_out.update({name: int(count) for name, count in counts.items() if name.startswith(_LEFT_OUT)})
    checks = found.checks()
    if all(check.passed for check in checks):
        for path, known in new.items():
            write_atomically(path, msgspec.json.encode(known))
        forget_others(version.home, _KEPT, dataset, parts)
    counts = {"tokens": found.tokens, "generated_tokens": found.generated_tokens}
    return Shards(checks, {**counts, **left_out}, row_tokens)


def _known(part: Part) -> _ComesTo | None:
    try:
        return msgspec.json.decode(part.kept.read_bytes(), type=_ComesTo)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _row_tokens(shards: Iterable[pa.RecordBatch]) -> list[int]:
    return [tokens for batch in shards for tokens in pc.list_value_length(batch["input_ids"]).to_pylist()]


def _write_part(
    version: NewVersion, found: ShardsFound, name: str, sequences: Batches, dataset: str, vocabulary_size: int
) -> dict[str, float]:
    left_out: Counter[str] = Counter()
    rows = shard_batches(sequences(SEQUENCE_COLUMNS), dataset, vocabulary_size, left_out)
    version.write_batches(name, TRAINING_SHARDS, rows)
    before = found.counts
    found.compare(lambda columns: version.batches(name, columns), sequences, vocabulary_size)
    added = {counted: number - before[counted] for counted, number in found.counts.items()}
    return {**added, **{f"{_LEFT_OUT}{reason}": count for reason, count in left_out.items()}}


def _reader(path: Path) -> Batches:
    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path, pre_buffer=False) as file:  # as in lake/audit.py
            yield from file.iter_batches(batch_size=ROWS_PER_BATCH, columns=list(columns))

    return batches


def _recipe(sequences: Iterable[pa.RecordBatch], name: str, dataset: str) -> str:
    """A digest of all that becomes of the rows in the shards: of those that are not trusted, how many there are."""
    digests = {part: hashlib.sha256() for part in ("verdicts", "rows", *_IDS, *(f"{ids} lengths" for ids in _IDS))}
    for batch in sequences:
        digests["verdicts"].update("".join(f"{verdict}\n" for verdict in batch["verdict"].to_pylist()).encode())
        trusted = batch.filter(pa.array(is_trusted(batch["verdict"])))
        rows = zip(*(trusted[column].to_pylist() for column in _STRINGS), strict=True)
        digests["rows"].update("".join(f"{row}\n" for row in rows).encode())
        for ids in _IDS:
            ragged = Ragged.from_arrow(trusted[ids])
            digests[ids].update(ragged.values.astype(np.int32, copy=False).tobytes())
            digests[f"{ids} lengths"].update(ragged.lengths.tobytes())
    made_from = (name, dataset, digest_of_code(_CODE), [digest.hexdigest() for digest in digests.values()])
    return hashlib.sha256(repr(made_from).encode()).hexdigest()
