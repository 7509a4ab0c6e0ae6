"""What is wrong with the rows of a file that a person made: how many, and the first few, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

MOST_NAMED = 5


class WrongRows(Exception):
    """A file that cannot be used. `problems` are what is wrong with its rows, each with its line (`line 3: …`), or the
    message where it is the file itself."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (message,)

    @classmethod
    def of(cls, path: Path, problems: Sequence[str]) -> Self:
        """The message names the file and the first few."""
        if len(problems) == 1:
            return cls(f"{path}, {problems[0]}", problems)
        return cls(f"{path}: {len(problems):,} rows cannot be used: {first_few(problems)}", problems)


def first_few(problems: Sequence[str]) -> str:
    """Some problems in a line, and how many more there are."""
    more = [f"and {len(problems) - MOST_NAMED:,} more"] if len(problems) > MOST_NAMED else []
    return "; ".join([*problems[:MOST_NAMED], *more])


def in_other_form(first_line: bytes) -> str | None:
    """What a file is that holds no lines of text, by how it begins, and what to do about it; None where it may."""
    return next((told for begins, told in _OTHER_FORMS.items() if first_line.startswith(begins)), None)


_OTHER_FORMS = {
    b"\x1f\x8b": "it is compressed with gzip; unpack it first, with gunzip",
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd; unpack it first, with unzstd",
    b"PK\x03\x04": "it is a zip archive; unpack it first",
    b"PAR1": "it is a Parquet file; write its rows as JSON, a line each",
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
}


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
