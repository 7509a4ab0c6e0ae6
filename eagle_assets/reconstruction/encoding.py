"""Canonical ids of the texts of some responses, each text encoded once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from eagle_assets.serving.output import Ids, Output
from eagle_assets.targets.packed import unpack
from eagle_assets.targets.vocabulary import Vocabulary

_SURROGATE = re.compile("[\ud800-\udfff]")


class EncodedTexts:
    """Canonical ids of the texts of some responses, each encoded when it is first asked for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._packed: dict[str, bytes] = {"": b""}

    def count(self, text: str) -> int:
        """Number of tokens."""
        return len(self.packed(text)) // 4

    def ids(self, text: str) -> Ids:
        return tuple(unpack(self.packed(text)))

    def encode(self, texts: Iterable[str]) -> None:
        """Encode texts that will be asked for: at once, as that is faster."""
        for text in texts:
            self.packed(text)

    def packed(self, text: str) -> bytes:
        ids = self._packed.get(text)
        if ids is None:
            try:
                ids = self._vocabulary.encode_packed(text)
            except UnicodeEncodeError:
                ids = self._vocabulary.encode_packed(encodable(text))
            self._packed[text] = ids
        return ids

    def length(self, output: Output[str]) -> int:
        """Number of ids of an output."""
        return output.count_of_markers() + sum(map(self.count, output.segments()))


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
