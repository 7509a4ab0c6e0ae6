"""Where the attempts of a journal lie. What was found once is kept beside it, and the journal read from there on only.

`exchanges.index` is of the first bytes of `exchanges.records`. It is believed where each of its own bytes is as it was
written and that part of the journal still ends with the same record; else the whole journal is read. It may go at any
time. `exchanges.places` holds the places of the records of all attempts that ended in that part, eight bytes each.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.durability import write_atomically
from eagle_assets.openrouter.decisions import Outcome
from eagle_assets.openrouter.record_file import JournalError, placed_records, record_at

ASKED, BEGAN, PIECE, ENDED = b"A", b"B", b"P", b"E"
KEY = struct.Struct("<cQ")
_CHECKSUM = struct.Struct("<I")
_PLACE_BYTES = 8
_WORTH_KEEPING = 16  # once the journal is longer by a 16th: writing the index costs little then, however often it grows


class OpenAttempt(msgspec.Struct):
    """An attempt that has not ended, and where its records lie so far."""

    prompt_id: str
    request_key: str
    ordinal: int
    places: list[int]


class EndedAttempt(NamedTuple):
    """An attempt that has ended, with a record at `end`. Its name, and the server's for it, where it gave one."""

    number: int
    prompt_id: str
    request_key: str
    ordinal: int
    end: int
    exchange_id: str
    generation_id: str | None
    outcome: Outcome


_ENDED = pa.schema(
    [
        ("number", pa.int64()),
        ("prompt_id", pa.large_string()),
        ("request_key", pa.large_string()),
        ("ordinal", pa.int64()),
        ("end", pa.int64()),
        ("exchange_id", pa.large_string()),
        ("generation_id", pa.large_string()),
        ("outcome", pa.string()),
    ]
)
_TOGETHER = 4_096


