"""What is kept of the team's own outputs: found again, made anew where they changed, whoever else does the same."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from eagle_assets.reconstruction.own.kept import kept
from eagle_assets.reconstruction.own.known_outputs import KnownOutput

OUTPUTS = [KnownOutput([1, 2], [3, 4])]


def made_of(folder: Path, code: str) -> list[int]:
    return kept(lambda: list(range(1_000)), list[int], OUTPUTS, folder, code)


def often(folder: Path) -> int:
    return sum(len(made_of(folder, f"code {number % 3}")) for number in range(200))


def test_it_is_made_once_for_the_same_outputs_and_code(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> int:
        made.append(0)
        return len(made)

    assert [kept(make, int, OUTPUTS, tmp_path, code) for code in ("a", "a", "b", "b")] == [1, 1, 2, 2]
    assert len(list(tmp_path.iterdir())) == 1
    (there,) = tmp_path.iterdir()
    there.write_bytes(b"\xc1")
    assert kept(make, int, OUTPUTS, tmp_path, "b") == 3


def test_two_processes_that_make_it_at_once_are_not_in_each_others_way(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as processes:
        assert list(processes.map(often, [tmp_path, tmp_path])) == [200_000, 200_000]
