"""splintr against tiktoken, and that the comparison would notice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.targets import encoders
from eagle_assets.targets.encoders import compare, packing_encoder, tiktoken_encoder, uncut_tiktoken_encoder
from eagle_assets.targets.hard_texts import hard_texts, long_texts
from eagle_assets.targets.vocabulary import kimi_vocabulary

KIMI = kimi_vocabulary()
# What transformers assumes of a tiktoken.model whose own code it does not run: no Han rule, no case rule.
OTHER_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_has_the_same_ids(text: str) -> None:
    assert KIMI.encode(text) == tiktoken_encoder(KIMI)(text)


@given(st.text(st.sampled_from(" \t\r\n'sStTlL1é́你好ǅʰ.-<|im_end|>"), max_size=60))
@settings(max_examples=300, deadline=None)
def test_texts_of_the_split_pattern_s_own_characters_have_the_same_ids(text: str) -> None:
    assert KIMI.encode(text) == tiktoken_encoder(KIMI)(text)


def test_all_encoders_agree_on_hard_and_long_texts() -> None:
    texts = [*hard_texts(), *long_texts().values()]
    for encode in (tiktoken_encoder(KIMI), packing_encoder(KIMI)):
        agreement = compare("other", encode, KIMI, texts)
        assert agreement.first_difference is None
        assert (agreement.differences, agreement.texts) == (0, len(texts))
        assert agreement.tokens > 500_000


def test_hard_texts_are_the_same_each_time_and_different_from_each_other() -> None:
    hard_texts.cache_clear()
    first = hard_texts()
    hard_texts.cache_clear()
    assert first == hard_texts()
    assert len(set(first)) > 0.95 * len(first)
    assert max(map(len, first)) < 25_000


def test_another_split_pattern_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "SPLIT_PATTERN", OTHER_PATTERN)
    other = uncut_tiktoken_encoder.__wrapped__(KIMI)
    agreement = compare("other", other, KIMI, hard_texts())
    assert agreement.differences > 400
    assert agreement.first_difference is not None


def test_long_input_that_is_not_cut_is_noticed() -> None:
    agreement = compare("uncut", uncut_tiktoken_encoder(KIMI), KIMI, long_texts().values())
    assert agreement.differences == 3
