"""The budget: what was spent and what is promised, in one SQLite file that all processes share.

Money is kept in whole nanodollars and rounded up, so that sums are exact and never too low.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from eagle_assets.configuration import Configuration

_NANO = 1_000_000_000

# A row of `spending` is `reserved` while its request is under way; then `settled` at its real cost, or `unsettled`
# at its worst case while the real one is unknown. `totals` is the sum of `spending`, kept in the same transactions.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spending (
    reservation_id TEXT PRIMARY KEY,
    dataset TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'unsettled', 'settled')),
    nano_usd INTEGER NOT NULL,
    worst_nano_usd INTEGER NOT NULL,
    generation_id TEXT,
    reserved_at REAL NOT NULL,
    settled_at REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS open_spending ON spending (dataset, state) WHERE state != 'settled';
CREATE TABLE IF NOT EXISTS totals (
    dataset TEXT NOT NULL,
    state TEXT NOT NULL,
    nano_usd INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (dataset, state)
) STRICT, WITHOUT ROWID;
"""


class LedgerError(Exception):
    """The ledger cannot be used; one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """US dollars. `spent_usd` counts what is unsettled at its worst case; `unsettled` counts those requests."""

    spent_usd: float
    reserved_usd: float
    left_usd: float
    unsettled_usd: float
    unsettled: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole budget, and each dataset's part of it: what is left to a dataset is never more than is left in all."""

    budget_usd: float
    all: Amounts
    datasets: dict[str, Amounts]


@dataclass(frozen=True, slots=True)
class Open:
    """A row whose real cost is unknown; `generation_id` is None where the server never gave it a name."""

    reservation_id: str
    generation_id: str | None


