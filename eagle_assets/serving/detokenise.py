"""Detokenisers as servers run them: ids and the sizes of decoding steps to the text of each step.

Both families decode a window of recent tokens twice, with and without the new ones, and send the difference. They
differ in where blanks come from and in what they do with a text that ends inside a character.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from eagle_assets.serving.served import Situation
from eagle_assets.targets.target import Markers, Target
from eagle_assets.targets.vocabulary import Vocabulary

_UNFINISHED = "�"


class Detokenising(Protocol):
    """One output on its way through a detokeniser."""

    def add(self, ids: Sequence[int], last: bool) -> str:
        """The text that a decoding step adds; `ids` are the step's, the stop token included."""
        ...


class Detokeniser(Protocol):
    """What a server's detokeniser makes of outputs."""

    def start(self, situation: Situation) -> Detokenising: ...


def prompt_tail(situation: Situation) -> list[int]:
    """The markers at the end of the prompt, which detokenisers take for the text's left neighbour."""
    markers, target = situation.target.markers, situation.target
    tail = [target.vocabulary.special_id("<|im_middle|>")]
    if situation.thinking:
        return [*tail, markers.think_begin]
    return tail if target.thinking == "never" else [*tail, markers.think_begin, markers.think_end]


@cache
def added_but_not_special(markers: Markers) -> frozenset[int]:
    """Markers that Kimi's tokenizer_config.json adds without calling them special: never skipped, never dropped."""
    return frozenset(
        (
            markers.think_begin,
            markers.think_end,
            markers.section_begin,
            markers.section_end,
            markers.call_begin,
            markers.argument_begin,
            markers.call_end,
        )
    )


@cache
def special_texts(target: Target) -> tuple[str, ...]:
    """The texts of the markers that the tokenizer calls special."""
    added = added_but_not_special(target.markers)
    return tuple(text for text, token in target.vocabulary.special.items() if token not in added)


def _character_text(token: int, before: Sequence[int], waiting: Sequence[int], vocabulary: Vocabulary) -> str:
    """The text of a token of whole characters that follows such a one, which no decoding of the window would change;
    "" for any other."""
    if waiting or not before or max(token, before[-1]) >= vocabulary.ordinary_size:
        return ""
    try:
        text = vocabulary.bytes_of(token).decode()
    except UnicodeDecodeError:
        return ""
    return "" if text.endswith(_UNFINISHED) else text


def _joined(ids: Sequence[int], vocabulary: Vocabulary, alone: frozenset[int] | None, blank: str) -> str:
    """Text of `ids`: runs of tokens decoded together, the tokens of `alone` (None: every marker) between blanks."""
    parts: list[str] = []
    run: list[bytes] = []
    for token in ids:
        if token >= vocabulary.ordinary_size and (alone is None or token in alone):
            if run:
                parts.append(b"".join(run).decode("utf-8", "replace"))
                run = []
            parts.append(vocabulary.special_text[token])
        else:
            run.append(vocabulary.bytes_of(token))
    if run:
        parts.append(b"".join(run).decode("utf-8", "replace"))
    return blank.join(parts)


@dataclass(frozen=True, slots=True)
class VllmDetokeniser:
    """vLLM's detokeniser for tokenizers that are not "fast", which Kimi's is not.

    Token by token: a text that ends inside a character waits, and is dropped where nothing completes it; each added
    token gets a blank on both sides where `spaces_between_special_tokens` is on, the default. Special tokens are
    skipped where nobody asks to see them: a model without reasoning parser in a request without tools.
    Source: vllm 0.33, v1/engine/detokenizer.py (SlowIncrementalDetokenizer), tokenizers/detokenizer_utils.py
    (detokenize_incrementally), tool_parsers/kimi_k2_tool_parser.py (adjust_request).
    """

    blanks: bool = True

    def start(self, situation: Situation) -> Detokenising:
        return _VllmDetokenising(situation, " " if self.blanks else "")


class _VllmDetokenising:
    def __init__(self, situation: Situation, blank: str) -> None:
        self._vocabulary, self._stop = situation.target.vocabulary, situation.target.markers.stop
        self._blank = blank
        skips_special = situation.target.thinking == "never" and not situation.tools
        self._before: list[int] = [] if skips_special else prompt_tail(situation)
        self._new: list[int] = []

    def add(self, ids: Sequence[int], last: bool) -> str:
        tokens = [token for token in ids if token != self._stop]
        if last and not self._new:
            # All at once is the same, unless something is left waiting.
            before = _joined(self._before, self._vocabulary, None, self._blank)
            text = _joined(self._before + tokens, self._vocabulary, None, self._blank)[len(before) :]
            if not text.endswith(_UNFINISHED):
                return text
        return "".join(map(self._next, tokens))

    def _next(self, token: int) -> str:
        text = _character_text(token, self._before, self._new, self._vocabulary)
        if text:
            self._before = [token]
            return text
        self._new.append(token)
        before = _joined(self._before, self._vocabulary, None, self._blank)
        now = _joined(self._before + self._new, self._vocabulary, None, self._blank)
        if len(now) <= len(before) or now.endswith(_UNFINISHED):
            return ""
        self._before, self._new = self._new, []
        return now[len(before) :]


@dataclass(frozen=True, slots=True)
class SglangDetokeniser:
    """SGLang's detokeniser: step by step, and of a text that ends inside a character the printable part at once.

    Printable is what ends in a line break, what ends in an ideograph, all but the last character after an
    ideograph, or else what stands up to the last blank. What never becomes a character is kept as U+FFFD.
    `blanks`: up to 0.5.9 the tokenizer was called with keyword arguments, which Kimi's passes on to the general
    decoder of transformers: a blank on both sides of added tokens that are not special.
    Source: sglang 0.5.8 and 0.5.23, managers/detokenizer_manager.py (DetokenizerManager), utils.py
    (find_printable_text), srt/utils/patch_tokenizer.py (decode_without_hf_kwargs).
    """

    blanks: bool = False

    def start(self, situation: Situation) -> Detokenising:
        return _SglangDetokenising(situation, self.blanks)


class _SglangDetokenising:
    def __init__(self, situation: Situation, blanks: bool) -> None:
        self._vocabulary, self._stop = situation.target.vocabulary, situation.target.markers.stop
        self._alone = added_but_not_special(situation.target.markers) if blanks else frozenset()
        self._blank = " " if blanks else ""
        self._before, self._new = prompt_tail(situation), list[int]()
        self._sent_early = 0

    def add(self, ids: Sequence[int], last: bool) -> str:
        text = _character_text(ids[0], self._before, self._new, self._vocabulary) if len(ids) == 1 else ""
        if text:
            self._before = list(ids)
            return text
        self._new.extend(token for token in ids if token != self._stop)
        before = _joined(self._before, self._vocabulary, self._alone, self._blank)
        new = _joined(self._before + self._new, self._vocabulary, self._alone, self._blank)[len(before) :]
        sent_early = self._sent_early
        if last or (new and not new.endswith(_UNFINISHED)):
            self._before, self._new, self._sent_early = self._new, [], 0
            return new[sent_early:]
        printable = _printable(new)
        self._sent_early = len(printable)
        return printable[sent_early:]


# Blocks of ideographs: extensions and compatibility forms included, kana and hangul not.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def _is_ideograph(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _IDEOGRAPHS)


def _printable(text: str) -> str:
    if text.endswith("\n") or (text and _is_ideograph(text[-1])):
        return text
    if len(text) > 1 and _is_ideograph(text[-2]):
        return text[:-1]
    return text[: text.rfind(" ") + 1]
