"""A journal to read, also while another process writes it, and the records as they lie in it."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.openrouter.attempts import Attempt, JournalRecord, ended_record, with_generation
from eagle_assets.openrouter.decisions import Outcome
from eagle_assets.openrouter.journal_index import KEY, PIECE, JournalIndex
from eagle_assets.openrouter.record_file import JournalError, read_records, record_at

SETTLED: tuple[Outcome, ...] = ("answered", "refused")
SECONDS = struct.Struct("<d")
"""When a piece came, behind its key."""

Strings: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray

_PIECE_START = KEY.size + SECONDS.size


def journal_folder(home_folder: Path, dataset: str) -> Path:
    return home_folder / "journal" / f"dataset={dataset}"


def journaled_datasets(home_folder: Path) -> list[str]:
    """The datasets of which something was ever asked, by name."""
    return sorted(path.name.removeprefix("dataset=") for path in (home_folder / "journal").glob("dataset=*"))


class JournalReader:
    """A journal to read, also while another process writes it: attempts that are under way do not show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: JournalIndex | None = None

    def read(self, prompt_ids: Strings | None = None, known: Strings | None = None) -> Iterator[JournalRecord]:
        """Every attempt that has ended, one body in memory at a time: in the order in which they ended.

        With `prompt_ids`: in the order of these prompts, then of the attempts at each, so that it does not depend on
        when an answer came; attempts at other prompts come last. Exchanges with `known` ids are left out.
        """
        ended = self._index().ended.table.select(["prompt_id", "ordinal", "exchange_id"])
        numbers = np.arange(ended.num_rows)
        if known is not None:
            numbers = np.flatnonzero(~pc.is_in(ended["exchange_id"], _as_strings(known)).to_numpy())
        if prompt_ids is not None:
            wanted = ended.take(pa.array(numbers))
            place = pc.index_in(wanted["prompt_id"], _as_strings(prompt_ids))
            wanted = wanted.append_column("place", pc.fill_null(place, len(prompt_ids)))
            keys = [(name, "ascending") for name in ("place", "prompt_id", "ordinal")]
            numbers = numbers[pc.sort_indices(wanted, keys).to_numpy()]
        return self._load(numbers)

    def find(self, exchange_id: str) -> JournalRecord | None:
        """The record of one exchange, or None; the server's own name of it will do too."""
        return next(self._load(self._index().ended.named(exchange_id)[:1]), None)

    def has_ended(self, exchange_ids: Strings) -> npt.NDArray[np.bool_]:
        """Which of these exchanges have ended."""
        found: npt.NDArray[np.bool_] = pc.is_in(
            _as_strings(exchange_ids), self._index().ended.table["exchange_id"]
        ).to_numpy(zero_copy_only=False)
        return found

    def told_later(self) -> set[str]:
        """The exchanges of which `/generation` has said something."""
        said = pa.array(self._generations(), pa.large_string())
        ended = self._index().ended.table.select(["exchange_id", "generation_id"])
        told = pc.or_(*(pc.is_in(column, said) for column in ended.columns))
        return set(ended.filter(told)["exchange_id"].to_pylist())

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been asked yet."""
        return not self._index().ended and not self.under_way

    @property
    def under_way(self) -> int:
        """Attempts that have not ended: under way now, or left so by a process that was killed."""
        return len(self._index().open)

    def settled(self) -> set[tuple[str, str]]:
        """Pairs (prompt id, request key) that need not be asked again: answered, or refused for good."""
        settled = self._index().ended.with_outcomes(SETTLED)
        return set(zip(settled["prompt_id"].to_pylist(), settled["request_key"].to_pylist(), strict=True))

    def are_settled(self, prompt_ids: Strings, request_keys: Strings) -> npt.NDArray[np.bool_]:
        """Which of these requests, each of its prompt, need not be asked again."""
        settled = self._index().ended.with_outcomes(SETTLED)
        there = _pairs(settled["prompt_id"], settled["request_key"])
        asked = _pairs(_as_strings(prompt_ids), _as_strings(request_keys))
        found: npt.NDArray[np.bool_] = pc.is_in(asked, there).to_numpy(zero_copy_only=False)
        return found

    def _index(self) -> JournalIndex:
        """Where everything lies, up to the end of the file as it is now."""
        if self._known is None:
            self._known = JournalIndex.kept(self._exchanges_path)
        self._known.extend()
        return self._known

    def _load(self, numbers: npt.NDArray[np.int64]) -> Iterator[JournalRecord]:
        """The records of ended attempts, by their numbers in the index. Raises JournalError where one is damaged."""
        if not self._exchanges_path.exists():
            return
        index, generations = self._index(), self._generations()
        descriptor = os.open(self._exchanges_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for entry, places in zip(index.ended.at(numbers), index.places(numbers.tolist()), strict=True):
                attempt = attempt_at(entry.number, places, descriptor)
                ended = _document(record_at(descriptor, entry.end))
                exchange = attempt.exchange(ended["transport_error"], body_at(descriptor, attempt))
                yield with_generation(ended_record(attempt, exchange, ended), generations)
        except JournalError as error:
            raise JournalError(
                f"{self._exchanges_path}: {error}; remove exchanges.index beside it and collect again: that sets aside "
                "what cannot be read, and asks for it anew"
            ) from None
        finally:
            os.close(descriptor)

    @property
    def _exchanges_path(self) -> Path:
        return self.folder / "exchanges.records"

    @property
    def _generations_path(self) -> Path:
        return self.folder / "generations.records"

    def _generations(self) -> dict[str, dict[str, Any]]:
        return {
            row["generation_id"]: row["data"] for row in map(msgspec.json.decode, read_records(self._generations_path))
        }


def open_journal(home_folder: Path, dataset: str) -> JournalReader:
    """The journal of a dataset, to read; it is empty where nothing was collected yet."""
    return JournalReader(journal_folder(home_folder, dataset))


def _as_strings(values: Strings) -> pa.Array | pa.ChunkedArray:
    """As they stand in the index."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(pa.large_string())
    return pa.array(values, pa.large_string())


def _pairs(
    prompt_ids: pa.Array | pa.ChunkedArray, request_keys: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """Each request of its prompt as one string: its digest has no blank."""
    return pc.binary_join_element_wise(request_keys, prompt_ids, pa.scalar(" ", pa.large_string()))


def attempt_at(number: int, places: Sequence[int], descriptor: int) -> Attempt:
    """An attempt as far as its records go."""
    attempt = Attempt(number=number, **_document(record_at(descriptor, places[0])))
    attempt.began = time.monotonic() - max(0.0, time.time() - attempt.asked_at)
    for place in places[1:]:
        payload = record_at(descriptor, place)
        if payload[:1] == PIECE:
            attempt.add(payload[_PIECE_START:], SECONDS.unpack_from(payload, KEY.size)[0], place)
        else:
            document = _document(payload)
            attempt.status = document["status"]
            attempt.headers = tuple((key, value) for key, value in document["headers"])
    return attempt


def _document(payload: bytes) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(memoryview(payload)[KEY.size :])
    return document


def body_at(descriptor: int, attempt: Attempt) -> bytes:
    """What came of an answer; the pieces of a long one are read again."""
    if attempt.pieces is not None:
        return b"".join(attempt.pieces)
    return b"".join(record_at(descriptor, place)[_PIECE_START:] for place in attempt.places)
