"""What rates are measured on: most of a small group, half of a large one, and the same while little comes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.calibrating.refutation import settled


def measured_on(size: int) -> int:
    members = cast(Sequence[Observation], cast(Any, range(size)))
    measured = settled(members)
    assert list(cast(Any, measured)) == list(range(len(measured)))  # the first ones
    return len(measured)


def test_small_groups_are_measured_on_nearly_all_of_their_members() -> None:
    assert [measured_on(size) for size in (0, 1, 15, 16, 31, 100)] == [0, 1, 15, 16, 30, 96]
    assert all(measured_on(size) > 7 / 8 * size for size in range(1, 512))


def test_large_groups_are_measured_anew_only_when_they_have_doubled() -> None:
    sizes = range(512, 5_000)
    assert all(measured_on(size) > size / 2 for size in sizes)
    assert [after for before, after in pairwise(sizes) if measured_on(before) != measured_on(after)] == [
        1_024, 2_048, 4_096,
    ]  # fmt: skip
