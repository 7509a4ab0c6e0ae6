"""What a report is made of: trials in sections, and gates that let a run go on or stop it. No package is needed."""

from __future__ import annotations

from dataclasses import dataclass

Number = int | float | str


class ModelFolderError(ValueError):
    """A model folder that holds no tokenizer that can be read; one sentence."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing that was tried. `as_expected` is None where the result informs and nothing is expected of it."""

    tried: str
    result: str
    as_expected: bool | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Trials that answer one question; `conclusion` is the answer where all came out as expected."""

    title: str
    trials: tuple[Trial, ...]
    conclusion: str

    @property
    def passed(self) -> bool:
        """Whether nothing came out otherwise than expected."""
        return all(trial.as_expected is not False for trial in self.trials)

    @property
    def answer(self) -> str:
        """The conclusion, or the first trial that came out otherwise than expected."""
        failed = next((trial for trial in self.trials if trial.as_expected is False), None)
        return self.conclusion if failed is None else f"Not as it should be. {failed.tried}: {failed.result}."


@dataclass(frozen=True, slots=True)
class Gate:
    """A named condition without which no run may spend money; `numbers` are what the sentence rests on."""

    name: str
    passed: bool
    sentence: str
    numbers: dict[str, Number]


def shown(text: str | bytes, most: int = 60) -> str:
    """`text` on one line, quoted, escapes visible, cut in the middle where it is longer than `most` characters."""
    line = repr(text if isinstance(text, str) else text.decode(errors="backslashreplace"))
    return line if len(line) <= most else f"{line[: most - 20]} … {line[-17:]}"


def shown_ids(ids: list[int], most: int = 12) -> str:
    """Ids with blanks between, and how many there are where that is more than `most`."""
    return " ".join(map(str, ids)) if len(ids) <= most else f"{' '.join(map(str, ids[:most]))} … ({len(ids)} tokens)"
