"""Whether ids that are known are those that the encoder would have given for their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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


def with_canonical(rows: Iterable[dict[str, Any]], vocabulary: Vocabulary) -> Iterator[dict[str, Any]]:
    """Rows of TOKEN_SEQUENCES with `canonical`: said of `exact` ones only, as all others are taken for canonical."""
    for row in rows:
        known = row["verdict"] == "exact" and row["output_ids"] is not None
        yield {**row, "canonical": is_canonical(row["output_ids"], vocabulary) if known else None}


def _between_markers(ids: Sequence[int], vocabulary: Vocabulary) -> Iterator[list[int]]:
    span: list[int] = []
    for token in ids:
        if token < vocabulary.ordinary_size:
            span.append(token)
        elif span:
            yield span
            span = []
    if span:
        yield span
