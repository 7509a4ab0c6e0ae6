"""Checks of shard rows as they were written, against the token sequences that they came from.

They do not repeat how the rows were made: they look the sequence of each row up and compare what lies where. Both
sides are read as streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.lake.audit import Check
from eagle_assets.training.ragged import Ragged, Rows
from eagle_assets.training.shards import is_trusted, rows_outside_vocabulary

WORST = 5
SHARD_COLUMNS = ["exchange_id", "verdict", "input_ids", "loss_mask"]
SEQUENCE_COLUMNS = ["exchange_id", "verdict", "prompt_ids", "output_ids"]

COUNTED = ("rows", "trusted_sequences", "tokens", "generated_tokens")

Batches = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]  # reads these columns of all rows, from the start


def check_shards(shards: Batches, sequences: Batches, vocabulary_size: int) -> list[Check]:
    """`shards_hold_only_trusted_ids` and `masks_cover_generated_tokens`.

    `sequences` are all of the dataset, trusted or not, in the order that the shards keep.
    """
    found = ShardsFound()
    found.compare(shards, sequences, vocabulary_size)
    return found.checks()


def _places(found: ShardsFound, shards: Batches, sequences: Batches) -> npt.NDArray[np.int64]:
    """Where in the dataset the sequence of each shard row is, −1 where it has none. Shape (shard rows,)."""
    places = _places_in_order(shards, sequences)
    if places is None:
        places = _places_in_disorder(found, shards, sequences)
    found.rows += places.size
    return places


def _places_in_order(shards: Batches, sequences: Batches) -> npt.NDArray[np.int64] | None:
    """None where the rows are not a part of the sequences, each once and in their order."""
    rows = (batch["exchange_id"] for batch in shards(["exchange_id"]))
    ahead, first, places = next(rows, None), 0, [np.zeros(0, np.int64)]
    for batch in sequences(["exchange_id"]):
        while ahead is not None:
            place = pc.fill_null(pc.index_in(ahead, value_set=batch["exchange_id"]), -1).to_numpy()
            here = int(np.argmin(place >= 0)) if (place < 0).any() else place.size
            places.append(first + place[:here].astype(np.int64))
            ahead = ahead.slice(here) if here < place.size else next(rows, None)
            if here < place.size:
                break
        first += batch.num_rows
    in_order = np.concatenate(places)
    return in_order if ahead is None and (np.diff(in_order) > 0).all() else None


def _places_in_disorder(found: ShardsFound, shards: Batches, sequences: Batches) -> npt.NDArray[np.int64]:
    """The same for any rows, with all ids in memory: to say what is wrong with them."""
    named, known = (
        pa.chunked_array([batch["exchange_id"] for batch in stream(["exchange_id"])], pa.string())
        for stream in (shards, sequences)
    )
    found.faults["rows_repeated"] += len(named) - pc.count_distinct(named).as_py()
    places = pc.fill_null(pc.index_in(named, value_set=known.combine_chunks()), -1).to_numpy().astype(np.int64)
    before = np.maximum.accumulate(np.concatenate([[-1], places]))[:-1]
    found.faults["rows_out_of_order"] += int(np.count_nonzero((places >= 0) & (places < before)))
    return places


class _Stream:
    """Batches, taken in other portions than they come in."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.Table | None = None

    def take(self, rows: int) -> pa.Table | None:
        """The next rows; None for none."""
        parts = [self._left] if self._left is not None else []
        there = sum(part.num_rows for part in parts)
        while there < rows:
            parts.append(pa.Table.from_batches([next(self._batches)]))
            there += parts[-1].num_rows
        if not rows:
            return None
        table = pa.concat_tables(parts)
        self._left = table.slice(rows)
        return table.slice(0, rows)


