"""Which code a result was made by: a digest of its source and of the packages that decide beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
WHOLE = (".",)


@cache
def digest_of_code(rooms: Sequence[str], packages: Sequence[str] = ()) -> str:
    """A digest of the modules in these places of this package, and of the versions of other packages."""
    digest = hashlib.sha256()
    for room in rooms:
        digest.update(_source_of(room))
    for package in packages:
        digest.update(f"{package} {version(package)}".encode())
    return digest.hexdigest()[:12]


@cache
def _source_of(room: str) -> bytes:
    place = PACKAGE / room
    return b"".join(path.read_bytes() for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place]))
