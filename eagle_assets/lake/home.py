"""Where everything lies: the one place that turns a stage and a dataset into a path."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

AUDIT_FILE = "_audit.json"


@dataclass(frozen=True)
class Home:
    """All paths under the home folder (`EAGLE_ASSETS_HOME`). A dataset of None means a stage without partitions."""

    root: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", self.root.expanduser().absolute())

    def folder(self, stage: str, dataset: str | None = None) -> Path:
        """Published files of a stage: `token_sequences/dataset=B3/`, or `draft_vocabulary/`."""
        return self.root / stage / f"dataset={dataset}" if dataset is not None else self.root / stage

    def audit(self, stage: str, dataset: str | None = None) -> Path:
        """The audit record of a stage; it names the files of the current version."""
        return self.folder(stage, dataset) / AUDIT_FILE

    def audited_datasets(self, stage: str) -> list[str]:
        """Datasets of which a stage has an audit record, good or not, by name."""
        return sorted(
            path.parent.name.removeprefix("dataset=") for path in (self.root / stage).glob(f"dataset=*/{AUDIT_FILE}")
        )

    def staging(self, stage: str, dataset: str | None, run_id: str) -> Path:
        """Files that are not audited yet, on the same file system as the published ones."""
        return self.root / ".staging" / stage / (dataset or "all") / run_id

    @property
    def exports(self) -> Path:
        """A folder for each export that the asset `exports` made."""
        return self.root / "exports"

    def kept(self, what: str, dataset: str) -> Path:
        """Results that cost much and depend on published files and on the code alone; they may go at any time."""
        return self.root / ".kept" / what / f"dataset={dataset}"

    @property
    def history(self) -> Path:
        """A JSON file for each audit that ever ended, passed or failed, named so that they sort by time."""
        return self.root / "audits"

    @property
    def catalogue(self) -> Path:
        """The DuckDB file with the views of `sql/`."""
        return self.root / "eagle.duckdb"

    @contextmanager
    def locked(self, stage: str, dataset: str | None = None) -> Iterator[None]:
        """Hold a stage of a dataset against every other process on this machine; waits for whoever has it."""
        path = self.root / ".locks" / f"{stage}.{dataset or 'all'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def is_locked(self, stage: str, dataset: str | None = None) -> bool:
        """Whether another process makes a version of this stage of the dataset at this moment."""
        path = self.root / ".locks" / f"{stage}.{dataset or 'all'}"
        if not path.is_file():
            return False
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
