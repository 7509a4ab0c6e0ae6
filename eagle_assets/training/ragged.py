"""Columns of lists as flat numpy buffers: the ids of many rows end to end, with where each row begins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.bool_]
Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Row r is `values[offsets[r]:offsets[r + 1]]`; a null list is a row without values. Views where Arrow allows."""

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def from_arrow(cls, column: pa.Array | pa.ChunkedArray) -> Ragged:
        """`column` is a list column of integers without nulls among them."""
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        return cls(pc.list_flatten(column).to_numpy(), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

    @cached_property
    def lengths(self) -> Lengths:
        """Shape (rows,)."""
        return np.diff(self.offsets)

    def rows(self) -> list[npt.NDArray[Any]]:
        """The values of each row: views, by which Arrow's much slower selection of lists is not needed."""
        return [self.values[begin:end] for begin, end in pairwise(self.offsets.tolist())]

    def rows_with(self, marked: npt.NDArray[np.bool_]) -> Rows:
        """Which rows hold at least one marked value; `marked` has the shape of `values`. Shape (rows,)."""
        before = np.searchsorted(np.flatnonzero(marked), self.offsets)
        return np.diff(before) > 0
