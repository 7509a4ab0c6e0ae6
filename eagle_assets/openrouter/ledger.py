"""The budget: what was spent and what is promised, in one SQLite file that all processes share.

Money is kept in whole nanodollars and rounded up, so that sums are exact and never too low.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from threading import Lock

from eagle_assets.configuration import Configuration
from eagle_assets.openrouter.entries import Open, Reservation, Settlement, Tick
from eagle_assets.openrouter.journal_reader import journaled_datasets, open_journal
from eagle_assets.openrouter.totals import Sum, Totals, totals_of

_NANO = 1_000_000_000

# A row of `spending` is `reserved` while its request is under way; then `settled` at its real cost, or `unsettled`
# at its worst case while the real one is unknown. `totals` is the sum of `spending`, kept in the same transactions.
# Texts that are not known are empty. `meter` holds what the key's own meter showed before the first request left.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spending (
    reservation_id TEXT PRIMARY KEY,
    dataset TEXT NOT NULL,
    tick TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'unsettled', 'settled')),
    nano_usd INTEGER NOT NULL,
    worst_nano_usd INTEGER NOT NULL,
    generation_id TEXT,
    provider TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    reserved_at REAL NOT NULL,
    settled_at REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS open_spending ON spending (dataset, state) WHERE state != 'settled';
CREATE TABLE IF NOT EXISTS totals (
    dataset TEXT NOT NULL,
    tick TEXT NOT NULL,
    provider TEXT NOT NULL,
    state TEXT NOT NULL,
    nano_usd INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    PRIMARY KEY (dataset, tick, provider, state)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meter (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    key_digest TEXT NOT NULL,
    nano_usd INTEGER NOT NULL,
    one_key INTEGER NOT NULL
) STRICT;
"""


class LedgerError(Exception):
    """The ledger cannot be used; one sentence that says why."""


