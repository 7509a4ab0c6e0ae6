from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.reconstruction.canonical import is_canonical, with_canonical
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
VOCABULARY, MARKERS = TARGET.vocabulary, TARGET.markers


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60), st.text(max_size=60))
def test_what_the_encoder_gives_is_canonical_between_markers(reasoning: str, content: str) -> None:
    ids = [*VOCABULARY.encode(reasoning), MARKERS.think_end, *VOCABULARY.encode(content), MARKERS.stop]
    assert is_canonical(ids, VOCABULARY)


def test_other_ids_of_the_same_text_are_not() -> None:
    (whole,) = VOCABULARY.encode(" the")
    parts = [VOCABULARY.id_of_bytes[bytes([byte])] for byte in VOCABULARY.bytes_of(whole)]
    assert is_canonical([whole], VOCABULARY) is True
    assert is_canonical([MARKERS.think_end, *parts], VOCABULARY) is False
    assert is_canonical([VOCABULARY.id_of_bytes["é".encode()[:1]]], VOCABULARY) is None


def test_only_of_exact_sequences_is_it_said() -> None:
    rows = [{"verdict": v, "output_ids": ids} for v, ids in [("exact", [19180]), ("consistent", [19180])]]
    assert [with_canonical(row, VOCABULARY)["canonical"] for row in rows] == [True, None]
