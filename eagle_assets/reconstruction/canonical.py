"""Whether ids that are known are those that the encoder would have given for their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from eagle_assets.targets.vocabulary import Vocabulary


def is_canonical(ids: Sequence[int], vocabulary: Vocabulary) -> bool | None:
    """Whether each text between markers is encoded as the encoder does; None where the ids end inside a character."""
    for span in _between_markers(ids, vocabulary):
        try:
            text = vocabulary.decode(span).decode()
        except UnicodeDecodeError:
            return None
        if vocabulary.encode(text) != span:
            return False
    return True


def with_canonical(row: dict[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    """A row of TOKEN_SEQUENCES with `canonical`: said of `exact` ones only, as all others are taken for canonical."""
    known = row["verdict"] == "exact" and row["output_ids"] is not None
    return {**row, "canonical": is_canonical(row["output_ids"], vocabulary) if known else None}


def _between_markers(ids: Sequence[int], vocabulary: Vocabulary) -> Iterator[list[int]]:
    array, start = np.asarray(ids), 0
    rest = array.tolist()
    for marker in [*np.flatnonzero(array >= vocabulary.ordinary_size).tolist(), len(rest)]:
        if start < marker:
            yield rest[start:marker]
        start = marker + 1
