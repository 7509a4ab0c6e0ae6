"""What was seen is known again, however much it is, and nothing else is."""

from __future__ import annotations

import pytest

from eagle_assets.openrouter import hashed_set
from eagle_assets.openrouter.hashed_set import HashedSet


def test_things_that_were_added_are_there_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed_set, "_TOGETHER", 7)
    seen = HashedSet()
    for number in range(50):
        assert f"thing {number}" not in seen
        assert ("thing", number) not in seen
        seen.add(f"thing {number}")
        seen.add(f"thing {number // 2}")
        assert all(f"thing {earlier}" in seen for earlier in range(number + 1))
    assert ("thing", 1) not in seen


def test_many_at_once_are_as_one_by_one() -> None:
    seen = HashedSet()
    seen.add("one")
    seen.update(f"thing {number}" for number in range(1_000))
    seen.update([])
    assert "one" in seen
    assert all(f"thing {number}" in seen for number in range(1_000))
    assert "thing 1000" not in seen
