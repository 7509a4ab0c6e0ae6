"""The four assumptions of the article, turned into checks that state what holds."""

from __future__ import annotations

from eagle_assets.targets.article import TYPED_SPECIALS, wrong_specials
from eagle_assets.targets.findings import Section, Trial, shown, shown_ids
from eagle_assets.targets.hard_texts import hard_texts
from eagle_assets.targets.risks import CHANGES, changes_unseen
from eagle_assets.targets.vocabulary import Vocabulary, VocabularyError

# Two ways to write one text: what the model may emit, and what re-encoding makes of it.
OTHER_PATHS = (
    ("answer", ("ans", "wer")),
    (" thinking", (" think", "ing")),
    ("tokenizers", ("tokenizer", "s")),
    ("!!!!", ("!!", "!!")),
)


def tokenizer_is_available(vocabulary: Vocabulary, folder: str | None) -> Section:
    """Assumption 1: it is here, without a server, a model folder or a download."""
    ids = vocabulary.encode("Hello, world!")
    trial = Trial(
        "the embedded vocabulary, no file beside the weights", f"'Hello, world!' is {shown_ids(ids)}", bool(ids)
    )
    beside = Trial("a model folder", folder or "none was given (--model-dir); none is needed")
    return Section(
        "Assumption 1: the tokenizer is available",
        (trial, beside),
        "It comes with the splintr-rs package and is proved to be the official one.",
    )


def reencoding_is_valid(vocabulary: Vocabulary) -> Section:
    """Assumption 2: valid for canonical ids, and for those only."""
    texts = hard_texts()
    unstable = [text for text in texts if _again(vocabulary, ids := vocabulary.encode(text)) != ids]
    canonical = Trial(
        f"canonical ids of {len(texts):,} hard texts, decoded and encoded again",
        f"{len(texts) - len(unstable):,} of {len(texts):,} the same",
        not unstable,
    )
    trials = [canonical, *(_counterexample(vocabulary, text, pieces) for text, pieces in OTHER_PATHS)]
    return Section(
        "Assumption 2: decode-then-reencode is a valid reconstruction",
        tuple(trials),
        "It holds exactly where the model wrote the canonical ids. Where it did not, the text is the same and the ids "
        "are not: text alone can never show it, so each response needs other evidence and a verdict.",
    )


def _counterexample(vocabulary: Vocabulary, text: str, pieces: tuple[str, ...]) -> Trial:
    emitted = [vocabulary.id_of_bytes[piece.encode()] for piece in pieces]
    again = _again(vocabulary, emitted)
    return Trial(
        f"{shown(text)} written as {' + '.join(map(shown, pieces))}",
        f"{shown_ids(emitted)} decodes to {shown(vocabulary.decode(emitted))} and comes back as {shown_ids(again)}"
        + (", the same count" if len(again) == len(emitted) else ""),
        again != emitted and vocabulary.decode(emitted) == text.encode(),
    )


def _again(vocabulary: Vocabulary, ids: list[int]) -> list[int]:
    return vocabulary.encode(vocabulary.decode(ids).decode())


def boundaries_are_the_primary_risk(vocabulary: Vocabulary) -> Section:
    """Assumption 3: refuted by what the risks that the article leaves out do to ids."""
    trials = []
    for risk, changes in CHANGES.items():
        others, unseen = changes_unseen(vocabulary, changes)
        trials.append(
            Trial(
                risk,
                f"{others} of {len(changes)} changes of a text give other ids, {unseen} of them at the same count",
                others > 0,
            )
        )
    return Section(
        "Assumption 3: boundary effects are the primary risk",
        tuple(trials),
        "They are not the only one: what a server does to blanks, accents and JSON changes ids too, and a count that "
        "closes does not rule it out.",
    )


def special_ids_are_correct(vocabulary: Vocabulary) -> Section:
    """Assumption 4: looked up by text, and proved; the article's own list held against that."""
    trials = []
    for text, typed, meant in TYPED_SPECIALS:
        found = vocabulary.special.get(text)
        right = vocabulary.special_id(meant)
        trials.append(
            Trial(
                f"{shown(text)}, typed as {typed}",
                f"{'no special token has this text' if found is None else f'the vocabulary says {found}'}; "
                f"{meant} is {right}: {'right' if typed == right else 'WRONG'}",
            )
        )
    wrong = wrong_specials(vocabulary)
    trials.append(
        Trial(
            "each id that is used, by lookup and proof",
            proof_of(vocabulary),
            not wrong and proof_of(vocabulary) == PROVED,
        )
    )
    return Section(
        "Assumption 4: the special token ids are known and correct",
        tuple(trials),
        f"{sum(typed != vocabulary.special_id(meant) for _, typed, meant in TYPED_SPECIALS)} of the article's "
        f"{len(TYPED_SPECIALS)} ids is wrong, and two of its names. Here none is typed: all are looked up and proved.",
    )


PROVED = "proved: the digest is the official one, and each marker encodes to its id"


def proof_of(vocabulary: Vocabulary) -> str:
    """`PROVED`, or what the proof failed on."""
    try:
        vocabulary.prove()
    except VocabularyError as error:
        return f"not proved: {error}"
    return PROVED