class Ledger:
    """The budget as one process sees it. Every change is a transaction that excludes all other processes."""

    def __init__(self, path: Path, budget_usd: float, dataset_budgets: Mapping[str, float | None]) -> None:
        """Open or make the ledger. `dataset_budgets` names the datasets, each with its own cap or None.

        Raises LedgerError.
        """
        self._budget_usd = budget_usd
        self._dataset_budgets = dict(dataset_budgets)
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            self._database = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")

    @classmethod
    def open(cls, home_folder: Path, configuration: Configuration) -> Ledger:
        """The ledger of a home folder, under the caps of a datasets file."""
        caps = {name: dataset.budget_usd for name, dataset in configuration.bought.items()}
        return cls(ledger_path(home_folder), configuration.budget_usd, caps)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def reserve(self, reservation_id: str, dataset: str, worst_usd: float) -> bool:
        """Set `worst_usd` aside before a request leaves; False where that would go over a cap."""
        worst = _nano(worst_usd)
        with self._transaction():
            committed = dict(self._database.execute("SELECT dataset, sum(nano_usd) FROM totals GROUP BY 1").fetchall())
            cap = self._dataset_budgets.get(dataset)
            if sum(committed.values()) + worst > _cap(self._budget_usd) or (
                cap is not None and committed.get(dataset, 0) + worst > _cap(cap)
            ):
                return False
            self._database.execute(
                "INSERT INTO spending VALUES (?, ?, 'reserved', ?, ?, NULL, ?, NULL)",
                (reservation_id, dataset, worst, worst, time.time()),
            )
            self._add(dataset, "reserved", worst, 1)
        return True

    def settle(self, reservation_id: str, real_usd: float | None, generation_id: str | None = None) -> None:
        """End a reservation at its real cost. None is unknown: it stays at its worst case, to be settled later."""
        with self._transaction():
            row = self._database.execute(
                "SELECT dataset, state, nano_usd, worst_nano_usd FROM spending WHERE reservation_id = ?",
                (reservation_id,),
            ).fetchone()
            if row is None:
                raise LedgerError(f"the ledger {self._path} has no reservation {reservation_id}")
            dataset, state, before, worst = row
            if real_usd is None and state == "settled":
                return
            after, new_state = (worst, "unsettled") if real_usd is None else (_nano(real_usd), "settled")
            self._database.execute(
                "UPDATE spending SET state = ?, nano_usd = ?, generation_id = coalesce(?, generation_id),"
                " settled_at = ? WHERE reservation_id = ?",
                (new_state, after, generation_id, time.time(), reservation_id),
            )
            self._add(dataset, state, -before, -1)
            self._add(dataset, new_state, after, 1)

    def reserved(self, dataset: str) -> list[str]:
        """Reservations of a dataset that were not ended. Whoever holds the dataset's journal knows them to be dead."""
        return [row.reservation_id for row in self._open(dataset, "reserved")]

    def unsettled(self, dataset: str) -> list[Open]:
        """What is spent at its worst case, because the real cost is unknown."""
        return self._open(dataset, "unsettled")

    def totals(self) -> Totals:
        """Spent, reserved, left and unsettled, in all and for each dataset; also for those nothing was spent on."""
        with self._errors():
            rows = self._database.execute("SELECT dataset, state, nano_usd, requests FROM totals").fetchall()
        return _totals(rows, self._budget_usd, self._dataset_budgets)

    def _open(self, dataset: str, state: str) -> list[Open]:
        with self._errors():
            rows = self._database.execute(
                "SELECT reservation_id, generation_id FROM spending WHERE dataset = ? AND state = ?"
                " AND state != 'settled' ORDER BY reserved_at",
                (dataset, state),
            )
            return [Open(*row) for row in rows]

    def _add(self, dataset: str, state: str, nano_usd: int, requests: int) -> None:
        self._database.execute(
            "INSERT INTO totals VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET nano_usd = nano_usd + excluded.nano_usd, requests = requests + excluded.requests",
            (dataset, state, nano_usd, requests),
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(f"the ledger {self._path} cannot be used: {error}") from error


def ledger_path(home_folder: Path) -> Path:
    return home_folder / "ledger.sqlite"


def budget_totals(home_folder: Path, configuration: Configuration) -> Totals:
    """The totals of a home folder; makes nothing where nothing was spent yet. Raises LedgerError."""
    if not ledger_path(home_folder).exists():
        caps = {name: dataset.budget_usd for name, dataset in configuration.bought.items()}
        return _totals([], configuration.budget_usd, caps)
    with Ledger.open(home_folder, configuration) as ledger:
        return ledger.totals()


def _totals(
    rows: list[tuple[str, str, int, int]], budget_usd: float, dataset_budgets: Mapping[str, float | None]
) -> Totals:
    everything = _amounts(rows, budget_usd)
    datasets = {}
    for name in sorted({*dataset_budgets, *(row[0] for row in rows)}):
        own = [row for row in rows if row[0] == name]
        cap = dataset_budgets.get(name)
        datasets[name] = _amounts(own, cap, at_most=everything.left_usd)
    return Totals(budget_usd, everything, datasets)


def _amounts(rows: list[tuple[str, str, int, int]], cap_usd: float | None, at_most: float = float("inf")) -> Amounts:
    nano = {state: sum(n for _, s, n, _ in rows if s == state) for state in ("reserved", "unsettled", "settled")}
    left = at_most if cap_usd is None else min(at_most, (_cap(cap_usd) - sum(nano.values())) / _NANO)
    return Amounts(
        spent_usd=(nano["settled"] + nano["unsettled"]) / _NANO,
        reserved_usd=nano["reserved"] / _NANO,
        left_usd=max(0.0, left),
        unsettled_usd=nano["unsettled"] / _NANO,
        unsettled=sum(requests for _, state, _, requests in rows if state == "unsettled"),
    )


def _nano(usd: float) -> int:
    """Nanodollars, rounded up; a float's own error of less than a thousandth of one does not count."""
    return ceil(round(usd * _NANO, 3))


def _cap(usd: float) -> int:
    return int(usd * _NANO)