@dataclass
class ShardsFound:
    """What is found where shards are held against the sequences that they came from, file by file."""

    rows: int = 0
    trusted_sequences: int = 0
    tokens: int = 0
    generated_tokens: int = 0
    wrong_masks: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    worst_ids: list[str] = field(default_factory=list)
    worst_masks: list[str] = field(default_factory=list)

    def compare(self, shards: Batches, sequences: Batches, vocabulary_size: int) -> None:
        """Hold the rows of a file against its sequences, in their order."""
        places = _places(self, shards, sequences)
        reached = np.maximum.accumulate(np.maximum(places, 0))
        rows = _Stream(shards(SHARD_COLUMNS))
        first = taken = 0
        for batch in sequences(SEQUENCE_COLUMNS):
            beyond = int(np.searchsorted(reached, first + batch.num_rows))
            _compare(self, rows.take(beyond - taken), places[taken:beyond] - first, batch, vocabulary_size)
            first, taken = first + batch.num_rows, beyond
        self.add_rows_without_sequence(rows.take(places.size - taken))

    def checks(self) -> list[Check]:
        """The two checks of the stage."""
        return [self.only_trusted_ids(), self.masks_cover()]

    @property
    def counts(self) -> dict[str, float]:
        """What is counted in files without a fault."""
        return {name: getattr(self, name) for name in COUNTED}

    def add(self, other: ShardsFound) -> None:
        """Take what was found in another file."""
        self.add_good(other.counts)
        self.wrong_masks += other.wrong_masks
        self.faults.update(other.faults)
        self.worst_ids += other.worst_ids
        self.worst_masks += other.worst_masks

    def add_good(self, counts: Mapping[str, float]) -> None:
        """Take the counts of a file in which no fault was found before."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + int(counts[name]))

    def add_rows_without_sequence(self, rows: pa.Table | None) -> None:
        if rows is not None:
            self.faults["rows_without_trusted_sequence"] += rows.num_rows
            self.wrong_masks += rows.num_rows
            self.worst_masks += rows["exchange_id"].slice(0, WORST).to_pylist()

    def only_trusted_ids(self) -> Check:
        """Whether each row stands for a trusted sequence, once and in order, and holds its ids one by one."""
        named = ("without_trusted_sequence", "repeated", "out_of_order", "with_other_ids", "outside_vocabulary")
        faults = {f"rows_{name}": self.faults[f"rows_{name}"] for name in named}
        found = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in faults.items() if count)
        return Check(
            name="shards_hold_only_trusted_ids",
            passed=not found,
            sentence=f"of {self.rows} rows: {found}"
            if found
            else f"{self.rows} rows stand for as many of {self.trusted_sequences} trusted sequences, id for id",
            numbers={"rows": self.rows, "trusted_sequences": self.trusted_sequences, **faults},
            worst=_named(self.worst_ids),
        )

    def masks_cover(self) -> Check:
        """Whether each mask is as long as its ids, 0 over the whole prompt and 1 over every generated token."""
        return Check(
            name="masks_cover_generated_tokens",
            passed=not self.wrong_masks,
            sentence=f"{self.wrong_masks} of {self.rows} masks do not cover exactly what was generated"
            if self.wrong_masks
            else f"{self.generated_tokens} generated tokens of {self.tokens} are under the masks of {self.rows} rows",
            numbers={
                "rows": self.rows,
                "rows_with_wrong_mask": self.wrong_masks,
                "tokens": self.tokens,
                "generated_tokens": self.generated_tokens,
            },
            worst=_named(self.worst_masks),
        )


def _compare(
    found: ShardsFound,
    rows: pa.Table | None,
    places: npt.NDArray[np.int64],
    sequences: pa.RecordBatch,
    vocabulary_size: int,
) -> None:
    """Hold shard rows against the sequences at `places` of the batch; a negative place is none of it."""
    found.trusted_sequences += int(np.count_nonzero(is_trusted(sequences["verdict"])))
    if rows is None:
        return
    if (places < 0).any():
        found.add_rows_without_sequence(rows.filter(pa.array(places < 0)))
        rows, places = rows.filter(pa.array(places >= 0)), places[places >= 0]
    matched = _Matched.of(rows, sequences, places)
    other_ids = matched.trusted & ~(matched.same_ids & matched.same_verdict)
    wrong_masks = matched.wrong_masks
    outside = rows_outside_vocabulary(matched.input_ids, vocabulary_size)
    found.faults["rows_without_trusted_sequence"] += int(np.count_nonzero(~matched.trusted))
    found.faults["rows_with_other_ids"] += int(np.count_nonzero(other_ids))
    found.faults["rows_outside_vocabulary"] += int(np.count_nonzero(outside))
    found.wrong_masks += int(np.count_nonzero(wrong_masks))
    found.worst_ids += rows["exchange_id"].filter(pa.array(other_ids)).slice(0, WORST).to_pylist()
    found.worst_masks += rows["exchange_id"].filter(pa.array(wrong_masks)).slice(0, WORST).to_pylist()
    found.tokens += matched.input_ids.values.size
    found.generated_tokens += int(np.count_nonzero(matched.loss_mask.values == 1))


@dataclass(frozen=True)
class _Matched:
    """Shard rows side by side with their sequences."""

    input_ids: Ragged
    loss_mask: Ragged
    prompts: list[npt.NDArray[np.int32]]
    outputs: list[npt.NDArray[np.int32]]
    same_verdict: Rows
    trusted: Rows

    @classmethod
    def of(cls, rows: pa.Table, sequences: pa.RecordBatch, places: npt.NDArray[np.int64]) -> _Matched:
        prompts, outputs = (Ragged.from_arrow(sequences[name]).rows() for name in ("prompt_ids", "output_ids"))
        verdicts = sequences["verdict"].take(pa.array(places))
        return cls(
            input_ids=Ragged.from_arrow(rows["input_ids"]),
            loss_mask=Ragged.from_arrow(rows["loss_mask"]),
            prompts=[prompts[place] for place in places.tolist()],
            outputs=[outputs[place] for place in places.tolist()],
            same_verdict=np.asarray(pc.equal(rows["verdict"], verdicts), dtype=np.bool_),
            trusted=is_trusted(verdicts),
        )

    @property
    def same_ids(self) -> Rows:
        rows = zip(self.input_ids.rows(), self.prompts, self.outputs, strict=True)
        return _where(ids.tobytes() == prompt.tobytes() + output.tobytes() for ids, prompt, output in rows)

    @property
    def wrong_masks(self) -> Rows:
        rows = zip(self.loss_mask.rows(), self.prompts, self.outputs, strict=True)
        return _where(mask.tobytes() != b"\0" * prompt.size + b"\1" * output.size for mask, prompt, output in rows)


def _where(said: Iterable[bool]) -> Rows:
    return np.fromiter(said, dtype=np.bool_)


def _named(exchange_ids: Sequence[str]) -> tuple[dict[str, str], ...]:
    return tuple({"exchange_id": exchange_id} for exchange_id in exchange_ids[:WORST])
