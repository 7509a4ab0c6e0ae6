"""The requests that answers are wanted to: their names are in memory, what they say is read as they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]


class WantedRequest(NamedTuple):
    """A request, and the tokens of its prompt."""

    prompt_id: str
    request_key: str
    request: dict[str, Any]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requests of a dataset in order, by the names of their prompts and by their keys. `read` gives those at some
    places, which ascend, one after the other."""

    prompt_ids: pa.ChunkedArray
    request_keys: pa.ChunkedArray
    read: Callable[[Places], Iterator[WantedRequest]]

    def __len__(self) -> int:
        return len(self.prompt_ids)
