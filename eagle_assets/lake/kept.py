"""Results that are kept beside published files, each named after the content and the code that it came from."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from eagle_assets.lake.audit import File, Published
from eagle_assets.lake.home import Home


@dataclass(frozen=True, slots=True)
class Part:
    """A published file, and where what it leads to is kept, whether that is there or not."""

    file: File
    path: Path
    kept: Path


def parts_of(published: Published, what: str, code: str) -> list[Part]:
    """The files of a version; `what` is kept of each as long as its content and the digest `code` stay the same."""
    folder = published.home.kept(what, str(published.audit.dataset))
    folder.mkdir(parents=True, exist_ok=True)
    files = zip(published.audit.files, published.paths, strict=True)
    return [Part(file, path, folder / f"{file.sha256[:24]}-{code}") for file, path in files]


def forget_others(home: Home, what: str, dataset: str, parts: Iterable[Part]) -> None:
    """Remove what was kept of other files of a dataset, or came from other code."""
    keep_only(home.kept(what, dataset), {part.kept.name for part in parts})


def keep_only(folder: Path, names: Container[str]) -> None:
    """Remove the other files of a folder, but for those that another process is writing."""
    for path in folder.iterdir():
        if path.name not in names and not path.name.startswith("."):
            path.unlink(missing_ok=True)
