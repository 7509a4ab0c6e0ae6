"""Independent encoders that the vocabulary's own is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from eagle_assets.targets.findings import shown, shown_ids
from eagle_assets.targets.packed import unpack
from eagle_assets.targets.vocabulary import Vocabulary, cut_like_kimi

Encode = Callable[[str], list[int]]

# How Kimi's tokenizer splits a text into words before BPE (pat_str of its published tokenization_kimi.py).
SPLIT_PATTERN = "|".join(
    (
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an encoder compares with the vocabulary's own; `first_difference` is a sentence, or None."""

    encoder: str
    texts: int
    characters: int
    tokens: int
    differences: int
    first_difference: str | None


@cache
def uncut_tiktoken_encoder(vocabulary: Vocabulary) -> Encode:
    """tiktoken over the same byte strings, with Kimi's split pattern; long input is not cut."""
    import tiktoken

    return tiktoken.Encoding(
        vocabulary.name, pat_str=SPLIT_PATTERN, mergeable_ranks=vocabulary.id_of_bytes, special_tokens={}
    ).encode_ordinary


@cache
def tiktoken_encoder(vocabulary: Vocabulary) -> Encode:
    """The same, with Kimi's cuts of long input."""
    encode = uncut_tiktoken_encoder(vocabulary)
    return lambda text: [token for piece in cut_like_kimi(text) for token in encode(piece)]


def packing_encoder(vocabulary: Vocabulary) -> Encode:
    """The vocabulary's own that gives packed ids: what responses are encoded with, as it makes no lists of them."""
    return lambda text: unpack(vocabulary.encode_packed(text))


def compare(name: str, encode: Encode, vocabulary: Vocabulary, texts: Iterable[str]) -> Agreement:
    """Ids of each text under `encode` against `vocabulary.encode`."""
    count = characters = tokens = differences = 0
    first = None
    for text in texts:
        ours, theirs = vocabulary.encode(text), list(encode(text))
        count, characters, tokens = count + 1, characters + len(text), tokens + len(ours)
        if ours != theirs:
            differences += 1
            first = first or f"{shown(text)} is {shown_ids(ours)} here and {shown_ids(theirs)} in {name}"
    return Agreement(name, count, characters, tokens, differences, first)