class Ledger:
    """The budget as one process sees it. Every change is a transaction that excludes all other processes.

    Methods may be called from any thread.
    """

    def __init__(self, path: Path, budget_usd: float, dataset_budgets: Mapping[str, float | None]) -> None:
        """Open or make the ledger. `dataset_budgets` names the datasets, each with its own cap or None.

        Raises LedgerError.
        """
        self._budget_usd = budget_usd
        self._dataset_budgets = dict(dataset_budgets)
        self._path = path
        self._lock = Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")

    @classmethod
    def open(cls, home_folder: Path, configuration: Configuration) -> Ledger:
        """The ledger of a home folder, under the caps of a datasets file.

        Raises LedgerError, also where it is gone although something was asked: what is left is then not known.
        """
        _not_lost(home_folder, configuration)
        return cls(ledger_path(home_folder), configuration.budget_usd, caps_of(configuration))

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def reserve(self, reservation_id: str, dataset: str, worst_usd: float, tick: Tick | None = None) -> bool:
        """Set `worst_usd` aside before a request leaves; False where that would go over a cap."""
        return self.apply([Reservation(reservation_id, dataset, worst_usd, tick)])[0]

    def settle(self, reservation_id: str, real_usd: float | None, generation_id: str | None = None) -> None:
        """End a reservation at its real cost. None is unknown: it stays at its worst case, to be settled later."""
        self.apply([Settlement(reservation_id, real_usd, generation_id)])

    def apply(self, entries: Sequence[Reservation | Settlement]) -> list[bool]:
        """Enter these in one transaction, in order. False for a reservation that would go over a cap, else True.

        Raises LedgerError, and then nothing was entered.
        """
        with self._transaction():
            return [
                self._reserve(entry) if isinstance(entry, Reservation) else self._settle(entry) for entry in entries
            ]

    def reserved(self, dataset: str) -> list[str]:
        """Reservations of a dataset that were not ended. Whoever holds the dataset's journal knows them to be dead."""
        return [row.reservation_id for row in self._open(dataset, "reserved")]

    def unsettled(self, dataset: str) -> list[Open]:
        """What is spent at its worst case, because the real cost is unknown."""
        return self._open(dataset, "unsettled")

    def sums(self) -> list[Sum]:
        """What was entered, summed up."""
        with self._errors():
            rows = self._database.execute(
                "SELECT dataset, tick, provider, state, nano_usd / 1e9, requests, prompt_tokens, completion_tokens"
                " FROM totals WHERE requests > 0 ORDER BY 1, 2, 3, 4"
            )
            return [Sum(*row) for row in rows]

    def totals(self) -> Totals:
        """Spent, reserved, left and unsettled, in all and for each dataset; also for those nothing was spent on."""
        return totals_of(self.sums(), self._budget_usd, self._dataset_budgets)

    def watch_meter(self, key_digest: str, usage_usd: float | None) -> bool:
        """Whether the meter of this key tells what this ledger spent: it was read before the first request left, and
        no other key has paid since. `usage_usd` is what it shows now, or None where only the question is asked."""
        with self._transaction():
            row = self._database.execute("SELECT key_digest, one_key FROM meter").fetchone()
            if row is not None:
                one_key = bool(row[1]) and row[0] == key_digest
                if not one_key:
                    self._database.execute("UPDATE meter SET one_key = 0")
                return one_key
            if usage_usd is None or self._database.execute("SELECT 1 FROM spending LIMIT 1").fetchone() is not None:
                return False
            self._database.execute("INSERT INTO meter VALUES (1, ?, ?, 1)", (key_digest, int(usage_usd * _NANO)))
            return True

    def unexplained_usd(self, usage_usd: float) -> float | None:
        """What the meter shows beyond the costs that are known, within rounding; below 0 it lags behind.

        None while a request is under way, or where the meter was not watched from the start.
        """
        with self._transaction():
            nano = self._unexplained(usage_usd)
            return None if nano is None else nano / _NANO

    def settle_by_meter(self, usage_usd: float) -> int:
        """Let what is unsettled cost together no more than the meter shows beyond the known costs, each in proportion
        to its worst case. Returns how many were settled so; 0 where the meter does not tell, or would not lower it.
        """
        with self._transaction():
            unexplained = self._unexplained(usage_usd)
            rows = self._database.execute(
                "SELECT reservation_id, worst_nano_usd FROM spending WHERE state = 'unsettled'"
            ).fetchall()
            worst = sum(nano for _, nano in rows)
            if unexplained is None or unexplained < 0 or unexplained >= worst:
                return 0
            for reservation_id, nano in rows:
                self._settle(Settlement(reservation_id, -(-nano * unexplained // worst) / _NANO))
            return len(rows)

    def _unexplained(self, usage_usd: float) -> int | None:
        """In nanodollars; exactly 0 where the difference is no more than rounding can explain."""
        row = self._database.execute("SELECT nano_usd FROM meter WHERE one_key = 1").fetchone()
        sums = self._database.execute("SELECT state, sum(nano_usd), sum(requests) FROM totals GROUP BY 1").fetchall()
        nano = {state: amount for state, amount, _ in sums}
        requests = {state: count for state, _, count in sums}
        if row is None or requests.get("reserved", 0):
            return None
        unexplained = _nano(usage_usd) - row[0] - nano.get("settled", 0)
        return 0 if abs(unexplained) <= 10 + 2 * sum(requests.values()) else unexplained

    def _reserve(self, entry: Reservation) -> bool:
        worst = _nano(entry.worst_usd)
        select = self._database.execute
        committed = dict(select("SELECT dataset, sum(nano_usd) FROM totals GROUP BY 1").fetchall())
        cap = self._dataset_budgets.get(entry.dataset)
        if sum(committed.values()) + worst > _cap(self._budget_usd) or (
            cap is not None and committed.get(entry.dataset, 0) + worst > _cap(cap)
        ):
            return False
        tick = entry.tick
        if tick is not None and tick.budget_usd is not None:
            (in_tick,) = select(
                "SELECT coalesce(sum(nano_usd), 0) FROM totals WHERE dataset = ? AND tick = ?",
                (entry.dataset, tick.name),
            ).fetchone()
            if in_tick + worst > _cap(tick.budget_usd):
                return False
        name = tick.name if tick is not None else ""
        self._database.execute(
            "INSERT INTO spending VALUES (?, ?, ?, 'reserved', ?, ?, NULL, '', 0, 0, ?, NULL)",
            (entry.reservation_id, entry.dataset, name, worst, worst, time.time()),
        )
        self._add(entry.dataset, name, "", "reserved", worst, 1, 0, 0)
        return True

    def _settle(self, entry: Settlement) -> bool:
        row = self._database.execute(
            "SELECT dataset, tick, provider, state, nano_usd, prompt_tokens, completion_tokens, worst_nano_usd"
            " FROM spending WHERE reservation_id = ?",
            (entry.reservation_id,),
        ).fetchone()
        if row is None:
            raise LedgerError(f"the ledger {self._path} has no reservation {entry.reservation_id}")
        dataset, tick, provider, state, before, prompt, completion, worst = row
        if entry.real_usd is None and state == "settled":
            return True
        known = _nano(entry.real_usd) if entry.real_usd is not None else None
        after, new_state = (worst, "unsettled") if known is None else (known, "settled")
        new_provider = entry.provider or provider
        new_prompt, new_completion = entry.prompt_tokens or prompt, entry.completion_tokens or completion
        self._database.execute(
            "UPDATE spending SET state = ?, nano_usd = ?, generation_id = coalesce(?, generation_id), provider = ?,"
            " prompt_tokens = ?, completion_tokens = ?, settled_at = ? WHERE reservation_id = ?",
            (
                new_state,
                after,
                entry.generation_id,
                new_provider,
                new_prompt,
                new_completion,
                time.time(),
                entry.reservation_id,
            ),
        )
        self._add(dataset, tick, provider, state, -before, -1, -prompt, -completion)
        self._add(dataset, tick, new_provider, new_state, after, 1, new_prompt, new_completion)
        return True

    def _open(self, dataset: str, state: str) -> list[Open]:
        with self._errors():
            rows = self._database.execute(
                "SELECT reservation_id, generation_id FROM spending WHERE dataset = ? AND state = ?"
                " AND state != 'settled' ORDER BY reserved_at",
                (dataset, state),
            )
            return [Open(*row) for row in rows]

    def _add(self, dataset: str, tick: str, provider: str, state: str, *amounts: int) -> None:
        self._database.execute(
            "INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET nano_usd = nano_usd + excluded.nano_usd, requests = requests + excluded.requests,"
            " prompt_tokens = prompt_tokens + excluded.prompt_tokens,"
            " completion_tokens = completion_tokens + excluded.completion_tokens",
            (dataset, tick, provider, state, *amounts),
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
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise LedgerError(f"the ledger {self._path} cannot be used: {error}") from error


def ledger_path(home_folder: Path) -> Path:
    return home_folder / "ledger.sqlite"


def caps_of(configuration: Configuration) -> dict[str, float | None]:
    """The datasets that are bought, each with its own cap or None."""
    return {name: dataset.budget_usd for name, dataset in configuration.bought.items()}


def budget_totals(home_folder: Path, configuration: Configuration) -> Totals:
    """The totals of a home folder; makes nothing where nothing was spent yet. Raises LedgerError."""
    if ledger_path(home_folder).exists():
        with Ledger.open(home_folder, configuration) as ledger:
            return ledger.totals()
    _not_lost(home_folder, configuration)
    return totals_of([], configuration.budget_usd, caps_of(configuration))


def _not_lost(home_folder: Path, configuration: Configuration) -> None:
    path = ledger_path(home_folder)
    if path.exists():
        return
    journals = {name: open_journal(home_folder, name) for name in journaled_datasets(home_folder)}
    asked = [name for name, j in journals.items() if name not in configuration.own and not j.is_empty]
    if asked:
        raise LedgerError(
            f"the ledger {path} is gone, though something was bought for {', '.join(asked)}, so that nobody knows what "
            "is left of the budget: put the file back; where there is no copy, lower budget_usd by what your account "
            "shows as spent, and make an empty file in its place"
        )


def _nano(usd: float) -> int:
    """Nanodollars, rounded up; a float's own error of less than a thousandth of one does not count."""
    return ceil(round(usd * _NANO, 3))


def _cap(usd: float) -> int:
    return int(usd * _NANO)
