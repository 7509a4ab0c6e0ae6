"""Canonical ids of the texts of many outputs, each text encoded once for the whole batch."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from eagle_assets.serving.output import Ids, Output, join_output
from eagle_assets.targets.target import Markers
from eagle_assets.targets.vocabulary import Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")


class EncodedTexts:
    """Texts of a batch with their canonical ids; a text that is not in the batch is encoded when it is asked for."""

    def __init__(self, vocabulary: Vocabulary, texts: Iterable[str]) -> None:
        self._vocabulary = vocabulary
        self._row = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        self._batch = vocabulary.encode_batch([encodable(text) for text in self._row])
        self._lengths = np.diff(self._batch.offsets).tolist()
        self._late: dict[str, Ids] = {"": ()}

    def count(self, text: str) -> int:
        """Number of tokens."""
        row = self._row.get(text)
        return len(self._encoded_late(text)) if row is None else self._lengths[row]

    def ids(self, text: str) -> Ids:
        row = self._row.get(text)
        return self._encoded_late(text) if row is None else tuple(self._batch.row(row).tolist())

    def _encoded_late(self, text: str) -> Ids:
        ids = self._late.get(text)
        if ids is None:
            ids = self._late[text] = tuple(self._vocabulary.encode(encodable(text)))
        return ids

    def length(self, output: Output[str]) -> int:
        """Number of ids of an output."""
        return output.count_of_markers() + sum(map(self.count, output.segments()))

    def output_ids(self, output: Output[str], markers: Markers) -> list[int]:
        return join_output(output.over(self.ids), markers)


def encodable(text: str) -> str:
    """The text with U+FFFD for half surrogate pairs, which have no bytes and so no tokens."""
    return _SURROGATE.sub("\ufffd", text) if has_surrogate(text) else text


def has_surrogate(text: str) -> bool:
    """Whether half a surrogate pair stands in the text (JSON can hold one, no tokenizer can make one)."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
