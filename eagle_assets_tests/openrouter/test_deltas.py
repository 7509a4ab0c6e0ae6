"""Deltas kept as runs are the same sequence, however they were added."""

from __future__ import annotations

from eagle_assets.openrouter.deltas import Delta, Deltas, Run

DELTAS = [
    Delta("reasoning", "a", None, 1),
    Delta("reasoning", "b", None, 2),
    Delta("reasoning", "c", None, 4),
    Delta("content", "d", None, 4),
    Delta("tool_calls", "", 0, 5),
    Delta("tool_calls", "{}", 1, 6),
]


def test_deltas_are_given_back_as_they_were_added() -> None:
    deltas = Deltas(DELTAS)
    assert list(deltas) == DELTAS
    assert len(deltas) == len(DELTAS)
    assert (deltas[0], deltas[-1], deltas[2:4]) == (DELTAS[0], DELTAS[-1], DELTAS[2:4])
    assert deltas.runs[:2] == [Run("reasoning", None, 1, ["a", "b"]), Run("reasoning", None, 4, ["c"])]


def test_deltas_are_the_same_one_by_one_and_several_at_once() -> None:
    texts, at_once = ["b"], Deltas(DELTAS[:1])
    at_once.add("reasoning", texts, 2)
    for delta in DELTAS[2:]:
        at_once.add(delta.field, [delta.text], delta.frame, delta.call)
    assert at_once == Deltas(DELTAS)
    assert at_once != Deltas(DELTAS[:-1])
    assert texts == ["b"]
    assert not Deltas()
