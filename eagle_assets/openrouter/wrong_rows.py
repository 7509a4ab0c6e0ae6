"""What is wrong with the rows of a file that a person made: how many, and the first few, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

MOST_NAMED = 5


class WrongRows(Exception):
    """A file whose rows are not all usable, or which cannot be read at all. `problems` are what is wrong, each with the
    file and the line; the message has the first few of them."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(in_a_sentence(problems))


def in_a_sentence(problems: Sequence[str]) -> str:
    """The first few of some problems, and how many there are where they are more than one."""
    named = "; ".join(problems[:MOST_NAMED])
    if len(problems) > MOST_NAMED:
        named += f"; and {len(problems) - MOST_NAMED:,} more"
    return named if len(problems) == 1 else f"{len(problems):,} rows cannot be used: {named}"


def problem(path: Path, line: int, what: str) -> str:
    """What is wrong with a row, which stands on a line, counted from 1."""
    return f"{path}, line {line}: {what}"


def in_plain_words(error: ValueError) -> str:
    """What msgspec says of a line that it cannot read, without its types and paths; as it is where it is another's."""
    said = str(error)
    if found := _MISSING.fullmatch(said):
        return f"{_within(found[2], found[1])} is missing"
    if found := _EXPECTED.fullmatch(said):
        wanted = " or ".join(_KINDS.get(kind, kind) for kind in found[1].split(" | ") if kind != "null")
        return f"{found[3] or 'it'} is {_KINDS.get(found[2], found[2])}, not {wanted}"
    if said.startswith("JSON is malformed"):
        return said.replace("JSON is malformed", "it is no JSON")
    return _OTHERS.get(said, said)


_MISSING = re.compile(r"Object missing required field `(.+?)`(?: - at `\$\.?(.*)`)?")
_EXPECTED = re.compile(r"Expected `(.+?)`, got `(.+?)`(?: - at `\$\.?(.*)`)?")
_OTHERS = {
    "Input data was truncated": "it is no JSON: it ends in the middle",
    "Invalid UTF-8 encoded string": "it is not UTF-8; save the file as UTF-8",
}
_KINDS = {
    "int": "a whole number",
    "float": "a number with a fraction",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a JSON object",
}


def _within(place: str | None, name: str) -> str:
    return f"{place}.{name}" if place else name
