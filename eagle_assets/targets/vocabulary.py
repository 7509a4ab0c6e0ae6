"""A target model's vocabulary: text to ids and back, proved to be the official one.

The ids of a byte string are not unique; *canonical* means the ones that BPE chooses. The encoder is
splintr's, whose bundled Kimi vocabulary equals the official `tiktoken.model` byte for byte.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise, starmap
from typing import Any

import numpy as np
import numpy.typing as npt
import splintr

from eagle_assets.targets.packed import pack

# Kimi's own tokenizer (tokenization_kimi.py) cuts its input at these lengths before BPE, counted in characters.
MAX_CHARACTERS_PER_ENCODE = 400_000
MAX_RUN_OF_BLANKS_OR_NONBLANKS = 25_000

Ids = npt.NDArray[np.uint32]


class VocabularyError(Exception):
    """The vocabulary at hand is not the official one of the target model."""


class Vocabulary:
    """Ordinary tokens (byte strings) and special tokens (markers) of one target model family.

    Text is always encoded as ordinary text: text that looks like a marker never becomes one.
    """

    def __init__(self, bundled_name: str, ordinary_size: int, size: int, sha256: str) -> None:
        self.name = bundled_name
        self.ordinary_size = ordinary_size
        self.size = size
        self.sha256 = sha256
        self._tokenizer = splintr.Tokenizer.from_pretrained(bundled_name)
        # splintr adds "agent" tokens of its own above the model's ids; they are not part of the model.
        self.special: dict[str, int] = {
            text: token for text, token in self._tokenizer.special_tokens().items() if ordinary_size <= token < size
        }
        self.special_text: dict[int, str] = {token: text for text, token in self.special.items()}
        markers = self._tokenizer.special_tokens()
        self._looks_like_marker = re.compile("|".join(sorted(map(re.escape, markers), key=len, reverse=True)))
        self._marker_patterns = _found_fast(markers)

    def special_id(self, text: str) -> int:
        """Id of the special token spelled `text`; raises VocabularyError if there is none."""
        try:
            return self.special[text]
        except KeyError:
            raise VocabularyError(f"{self.name} has no special token {text!r}") from None

    def encode(self, text: str) -> list[int]:
        """Canonical ids of `text`, all ordinary, in the pieces in which Kimi's own tokenizer cuts long input."""
        if len(text) <= MAX_RUN_OF_BLANKS_OR_NONBLANKS:
            return self._tokenizer.encode_ordinary(text)
        return [i for piece in cut_like_kimi(text) for i in self._tokenizer.encode_ordinary(piece)]

    def encode_packed(self, text: str) -> bytes:
        """Canonical ids of `text` as `pack` would pack them, which is faster than to make a list of them."""
        # What encodes so turns marker-looking text into markers.
        if len(text) > MAX_RUN_OF_BLANKS_OR_NONBLANKS or self._holds_marker_text(text):
            return pack(self.encode(text))
        return self._tokenizer.encode_flat(text)

    @cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """Byte string of every ordinary id, in order of id."""
        return tuple(self._tokenizer.decode_token_bytes(i) for i in range(self.ordinary_size))

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length in bytes of every ordinary token, by id."""
        return np.fromiter(map(len, self.token_bytes), dtype=np.int64, count=self.ordinary_size)

    @cached_property
    def longest(self) -> int:
        """Length in bytes of the longest ordinary token."""
        return int(self.lengths.max())

    @cached_property
    def id_of_bytes(self) -> dict[bytes, int]:
        """Ordinary id of a byte string; each id has another one."""
        return {piece: i for i, piece in enumerate(self.token_bytes)}

    def _holds_marker_text(self, text: str) -> bool:
        return any(first in text and pattern.search(text) for first, pattern in self._marker_patterns.items())

    def without_marker_text(self, text: str) -> str:
        """The text without what looks like a marker in it."""
        return self._looks_like_marker.sub("", text)

    @cached_property
    def _marker_prefixes(self) -> frozenset[bytes]:
        texts = [text.encode() for text in self.special]
        return frozenset(text[:length] for text in texts for length in range(1, len(text)))

    @cached_property
    def marker_starts(self) -> bytes:
        """The bytes with which markers begin."""
        return bytes({text.encode()[0] for text in self.special})

    def longest_marker_prefix(self, text: bytes) -> int:
        """Length in bytes of the longest beginning of `text` that a marker begins with too."""
        if text[:1] not in self._marker_prefixes:
            return 0
        return max(length for length in range(1, len(text) + 1) if text[:length] in self._marker_prefixes)

    def bytes_of(self, token: int) -> bytes:
        """Bytes that `token` stands for; a special token stands for its text. Raises VocabularyError if unknown."""
        try:
            return self._bytes_of_id[token]
        except KeyError:
            raise VocabularyError(f"{self.name} has no token {token}") from None

    @cached_property
    def _bytes_of_id(self) -> _BytesOfId:
        found = _BytesOfId(self._tokenizer, self.ordinary_size)
        found.update({i: text.encode() for i, text in self.special_text.items()})
        return found

    def decode(self, ids: Sequence[int]) -> bytes:
        """Bytes of a sequence, special tokens as their text. Raises VocabularyError if one is unknown."""
        if ids and min(ids) >= 0 and max(ids) < self.ordinary_size:  # special tokens are nothing to splintr
            return self.decode_ordinary(ids)
        try:
            return b"".join(map(self._bytes_of_id.__getitem__, ids))
        except KeyError as missing:
            raise VocabularyError(f"{self.name} has no token {missing}") from None

    def decode_ordinary(self, ids: Sequence[int]) -> bytes:
        """Bytes of a sequence that is known to hold ordinary ids only, as the segments of a parsed output do."""
        return self._tokenizer.decode_bytes(ids)

    def texts_of(self, ids: Iterable[int], drop_incomplete: bool = False) -> tuple[str, ...]:
        """Text that each id adds to the text so far: "" where it ends inside a character, which then comes with the
        id that completes it. What never becomes a character is U+FFFD, or dropped if it stands at the end."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        texts = [decoder.decode(self.bytes_of(token)) for token in ids]
        if texts and not drop_incomplete:
            texts[-1] += decoder.decode(b"", final=True)
        return tuple(texts)

    def prove(self) -> None:
        """Raise VocabularyError unless the bundled vocabulary is the official one and its markers roundtrip."""
        lines = (base64.b64encode(b) + b" %d\n" % i for i, b in enumerate(self.token_bytes))
        digest = hashlib.sha256(b"".join(lines)).hexdigest()
        if digest != self.sha256:
            raise VocabularyError(f"{self.name}: sha256 {digest} is not the official {self.sha256}")
        for text, token in self.special.items():
            if self._tokenizer.encode_with_special(text) != [token]:
                raise VocabularyError(f"{self.name}: {text!r} does not encode to {token}")


