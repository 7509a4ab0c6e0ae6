"""The three sections of the article that this project comes from, with its own strings and ids.

Its script never ran (`No module named 'transformers'`). Where it writes `...` its list is left out in print; the
rows that are added for those are marked as this project's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from eagle_assets.targets.findings import Section, Trial, shown, shown_ids
from eagle_assets.targets.target import Markers
from eagle_assets.targets.vocabulary import Vocabulary

# What the article types in, as (its text, its id, the marker that it means).
TYPED_SPECIALS = (
    (" thinking", 163606, "<think>"),
    (" response", 163607, "</think>"),
    ("<|im_end|>", 163533, "<|im_end|>"),
    ("<|tool_calls_section_begin|>", 163595, "<|tool_calls_section_begin|>"),
)
REASONING = "Let me think about this step by step."
CONTENT = "The answer is 42."
ITS_PAIRS = (("The answer is 42", "."), ("step by step", "\n\nThe"), ("hello world", " foo"))
OUR_PAIRS = (("think", "ing"), ("step.", "\n"), ("12", "34"), ("The answer is", " 42"), ("你", "好"), (" ", " x"))


def encode_marked(vocabulary: Vocabulary, text: str) -> list[int]:
    """Ids of a text whose markers count as markers: each segment between two of them is encoded by itself."""
    ids: list[int] = []
    for piece in _markers(vocabulary).split(text):
        marker = vocabulary.special.get(piece)
        ids += vocabulary.encode(piece) if marker is None else [marker]
    return ids


@cache
def _markers(vocabulary: Vocabulary) -> re.Pattern[str]:
    return re.compile("(" + "|".join(sorted(map(re.escape, vocabulary.special), key=len, reverse=True)) + ")")


def wrong_specials(vocabulary: Vocabulary) -> list[str]:
    """Texts of special tokens whose id has another text, or that do not come back from text, alone and between letters.

    Coming back is not enough: the article's wrong id is an ordinary token, and comes back too.
    """
    return [
        text
        for text, token in sorted(vocabulary.special.items(), key=lambda item: item[1])
        if vocabulary.decode([token]) != text.encode()
        or encode_marked(vocabulary, text) != [token]
        or encode_marked(vocabulary, f"a{text}b") != [*vocabulary.encode("a"), token, *vocabulary.encode("b")]
    ]


def special_token_roundtrip(vocabulary: Vocabulary) -> Section:
    """Section 1: each id to its text and back, first as the article has them, then all as they are."""
    trials = []
    for text, typed, meant in TYPED_SPECIALS:
        decoded = vocabulary.decode([typed]).decode()
        right = vocabulary.special_id(meant)
        survives = encode_marked(vocabulary, decoded) == [typed]
        verdict = "right" if typed == right else f"WRONG: {meant} is {right}"
        if typed == right and text != meant:
            verdict = "right id; the brackets of its name were lost"
        trials.append(
            Trial(
                f"{shown(text)} as {typed} (the article's)",
                f"{typed} is {shown(decoded)}, roundtrip {'holds' if survives else 'fails'}; {verdict}",
            )
        )
    wrong = wrong_specials(vocabulary)
    named = sum("reserved" not in text for text in vocabulary.special)
    trials.append(
        Trial(
            f"all {len(vocabulary.special)} special tokens, looked up by text",
            f"{len(vocabulary.special) - len(wrong)} of {len(vocabulary.special)} roundtrip ({named} have a use)",
            not wrong,
        )
    )
    return Section(
        "1. Special token roundtrip",
        tuple(trials),
        "Every special token roundtrips. The article's 163533 is the ordinary token 'chas', which roundtrips too: "
        "its test would have passed with a wrong id. Ids have to be looked up by text.",
    )


def full_outputs(vocabulary: Vocabulary) -> dict[str, list[int]]:
    """Whole outputs as ids, by what they are: the article's with the right ids, and the other shapes of the grammar."""
    mark = Markers.look_up(vocabulary)
    reasoning, content = vocabulary.encode(REASONING), vocabulary.encode(CONTENT)
    call = [
        mark.section_begin,
        mark.call_begin,
        *vocabulary.encode("functions.weather:0"),
        mark.argument_begin,
        *vocabulary.encode('{"city": "São Paulo"}'),
        mark.call_end,
        mark.section_end,
    ]
    return {
        "reasoning, content, stop": [*reasoning, mark.think_end, *content, mark.stop],
        "with blanks at both starts": [
            *vocabulary.encode(f" {REASONING} "),
            mark.think_end,
            *vocabulary.encode(f"\n\n{CONTENT}\n"),
            mark.stop,
        ],
        "instant: content, stop": [*content, mark.stop],
        "reasoning, tool call, stop": [*reasoning, mark.think_end, *call, mark.stop],
        "reasoning, content, tool call, stop": [*reasoning, mark.think_end, *content, *call, mark.stop],
        "cut inside the reasoning": reasoning[:-2],
        "cut inside the tool section": [*reasoning, mark.think_end, *call[:6]],
        "empty": [mark.think_end, mark.stop],
    }


