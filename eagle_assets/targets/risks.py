"""The four risks that the article names and does not test. The tokenizer itself must change nothing; what a server
does to a text changes the ids, and often not their number: that is why a count alone proves little."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable

from eagle_assets.targets.encoders import tiktoken_encoder, uncut_tiktoken_encoder
from eagle_assets.targets.findings import Section, Trial, shown, shown_ids
from eagle_assets.targets.hard_texts import long_texts
from eagle_assets.targets.vocabulary import Vocabulary, cut_like_kimi

Change = tuple[str, str, str]
"""What a server may do, a text, and what becomes of it."""

BLANK_CHANGES: tuple[Change, ...] = (
    *(("stripped", text, text.strip()) for text in (" The", "The.\n", " Oi", "\n\nThe")),
    ("with \\n for \\r\\n", "a\r\nb", "a\nb"),
    ("with one blank for two", "step  by", "step by"),
)
UNICODE_CHANGES: tuple[Change, ...] = (
    *(
        ("as NFD", text, unicodedata.normalize("NFD", text))
        for text in ("caf\u00e9", "\u00c5ngstr\u00f6m", "Ti\u1ebfng Vi\u1ec7t", "\uac01", "\u304c")
    ),
    ("as NFC", "\u212b", "\u00c5"),
    ("as NFC", "\u2126", "\u03a9"),
    ("as NFKC", "\ufb01", "fi"),
)
ESCAPE_CHANGES: tuple[Change, ...] = (
    ("with the escape resolved", r"a\nb", "a\nb"),
    ("parsed and dumped", r'{"city": "S\u00e3o Paulo"}', '{"city": "S\u00e3o Paulo"}'),
    ("dumped compact", '{"a": 1}', json.dumps({"a": 1}, separators=(",", ":"))),
    ("dumped with Python's default", '{"a":1}', json.dumps({"a": 1})),
)
CHANGES = {
    "blank normalisation": BLANK_CHANGES,
    "Unicode normalisation": UNICODE_CHANGES,
    "escape sequences": ESCAPE_CHANGES,
}

BLANKS = (
    " The",
    "The ",
    "  The",
    "\tThe",
    "The.\n",
    "The.\n\n",
    "\r\nThe\r\n",
    "\xa0The",
    "The \n \n",
    " " * 40,
    "\u3000x",
)
ACCENTED = (
    *(before for _, before, _ in UNICODE_CHANGES),
    *("na\u00efve fa\u00e7ade", "\ufb2a", "e\u0301\u0323", "\u1100\u1161\u11a8"),
)
ESCAPED = (r"\n", "\n", r"\\n", r"\u00e9", "\u00e9", r"\"", "&lt;", "%20", r"C:\new\table", r'{"a": "\u00e9\n"}')


def changed(vocabulary: Vocabulary, change: Change) -> Trial:
    """What a server's change of a text does to its ids; nothing is expected, the ids and counts are shown."""
    what, before, after = change
    ids, others = vocabulary.encode(before), vocabulary.encode(after)
    seen = "the count does not show it" if len(ids) == len(others) else "the count shows it"
    return Trial(
        f"{shown(before)} {what}",
        f"{shown_ids(ids, 6)} becomes {shown_ids(others, 6)}: {len(ids)} and {len(others)}, {seen}",
    )


def changes_unseen(vocabulary: Vocabulary, changes: Iterable[Change]) -> tuple[int, int]:
    """How many of the changes give other ids, and how many of those keep the number of tokens."""
    pairs = [(vocabulary.encode(before), vocabulary.encode(after)) for _, before, after in changes]
    others = [(ids, new) for ids, new in pairs if ids != new]
    return len(others), sum(len(ids) == len(new) for ids, new in others)


def kept(vocabulary: Vocabulary, what: str, texts: Iterable[str]) -> Trial:
    """That ids decode to the very text that was encoded, for each of `texts`."""
    texts = list(texts)
    lost = [text for text in texts if vocabulary.decode(vocabulary.encode(text)) != text.encode()]
    result = (
        f"{len(texts)} of {len(texts)} come back byte for byte" if not lost else f"{shown(lost[0])} does not come back"
    )
    return Trial(what, result, not lost)


def blank_normalisation(vocabulary: Vocabulary) -> Section:
    """Blanks at the ends and in runs: kept by the tokenizer; what stripping them would do."""
    return Section(
        "Risk: blank normalisation",
        (
            kept(vocabulary, "blanks, tabs, line breaks, no-break blanks", BLANKS),
            *(changed(vocabulary, change) for change in BLANK_CHANGES),
        ),
        "The tokenizer keeps every blank. A server that strips one changes the ids, and the count stays where the "
        "blank shared a token with its neighbour.",
    )


def unicode_normalisation(vocabulary: Vocabulary) -> Section:
    """Composed and decomposed forms: kept apart by the tokenizer; what normalising would do."""
    forms = [unicodedata.normalize(form, text) for text in ACCENTED for form in ("NFC", "NFD", "NFKC", "NFKD")]
    return Section(
        "Risk: Unicode normalisation",
        (
            kept(vocabulary, f"{len(ACCENTED)} texts as they are and in four normal forms", [*ACCENTED, *forms]),
            *(changed(vocabulary, change) for change in UNICODE_CHANGES),
        ),
        "The tokenizer does not normalise: both forms come back as they were, with different ids. "
        "A text that is not in NFC proves that nobody normalised it; one that is proves nothing.",
    )


def escape_sequences(vocabulary: Vocabulary) -> Section:
    """Escapes in texts and in tool arguments: kept by the tokenizer; what writing JSON anew would do."""
    return Section(
        "Risk: escape sequences",
        (
            kept(vocabulary, "backslashes, \\u escapes, entities, percent signs", ESCAPED),
            *(changed(vocabulary, change) for change in ESCAPE_CHANGES),
        ),
        "The tokenizer resolves no escape. Tool arguments have to be taken as the text they are: parsed and written "
        "anew they have other ids.",
    )


def very_long_sequences(vocabulary: Vocabulary) -> Section:
    """Long texts against tiktoken under Kimi's cuts, and what encoding them without the cuts would give."""
    return Section(
        "Risk: very long sequences",
        tuple(_long(vocabulary, what, text) for what, text in long_texts().items()),
        "Kimi's own tokenizer cuts at 400,000 characters and at runs of 25,000 blanks or non-blanks; with the same "
        "cuts the ids are the same.",
    )


def _long(vocabulary: Vocabulary, what: str, text: str) -> Trial:
    ids = vocabulary.encode(text)
    agrees = ids == tiktoken_encoder(vocabulary)(text) and vocabulary.decode(ids) == text.encode()
    uncut = uncut_tiktoken_encoder(vocabulary)(text)
    return Trial(
        what,
        f"{len(ids):,} tokens in {len(list(cut_like_kimi(text)))} pieces, "
        f"{'as tiktoken gives them, and back byte for byte' if agrees else 'NOT as tiktoken gives them'}; "
        f"uncut {len(uncut):,} tokens, {'the same ids' if uncut == ids else 'other ids'}",
        agrees,
    )
