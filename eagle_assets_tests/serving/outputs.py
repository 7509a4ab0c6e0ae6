"""Outputs of the target made at random: segments of real ids between their markers."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from eagle_assets.serving.output import Call, Ids, Output
from eagle_assets.serving.served import Situation
from eagle_assets.targets.kimi import target_named

K2_5 = target_named("moonshotai/kimi-k2.5")
K2 = target_named("moonshotai/kimi-k2-0905")
VOCABULARY, MARKERS = K2_5.vocabulary, K2_5.markers

THINKING = Situation(K2_5, thinking=True)
INSTANT = Situation(K2_5, thinking=False)
NEVER = Situation(K2, thinking=False)

LATIN = ("The", " answer", " is", " 42", ".", "\n", "\n\n", " ", "  ", "\t", "\u00a0", "\r\n", "é", "e\u0301", "!!!!")
OTHER_SCRIPTS = ("Привет", " мир", "今天", "天气", "مرحبا", "한국어", "👩‍👩‍👧‍👦", "🇦🇷")
LIKE_MARKERS = ("<", "</", "think>", "</think>", "[EOS]", "<|im_end|>", "`x = 1`")

words = st.sampled_from(LATIN + OTHER_SCRIPTS + LIKE_MARKERS)
texts = st.lists(words, max_size=8).map("".join) | st.text(st.characters(codec="utf-8"), max_size=12)
canonical = texts.map(lambda text: tuple(VOCABULARY.encode(text)))
ordinary = st.lists(st.integers(0, VOCABULARY.ordinary_size - 1), max_size=8).map(tuple)
"""Any ordinary ids: canonical or not, ending inside a character or not."""

arguments_texts = st.dictionaries(st.sampled_from(["q", "größe", "n"]), texts | st.integers(), max_size=2).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)


@st.composite
def outputs(
    draw: st.DrawFn, situation: Situation, segments: st.SearchStrategy[Ids] = canonical, whole: bool = False
) -> Output[Ids]:
    """An output that the grammar allows: whole, or cut by the token limit anywhere."""
    cut = (
        None
        if whole
        else draw(st.sampled_from([None, None, "reasoning", "content", "header", "arguments", "call", "section"]))
    )
    if cut == "reasoning" and not situation.thinking:
        cut = "content"
    reasoning = draw(segments) if situation.thinking else None
    if cut == "reasoning":
        return Output(False, reasoning, False, (), False, (), False, False)
    content = draw(segments)
    count = draw(st.integers(0, 3))
    if cut == "content" or (count == 0 and cut is None):
        begun = cut is not None and draw(st.booleans())
        return Output(False, reasoning, situation.thinking, content, begun, (), False, cut is None)
    calls = [draw(closed_calls(index, segments)) for index in range(max(1, count))]
    last = calls[-1]
    if cut == "header":
        calls[-1] = Call(last.header, None, False)
    elif cut == "arguments":
        calls[-1] = Call(last.header, last.arguments, False)
    section_closed = cut in (None, "section")
    return Output(False, reasoning, situation.thinking, content, True, tuple(calls), section_closed, cut is None)


@st.composite
def closed_calls(draw: st.DrawFn, index: int, segments: st.SearchStrategy[Ids]) -> Call[Ids]:
    name = draw(st.sampled_from(["look_up", "f", "get-weather", "größe"]))
    arguments = draw(segments | arguments_texts.map(lambda text: tuple(VOCABULARY.encode(text))))
    return Call(tuple(VOCABULARY.encode(f"functions.{name}:{index}")), arguments, True)
