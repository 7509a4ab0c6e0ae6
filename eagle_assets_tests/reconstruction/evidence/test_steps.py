"""Deltas that are a token for themselves are taken as tokens without a search, which finds the same."""

from __future__ import annotations

from random import Random

import pytest

from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.frames import FieldFrames
from eagle_assets.reconstruction.evidence.steps import Solution, _Steps, one_token_steps
from eagle_assets.serving.output import Ids
from eagle_assets_tests.reconstruction.served_exchanges import VOCABULARY, text


def some_fields(rng: Random) -> list[tuple[FieldFrames, Ids]]:
    """Texts as deltas of one token, some of them fused or cut, some of another segmentation than the canonical."""
    fields = []
    for _ in range(rng.randint(1, 3)):
        written = text(rng) + rng.choice(("", " <", "[x]", "\n\n", "!!!!!!!!", "{}"))
        ids = EncodedTexts(VOCABULARY).ids(written)
        deltas = [piece for piece in VOCABULARY.texts_of(ids) if piece]
        for _ in range(rng.choice((0, 0, 1, 3))):
            place = rng.randrange(len(deltas))
            if rng.random() < 0.5 and len(deltas[place]) > 1:
                deltas[place : place + 1] = [deltas[place][:1], deltas[place][1:]]
            else:
                deltas[place : place + 2] = ["".join(deltas[place : place + 2])]
        frames = FieldFrames(tuple(delta.encode() for delta in deltas), is_json=rng.random() < 0.2)
        fields.append((frames, ids))
    return fields


def test_runs_of_lone_tokens_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, found = Random(3), []
    for _ in range(400):
        fields = some_fields(rng)
        tokens = sum(len(ids) for _, ids in fields) + rng.choice((0, 0, 0, -1, 1, 2))
        solution = one_token_steps(fields, tokens, VOCABULARY)
        with monkeypatch.context() as patch:
            patch.setattr(_Steps, "alone", lambda self, surplus, vocabulary: bytes(len(self.ends)))
            patch.setattr(_Steps, "last_may_be_held", lambda self, vocabulary: True)
            assert one_token_steps(fields, tokens, VOCABULARY) == solution
        found.append(solution)
    solved = [solution for solution in found if isinstance(solution, Solution)]
    assert {solution.unique for solution in solved} == {solution.strays > 0 for solution in solved} == {False, True}
    assert len(solved) < len(found)
