"""Canonical ids of the texts of many outputs, each text encoded once for the whole batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from eagle_assets.serving.output import Ids, Output, join_output
from eagle_assets.targets.target import Markers
from eagle_assets.targets.vocabulary import Vocabulary


class EncodedTexts:
    """Texts of a batch with their canonical ids. The empty text is in every batch.

    Raises KeyError for a text that is not in the batch.
    """

    def __init__(self, vocabulary: Vocabulary, texts: Iterable[str]) -> None:
        self._row = {text: i for i, text in enumerate(dict.fromkeys(("", *texts)))}
        self._batch = vocabulary.encode_batch([encodable(text) for text in self._row])
        self._lengths = np.diff(self._batch.offsets).tolist()

    def count(self, text: str) -> int:
        """Number of tokens."""
        return self._lengths[self._row[text]]

    def ids(self, text: str) -> Ids:
        return tuple(self._batch.row(self._row[text]).tolist())

    def length(self, output: Output[str]) -> int:
        """Number of ids of an output."""
        return output.count_of_markers() + sum(map(self.count, output.segments()))

    def output_ids(self, output: Output[str], markers: Markers) -> list[int]:
        return join_output(output.over(self.ids), markers)


def encodable(text: str) -> str:
    """The text with U+FFFD for half surrogate pairs, which have no bytes and so no tokens."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode() if has_surrogate(text) else text


def has_surrogate(text: str) -> bool:
    """Whether half a surrogate pair stands in the text (JSON can hold one, no tokenizer can make one)."""
    return any("\ud800" <= character <= "\udfff" for character in text)
