"""The four conditions without which no token is trusted and no money is spent."""

from __future__ import annotations

from eagle_assets.targets.article import full_outputs, roundtrips, wrong_specials
from eagle_assets.targets.assumptions import PROVED, proof_of
from eagle_assets.targets.encoders import Agreement, compare, packing_encoder, tiktoken_encoder
from eagle_assets.targets.findings import Gate
from eagle_assets.targets.hard_texts import hard_texts, long_texts
from eagle_assets.targets.model_folder import ModelFolder, wrong_special_ids
from eagle_assets.targets.vocabulary import Vocabulary


def vocabulary_is_official(vocabulary: Vocabulary, folder: ModelFolder | None) -> Gate:
    """The embedded vocabulary, and a model folder's tiktoken.model where it has one, have the official digest."""
    proof = proof_of(vocabulary)
    theirs = folder.tiktoken_sha256 if folder is not None else None
    same = theirs in (None, vocabulary.sha256)
    sentence = f"The vocabulary is the official tiktoken.model, byte for byte: sha256 {vocabulary.sha256[:16]}…"
    if proof != PROVED:
        sentence = f"The vocabulary is {proof}."
    elif not same and folder is not None:
        sentence = f"{folder.path / 'tiktoken.model'} is not the official file: its sha256 is {theirs}."
    numbers = {"ordinary_tokens": vocabulary.ordinary_size, "special_tokens": len(vocabulary.special)}
    return Gate("vocabulary_is_official", proof == PROVED and same, sentence, {**numbers, "sha256": vocabulary.sha256})


def special_tokens_roundtrip(vocabulary: Vocabulary, folder: ModelFolder | None) -> Gate:
    """Each special token survives the way to text and back, and a model folder gives it the same id."""
    wrong = wrong_specials(vocabulary)
    theirs = wrong_special_ids(folder, vocabulary) if folder is not None else {}
    sentence = f"All {len(vocabulary.special)} special tokens survive the way to text and back."
    if wrong:
        sentence = f"{len(wrong)} special tokens do not roundtrip, {wrong[0]} first."
    elif theirs:
        text, token = next(iter(theirs.items()))
        sentence = (
            f"The model folder gives {text} the id {token}; in the vocabulary it is {vocabulary.special.get(text)}."
        )
    numbers = {"special_tokens": len(vocabulary.special), "wrong": len(wrong), "wrong_in_model_folder": len(theirs)}
    return Gate("special_tokens_roundtrip", not wrong and not theirs, sentence, dict(numbers))


def full_output_roundtrips(vocabulary: Vocabulary) -> Gate:
    """Whole outputs of each shape of the grammar come back from their text as the same ids."""
    outputs = full_outputs(vocabulary)
    failed = [name for name, ids in outputs.items() if not roundtrips(vocabulary, ids)]
    sentence = f"All {len(outputs)} shapes of output come back from their text as the same ids."
    if failed:
        sentence = f"Outputs do not come back from their text: {', '.join(failed)}."
    return Gate("full_output_roundtrips", not failed, sentence, {"outputs": len(outputs), "failed": len(failed)})


def encoders_agree(vocabulary: Vocabulary, folder: ModelFolder | None, folder_agreement: Agreement | None) -> Gate:
    """splintr, as lists and packed, tiktoken and, where a model folder loaded, transformers give the same ids."""
    texts = [*hard_texts(), *long_texts().values()]
    agreements = [
        compare("tiktoken", tiktoken_encoder(vocabulary), vocabulary, texts),
        compare("splintr packed", packing_encoder(vocabulary), vocabulary, texts),
        *([folder_agreement] if folder_agreement is not None else []),
    ]
    numbers = {"texts": len(texts), "characters": agreements[0].characters, "tokens": agreements[0].tokens}
    differences = {f"differences_{a.encoder.replace(' ', '_')}": a.differences for a in agreements}
    failed = next((a for a in agreements if a.differences), None)
    load_error = folder.load_error if folder is not None else None
    sentence = (
        f"splintr, {' and '.join(a.encoder for a in agreements)} give the same ids for {len(texts):,} hard texts, "
        f"{agreements[0].tokens:,} tokens."
    )
    if failed is not None:
        sentence = f"{failed.differences} of {failed.texts} texts have other ids: {failed.first_difference}."
    elif load_error is not None:
        sentence = f"The model folder cannot be compared: {load_error}."
    return Gate("encoders_agree", failed is None and load_error is None, sentence, {**numbers, **differences})