def roundtrips(vocabulary: Vocabulary, ids: list[int]) -> bool:
    """Whether the text of `ids`, encoded again with its markers as markers, gives `ids`."""
    return encode_marked(vocabulary, vocabulary.decode(ids).decode()) == ids


def full_output_roundtrip(vocabulary: Vocabulary) -> Section:
    """Section 2: the ids of a whole output to text and back."""
    typed_stop = TYPED_SPECIALS[2][1]
    think_end = Markers.look_up(vocabulary).think_end
    its_ids = [*vocabulary.encode(REASONING), think_end, *vocabulary.encode(CONTENT), typed_stop]
    its_text = vocabulary.decode(its_ids).decode()
    again = encode_marked(vocabulary, its_text)
    first = Trial(
        f"the article's sequence, ending in {typed_stop}",
        f"its text ends {shown(its_text[-12:])}; encoded again it ends {shown_ids(again[-4:])}, "
        f"not {shown_ids(its_ids[-4:])}: {'equal' if again == its_ids else 'not the same ids'}",
    )
    shapes = [
        Trial(name, f"{len(ids)} ids, {'the same again' if same else 'other ids'}", same)
        for name, ids in full_outputs(vocabulary).items()
        for same in (roundtrips(vocabulary, ids),)
    ]
    return Section(
        "2. Full output roundtrip",
        (first, *shapes),
        "With looked-up ids every shape of output roundtrips; the article's sequence ends in a word instead of a stop.",
    )


def boundary_effects(vocabulary: Vocabulary) -> Section:
    """Section 3: two texts encoded apart and together; only what lies on either side of a marker must not merge."""
    trials = [
        Trial(
            f"{shown(a)} + {shown(b)}" + ("" if (a, b) in ITS_PAIRS else " (added)"),
            _apart_and_together(vocabulary, a, b),
        )
        for a, b in (*ITS_PAIRS, *OUR_PAIRS)
    ]
    merged = segments_that_merge(vocabulary, (*ITS_PAIRS, *OUR_PAIRS))
    trials.append(
        Trial(
            "the same pairs on the two sides of </think>",
            "never merge: each segment is encoded by itself" if not merged else f"merge: {', '.join(merged)}",
            not merged,
        )
    )
    return Section(
        "3. BPE boundary effects",
        tuple(trials),
        "Texts that touch may merge, as BPE is made: a segment must be encoded whole, never in the pieces of a stream. "
        "Across a marker nothing merges.",
    )


def segments_that_merge(vocabulary: Vocabulary, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Pairs whose ids change when a marker lies between them; there must be none."""
    think_end = Markers.look_up(vocabulary).think_end
    return [
        f"{shown(a)} + {shown(b)}"
        for a, b in pairs
        if encode_marked(vocabulary, f"{a}</think>{b}") != [*vocabulary.encode(a), think_end, *vocabulary.encode(b)]
    ]


def _apart_and_together(vocabulary: Vocabulary, a: str, b: str) -> str:
    apart, together = vocabulary.encode(a) + vocabulary.encode(b), vocabulary.encode(a + b)
    if apart == together:
        return f"the same: {shown_ids(together)}"
    return f"apart {shown_ids(apart)}, together {shown_ids(together)}"