class EndedAttempts:
    """Attempts in the order in which they ended, as a table: of a dataset they are too many for an object each."""

    def __init__(self, table: pa.Table | None = None) -> None:
        self._table = _ENDED.empty_table() if table is None else table
        self._new: list[EndedAttempt] = []

    def __len__(self) -> int:
        return int(self._table.num_rows) + len(self._new)

    def append(self, attempt: EndedAttempt) -> None:
        self._new.append(attempt)
        if len(self._new) == _TOGETHER:
            self._put_together()

    @property
    def table(self) -> pa.Table:
        """A row for each, with the fields of EndedAttempt."""
        self._put_together()
        return self._table

    def rows(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """These columns of all, row by row."""
        for batch in self.table.select(list(columns)).to_batches(_TOGETHER):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def at(self, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Iterator[EndedAttempt]:
        """Those at these places, in this order."""
        table = self.table
        for first in range(0, len(numbers), _TOGETHER):
            taken = table.take(pa.array(numbers[first : first + _TOGETHER], pa.int64()))
            yield from map(EndedAttempt._make, zip(*(column.to_pylist() for column in taken.columns), strict=True))

    def named(self, name: str) -> npt.NDArray[np.int64]:
        """The places of those that are called so, by us or by the server."""
        table = self.table
        same = pc.or_(pc.equal(table["exchange_id"], name), pc.fill_null(pc.equal(table["generation_id"], name), False))
        return np.flatnonzero(same.to_numpy())

    def with_outcomes(self, outcomes: Sequence[Outcome]) -> pa.Table:
        """Those that ended so."""
        return self.table.filter(pc.is_in(self.table["outcome"], pa.array(outcomes)))

    def _put_together(self) -> None:
        if self._new:
            columns = zip(*self._new, strict=True)
            made = [pa.array(values, field.type) for values, field in zip(columns, _ENDED, strict=True)]
            self._table = pa.concat_tables([self._table, pa.Table.from_arrays(made, schema=_ENDED)])
            self._new = []


class _Asked(msgspec.Struct):
    prompt_id: str
    request_key: str
    ordinal: int


class _Ended(msgspec.Struct):
    exchange_id: str
    generation_id: str | None
    outcome: Outcome


class _Kept(msgspec.Struct):
    """What lies in `exchanges.index`; the record at `last` has this checksum."""

    covers: int
    last: int
    checksum: int
    highest: int
    ended: memoryview  # Arrow's stream format
    bounds: memoryview
    open: dict[int, OpenAttempt]


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_ended = msgspec.json.Decoder(_Ended).decode


@dataclass(slots=True)
class JournalIndex:
    """The attempts of a journal: those that have ended, in that order, and those still open, by their numbers.

    `covers` is where the last record ends that was looked at, which begins at `last`; `highest` is the highest number.
    """

    path: Path
    covers: int = 0
    last: int = 0
    highest: int = -1
    ended: EndedAttempts = field(default_factory=EndedAttempts)
    open: dict[int, OpenAttempt] = field(default_factory=dict)
    # The places of the attempt ended[i] go from the bounds[i]-th to the bounds[i + 1]-th; those before the
    # `_in_file`-th lie in the file of places.
    _bounds: array[int] = field(default_factory=lambda: array("Q", [0]))
    _places: array[int] = field(default_factory=lambda: array("Q"))
    _in_file: int = 0
    _kept: int = 0

    @classmethod
    def kept(cls, path: Path) -> JournalIndex:
        """What is kept of the journal at `path`, as far as it can be believed."""
        try:
            data = memoryview(path.with_suffix(".index").read_bytes())
            if zlib.crc32(data[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(data)[0]:
                return cls(path)
            kept = msgspec.msgpack.decode(data[_CHECKSUM.size :], type=_Kept)
            ended = EndedAttempts(pa.ipc.open_stream(pa.py_buffer(kept.ended)).read_all().cast(_ENDED))
            bounds = array("Q", bytes(kept.bounds))
            with path.open("rb") as file:
                last = record_at(file.fileno(), kept.last)
            has_places = path.with_suffix(".places").stat().st_size >= bounds[-1] * _PLACE_BYTES
        except (OSError, struct.error, msgspec.DecodeError, pa.ArrowException, JournalError):
            return cls(path)
        if kept.last + len(last) != kept.covers or zlib.crc32(last) != kept.checksum or not has_places:
            return cls(path)
        of_kept = (kept.covers, kept.last, kept.highest, ended, kept.open, bounds)
        return cls(path, *of_kept, _in_file=bounds[-1], _kept=kept.covers)

    def extend(self) -> None:
        """Look at what the journal holds beyond, up to its end or its first record that is not whole."""
        for place, payload in placed_records(self.path, self.covers):
            kind, number = KEY.unpack_from(payload)
            document = memoryview(payload)[KEY.size :]
            if kind == ASKED:
                asked = _decode_asked(document)
                self.open[number] = OpenAttempt(asked.prompt_id, asked.request_key, asked.ordinal, [place])
                self.highest = max(self.highest, number)
            elif kind == ENDED:
                self._end(number, place, _decode_ended(document))
            else:
                self.open[number].places.append(place)
            self.covers, self.last = place + len(payload), place

    def attempts(self, prompt_id: str, request_key: str) -> int:
        """How many attempts at a request have ended."""
        table = self.ended.table
        of_prompt, of_request = pc.equal(table["prompt_id"], prompt_id), pc.equal(table["request_key"], request_key)
        return int(pc.sum(pc.and_(of_prompt, of_request), min_count=0).as_py())

    def places(self, numbers_of_ended: Iterable[int]) -> Iterator[array[int]]:
        """Where the records of ended attempts lie, all but those of their ends."""
        with ExitStack() as stack:
            file: BinaryIO | None = None
            if self._in_file:
                file = stack.enter_context(self.path.with_suffix(".places").open("rb"))
            for number in numbers_of_ended:
                begin, end = self._bounds[number], self._bounds[number + 1]
                if file is not None and begin < self._in_file:
                    size = (end - begin) * _PLACE_BYTES
                    yield array("Q", os.pread(file.fileno(), size, begin * _PLACE_BYTES))
                else:
                    yield self._places[begin - self._in_file : end - self._in_file]

    def keep(self) -> None:
        """Keep it, if much has come. For who has the journal to write; what is killed meanwhile leaves what was kept
        before."""
        if self.covers - self._kept <= self._kept // _WORTH_KEEPING:
            return
        # Nothing is cut off, so that who reads the places of an older index meets no gap.
        descriptor = os.open(self.path.with_suffix(".places"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.seek(self._in_file * _PLACE_BYTES)
            self._places.tofile(file)
            file.flush()
            os.fsync(file.fileno())
        with self.path.open("rb") as file:
            checksum = zlib.crc32(record_at(file.fileno(), self.last))
        ended, bounds = memoryview(_as_stream(self.ended.table)), memoryview(self._bounds).cast("B")
        kept = _Kept(self.covers, self.last, checksum, self.highest, ended, bounds, self.open)
        data = msgspec.msgpack.encode(kept)
        write_atomically(self.path.with_suffix(".index"), _CHECKSUM.pack(zlib.crc32(data)) + data)

    def _end(self, number: int, place: int, ended: _Ended) -> None:
        attempt = self.open.pop(number)
        asked = (attempt.prompt_id, attempt.request_key, attempt.ordinal)
        self.ended.append(EndedAttempt(number, *asked, place, ended.exchange_id, ended.generation_id, ended.outcome))
        self._places.extend(attempt.places)
        self._bounds.append(self._bounds[-1] + len(attempt.places))


def _as_stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()
