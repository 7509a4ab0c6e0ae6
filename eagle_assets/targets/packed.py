"""Ids as the encoder gives them, four bytes each: a Python object for each token takes longer than to find the ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import overload

import numpy as np
import numpy.typing as npt

_WRITTEN = 263  # thousands of ids that are known as text: more than any vocabulary here has


def pack(ids: Iterable[int]) -> bytes:
    """Ids as little-endian `uint32`."""
    return np.fromiter(ids, dtype="<u4").tobytes()


def unpack(packed: bytes) -> list[int]:
    """The ids that `pack` packed."""
    ids: list[int] = np.frombuffer(packed, dtype="<u4").tolist()
    return ids


class PackedIds(Sequence[int]):
    """A sequence of ids that equals a list of the same, and is made one where it is asked for its members."""

    __slots__ = ("packed",)

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def tolist(self) -> list[int]:
        return unpack(self.packed)

    def written(self) -> bytes:
        """The ids as JSON."""
        texts = _ids_as_text()[np.frombuffer(self.packed, dtype="<u4")].tobytes()
        return b"[%b]" % texts.translate(None, b"\0")[1:]

    def __len__(self) -> int:
        return len(self.packed) // 4

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> list[int]: ...

    def __getitem__(self, place: int | slice) -> int | list[int]:
        return self.tolist()[place]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[np.uint32]:
        return np.array(np.frombuffer(self.packed, dtype="<u4"), dtype, copy=copy)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedIds):
            return self.packed == other.packed
        return self.tolist() == other if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(self.tolist())


@cache
def _ids_as_text() -> npt.NDArray[np.uint64]:
    """For each id a comma and its digits, as the bytes of a number, zeros behind them."""
    first = [int.from_bytes(b",%d" % i, "little") for i in range(1000)]
    last_digits = np.array([int.from_bytes(b"%03d" % i, "little") for i in range(1000)], dtype="<u8")
    rows = [np.array(first, dtype="<u8")]
    for thousands in range(1, _WRITTEN):
        before = b",%d" % thousands
        rows.append(np.uint64(int.from_bytes(before, "little")) | last_digits << np.uint64(8 * len(before)))
    return np.concatenate(rows)
