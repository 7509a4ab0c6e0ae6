"""The vocabulary: golden ids, proof, inverses, and long input cut as Kimi's own tokenizer cuts it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.targets import vocabulary as vocabulary_module
from eagle_assets.targets.packed import PackedIds, pack, unpack
from eagle_assets.targets.vocabulary import Vocabulary, VocabularyError, cut_like_kimi, kimi_vocabulary

KIMI = kimi_vocabulary()
MARKERS = {
    "[BOS]": 163584,
    "[EOS]": 163585,
    "<|im_end|>": 163586,
    "<|im_user|>": 163587,
    "<|im_assistant|>": 163588,
    "<|start_header_id|>": 163590,
    "<|end_header_id|>": 163591,
    "[EOT]": 163593,
    "<|im_system|>": 163594,
    "<|tool_calls_section_begin|>": 163595,
    "<|tool_calls_section_end|>": 163596,
    "<|tool_call_begin|>": 163597,
    "<|tool_call_argument_begin|>": 163598,
    "<|tool_call_end|>": 163599,
    "<|im_middle|>": 163601,
    "<|media_begin|>": 163602,
    "<|media_content|>": 163603,
    "<|media_end|>": 163604,
    "<|media_pad|>": 163605,
    "<think>": 163606,
    "</think>": 163607,
    "[UNK]": 163838,
    "[PAD]": 163839,
}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello, world!", [19180, 11, 2695, 0]),
        ("Hello, world! 你好，世界！", [19180, 11, 2695, 0, 220, 33845, 378, 2243, 856]),
        ("1234567890", [6694, 12972, 16242, 15]),
        ("", []),
    ],
)
def test_known_encodings(text: str, ids: list[int]) -> None:
    assert KIMI.encode(text) == ids
    assert KIMI.decode(ids).decode() == text


def test_markers_have_the_published_ids() -> None:
    named = {text: token for text, token in KIMI.special.items() if "reserved" not in text}
    assert named == MARKERS
    assert sorted(KIMI.special.values()) == list(range(163584, 163840))


def test_the_bundled_vocabulary_is_the_official_one_and_another_is_refused() -> None:
    KIMI.prove()
    other = Vocabulary("kimi_k2", ordinary_size=163_584, size=163_840, sha256="0" * 64)
    with pytest.raises(VocabularyError, match="is not the official"):
        other.prove()
    with pytest.raises(VocabularyError, match="no special token '<|im_start|>'".replace("|", r"\|")):
        KIMI.special_id("<|im_start|>")
    with pytest.raises(VocabularyError, match="no token 163840"):
        KIMI.bytes_of(163840)


@pytest.mark.parametrize("marker", [*MARKERS, "<|im_start|>", "<|reserved_token_163700|>"])
def test_marker_text_is_encoded_as_ordinary_text(marker: str) -> None:
    text = f"a{marker}b"
    for ids in (KIMI.encode(text), unpack(KIMI.encode_packed(text))):
        assert max(ids) < KIMI.ordinary_size
        assert KIMI.decode(ids).decode() == text


@settings(deadline=None)
@given(st.text())
def test_decode_inverts_encode(text: str) -> None:
    ids = KIMI.encode(text)
    assert KIMI.decode(ids).decode() == text
    assert unpack(KIMI.encode_packed(text)) == ids
    assert [KIMI.id_of_bytes[KIMI.bytes_of(token)] for token in ids] == ids


def test_packed_ids_are_the_list_of_them() -> None:
    ids = [0, 7, 999, 1000, 1001, 98_070, 163_839, 262_999]
    packed = PackedIds(pack(ids))
    assert packed == ids
    assert list(packed) == ids
    assert packed != ids[:-1]
    assert (len(packed), packed[-1], packed[1:3]) == (len(ids), 262_999, [7, 999])
    assert packed.written() == json.dumps(ids, separators=(",", ":")).encode()
    assert PackedIds(b"").written() == b"[]"
    every = range(263_000)
    assert json.loads(PackedIds(pack(every)).written()) == list(every)


def cut_character_by_character(text: str, most: int, longest_run: int) -> Iterator[str]:
    """Kimi's rule as its own tokenizer words it: count on until a run is too long, then begin anew."""
    for start in range(0, len(text), most):
        piece, run = "", 0
        for character in text[start : start + most]:
            run = run + 1 if piece and piece[-1].isspace() == character.isspace() else 1
            if run > longest_run:
                yield piece
                piece, run = "", 1
            piece += character
        yield piece


# Everything that str.isspace and regular expressions might see differently.
EDGES = "a \n\t\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\U0001f600é"


@settings(deadline=None)
@given(st.text(st.sampled_from(EDGES), max_size=120), st.integers(1, 9), st.integers(5, 60))
def test_long_input_is_cut_as_kimi_cuts_it(text: str, longest_run: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary_module, "MAX_RUN_OF_BLANKS_OR_NONBLANKS", longest_run)
        patch.setattr(vocabulary_module, "MAX_CHARACTERS_PER_ENCODE", most)
        assert list(cut_like_kimi(text)) == list(cut_character_by_character(text, most, longest_run))


def test_every_character_is_blank_or_not_as_python_says() -> None:
    text = "".join(chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)
    runs = list(vocabulary_module._runs_longer_than(0).finditer(text))
    assert "".join(run[0] for run in runs) == text
    assert all(len({character.isspace() for character in run[0]}) == 1 for run in runs)


@pytest.mark.parametrize(
    ("text", "longest_piece"),
    [(" " * 60_000, 25_000), ("x" * 60_000, 25_000), ("The cat sat. " * 50_000, 400_000), ("\n" * 25_001, 25_000)],
    ids=["blanks", "letters", "prose", "breaks"],
)
def test_very_long_input(text: str, longest_piece: int) -> None:
    pieces = list(cut_like_kimi(text))
    assert pieces == list(cut_character_by_character(text, 400_000, 25_000))
    assert max(map(len, pieces)) == longest_piece
    ids = KIMI.encode(text)
    assert KIMI.decode(ids).decode() == text
    assert unpack(KIMI.encode_packed(text)) == ids
