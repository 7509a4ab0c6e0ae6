"""The deltas of a stream: runs of texts of one field, since an object for each takes longer than to find its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count, repeat
from typing import NamedTuple, overload


class Delta(NamedTuple):
    """One non-empty piece of a stream: the field it belongs to, its text, its call, and the frame that brought it."""

    field: str
    text: str
    call: int | None = None
    frame: int = 0


class Run(NamedTuple):
    """Texts of one field, and of one call, that came one after the other, a frame each, from `frame` on."""

    field: str
    call: int | None
    frame: int
    texts: list[str]


class Deltas(Sequence[Delta]):
    """A sequence of deltas, which are made where they are asked for."""

    __slots__ = ("_length", "runs")

    def __init__(self, deltas: Iterable[Delta] = ()) -> None:
        self.runs: list[Run] = []
        self._length = 0
        for delta in deltas:
            self.add(delta.field, [delta.text], delta.frame, delta.call)

    def add(self, field: str, texts: list[str], frame: int, call: int | None = None) -> None:
        """Add texts of one field that came one after the other, the first of them with this frame."""
        self._length += len(texts)
        if self.runs:
            last = self.runs[-1]
            if last[:2] == (field, call) and last.frame + len(last.texts) == frame:
                last.texts.extend(texts)
                return
        self.runs.append(Run(field, call, frame, list(texts)))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Delta: ...

    @overload
    def __getitem__(self, place: slice) -> list[Delta]: ...

    def __getitem__(self, place: int | slice) -> Delta | list[Delta]:
        return list(self)[place]

    def __iter__(self) -> Iterator[Delta]:
        return chain.from_iterable(map(_deltas_of, self.runs))

    def __eq__(self, other: object) -> bool:
        return self.runs == other.runs if isinstance(other, Deltas) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))


def _deltas_of(run: Run) -> Iterator[Delta]:
    return map(_delta, zip(repeat(run.field), run.texts, repeat(run.call), count(run.frame)))


_delta = partial(tuple.__new__, Delta)  # what `Delta._make` does, without a step of Python