class _BytesOfId(dict[int, bytes]):
    """Byte strings of ids, looked up when they are first asked for: most processes meet few of them."""

    def __init__(self, tokenizer: Any, ordinary_size: int) -> None:
        self._decoded, self._size = tokenizer.decode_token_bytes, ordinary_size

    def __missing__(self, token: int) -> bytes:
        if not 0 <= token < self._size:
            raise KeyError(token)
        found: bytes = self._decoded(token)
        self[token] = found
        return found


def _found_fast(texts: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """Patterns of which one is found where any of these texts is, by the character with which each begins. It tells the
    texts apart by the second before it tries any of them."""
    rests: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for text in texts:
        rests[text[:1]][text[1:2]].append(text[2:])
    return {
        first: re.compile(f"{re.escape(first)}(?:{'|'.join(starmap(_continued, seconds.items()))})")
        for first, seconds in rests.items()
    }


def _continued(second: str, rests: Sequence[str]) -> str:
    return f"{re.escape(second)}(?:{'|'.join(map(re.escape, rests))})"


def cut_like_kimi(text: str) -> Iterator[str]:
    """Pieces that Kimi's own tokenizer encodes one by one: at 400,000 characters and in runs of 25,000
    characters that are all blank or all non-blank (`tokenization_kimi.py`, TikTokenTokenizer.encode)."""
    for start in range(0, len(text), MAX_CHARACTERS_PER_ENCODE):
        yield from _cut_long_runs(text[start : start + MAX_CHARACTERS_PER_ENCODE])


@cache
def _runs_longer_than(limit: int) -> re.Pattern[str]:
    """Runs of more than `limit` blanks or non-blanks; a search begins only where a run does, so none takes long."""
    # `\s` is what str.isspace says of one character, which is what Kimi's tokenizer asks.
    return re.compile(rf"(?<!\s)\s{{{limit + 1},}}|(?<!\S)\S{{{limit + 1},}}")


def _cut_long_runs(text: str) -> Iterator[str]:
    limit = MAX_RUN_OF_BLANKS_OR_NONBLANKS
    cuts = [
        cut for run in _runs_longer_than(limit).finditer(text) for cut in range(run.start() + limit, run.end(), limit)
    ]
    for start, end in pairwise([0, *cuts, len(text)]):
        yield text[start:end]


@cache
def kimi_vocabulary() -> Vocabulary:
    """The vocabulary that Kimi K2 and K2.5 share (FACTS: 163,584 ordinary ids, 256 places for markers)."""
    return Vocabulary(
        bundled_name="kimi_k2",
        ordinary_size=163_584,
        size=163_840,
        sha256="b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103",
    )
