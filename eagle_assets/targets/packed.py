"""Ids as the encoder gives them, four bytes each: a Python object for each token takes longer than to find the ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import orjson


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
        return orjson.dumps(np.frombuffer(self.packed, dtype="<u4"), option=orjson.OPT_SERIALIZE_NUMPY)

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
