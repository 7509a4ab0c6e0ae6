"""`eagle.duckdb`: every audit as a row, and views over the Parquet files that the audit records name.

It is built aside, and a copy of it renamed, so a reader meets neither a lock nor half a catalogue, and its views read
links to the files as they were then, so what is published meanwhile does not disturb it. Paths in it are absolute, so
that it answers from any folder. The Parquet files stay the truth; the catalogue can be built again at any time.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from eagle_assets.durability import write_atomically
from eagle_assets.lake.audit import Audit, Record, read_history, read_record
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import (
    AUDITS,
    CALIBRATION,
    CHECKS,
    JUDGED_SEQUENCES,
    LEDGER,
    PROMPTS,
    RAW_RESPONSES,
    TOKEN_FREQUENCIES,
    TOKEN_SEQUENCES,
    TRAINING_SHARDS,
)
from eagle_assets.lake.snapshot import Snapshot

SQL_FOLDER = Path(__file__).parents[2] / "sql"
ATTEMPTS = 5

# View name: the stage whose Parquet files it shows, and their columns.
STAGE_VIEWS: dict[str, tuple[str, pa.Schema]] = {
    "prompts": ("prompts", PROMPTS),
    "raw_responses": ("raw_responses", RAW_RESPONSES),
    "token_sequences": ("token_sequences", TOKEN_SEQUENCES),
    "judged_sequences": ("judged_sequences", JUDGED_SEQUENCES),
    "training_shards": ("training_shards", TRAINING_SHARDS),
    "token_frequencies": ("draft_vocabulary", TOKEN_FREQUENCIES),
}


class CatalogueError(Exception):
    """The catalogue cannot be built or read; the message says what to do."""


@dataclass(frozen=True)
class LedgerTotal:
    """The ledger's totals for one dataset, or for the whole budget where `dataset` is None; US dollars."""

    dataset: str | None
    spent_usd: float
    reserved_usd: float
    left_usd: float


def build_catalogue(
    home: Home,
    ledger: Iterable[LedgerTotal] = (),
    sql_folder: Path = SQL_FOLDER,
    verdict_stage: str = "token_sequences",
) -> Path:
    """Build the catalogue anew and put it in place of the old one; returns its path. `verdict_stage` is the stage whose
    verdicts the shards go by, which `verdict_stage()` says in SQL.

    Raises CatalogueError where `sql_folder` is missing or a view in it is wrong, GateClosed where an audit record is
    damaged.
    """
    totals = list(ledger)
    with home.locked("catalogue"):
        for killed in home.root.glob(f".{home.catalogue.name}.*"):
            killed.unlink()
        name = uuid.uuid4().hex
        aside, snapshot = home.catalogue.with_name(f".{home.catalogue.name}.{name}"), Snapshot(home, name)
        try:
            with duckdb.connect(aside) as connection:
                connection.execute(f"CREATE MACRO verdict_stage() AS {_quoted(verdict_stage)}")
                _fill(connection, home, snapshot, totals, sql_folder)
                connection.execute("CHECKPOINT")
            # A copy: DuckDB never had this one open for writing, so it does not matter when it lets go of the other.
            write_atomically(home.catalogue, aside.read_bytes())
        except BaseException:
            snapshot.remove()
            raise
        finally:
            aside.unlink(missing_ok=True)
        snapshot.remove_older()
    return home.catalogue


def tells_of(home: Home, audits: Iterable[Audit]) -> bool:
    """Whether the catalogue has all of these audits; of none it needs no catalogue."""
    wanted = {_digest(audit) for audit in audits}
    if not wanted or not home.catalogue.is_file():
        return not wanted
    try:
        with duckdb.connect(home.catalogue, read_only=True) as connection:
            known = connection.sql("SELECT audit_sha256 FROM audits").fetchall()
    except duckdb.Error:  # of another version of this program
        return False
    return wanted <= {digest for (digest,) in known}


def sql_files(folder: Path) -> list[Path]:
    """The SQL files of a folder by name. Raises CatalogueError where there is no such folder."""
    if not folder.is_dir():
        raise CatalogueError(
            f"{folder} is missing: the SQL lies at the root of the repository, so install from there with `make setup`"
        )
    return sorted(folder.glob("*.sql"))


def _fill(
    connection: duckdb.DuckDBPyConnection, home: Home, snapshot: Snapshot, ledger: list[LedgerTotal], sql_folder: Path
) -> None:
    history = read_history(home)
    records = {key: read_record(home, *key) for key in {(audit.stage, audit.dataset) for audit in history}}
    _create_table(connection, "audits", AUDITS, [_audit_row(audit, records) for audit in history])
    _create_table(connection, "checks", CHECKS, [row for audit in history for row in _check_rows(audit)])
    _create_table(connection, "ledger", LEDGER, [asdict(total) for total in ledger])
    _create_table(connection, "calibration", CALIBRATION, _standings(home))
    for name, (stage, schema) in STAGE_VIEWS.items():
        _create_stage_view(connection, home, snapshot, name, stage, schema)
    for path in sql_files(sql_folder / "views"):
        try:
            connection.execute(path.read_text(encoding="utf-8"))
        except duckdb.Error as error:
            raise CatalogueError(f"{path}: {error}") from None


def _standings(home: Home) -> list[dict[str, object]]:
    """What `provider_calibration` found of each provider; nothing where it was not published yet."""
    audit = read_record(home, "provider_calibration").published
    files = [file.name for file in audit.files if file.written_as == "standings.json"] if audit is not None else []
    paths = [home.folder("provider_calibration") / name for name in files]
    return [row for path in paths if path.is_file() for row in msgspec.json.decode(path.read_bytes())]


def _create_stage_view(
    connection: duckdb.DuckDBPyConnection, home: Home, snapshot: Snapshot, name: str, stage: str, schema: pa.Schema
) -> None:
    """A view over the published files of all datasets. A version may be superseded while it is being looked at."""
    columns = _empty_select(connection, schema)
    for attempt in range(ATTEMPTS):
        try:
            files = [snapshot.keep(path) for path in _published_files(home, stage)]
        except FileNotFoundError as error:
            if attempt == ATTEMPTS - 1:
                raise CatalogueError(f"{error.filename} is missing; materialise {stage} again") from None
            continue
        select = columns
        if files:
            listed = ", ".join(_quoted(str(path)) for path in files)
            select += (
                " UNION ALL BY NAME SELECT * FROM "
                f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
            )
        try:
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS {select}")
            _describe(connection, name, schema)
            return
        except duckdb.IOException as error:
            if attempt == ATTEMPTS - 1:
                raise CatalogueError(f"the files of {stage} cannot be read: {error}; materialise it again") from None


def _published_files(home: Home, stage: str) -> list[Path]:
    return [
        home.folder(stage, dataset) / file.name
        for dataset in (None, *home.audited_datasets(stage))
        if (audit := read_record(home, stage, dataset).published) is not None
        for file in audit.files
        if file.name.endswith(".parquet")
    ]


def _empty_select(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> str:
    """A SELECT of no rows with DuckDB's types for the columns of `schema`."""
    relation = connection.from_arrow(schema.empty_table())
    columns = (f'NULL::{kind} AS "{name}"' for name, kind in zip(relation.columns, relation.types, strict=True))
    return f"SELECT {', '.join(columns)} WHERE false"


def _create_table(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Sequence[dict[str, object]]
) -> None:
    connection.from_arrow(pa.Table.from_pylist(rows, schema)).create(name)
    _describe(connection, name, schema)


def _describe(connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema) -> None:
    """What the columns hold, for whoever looks into `duckdb_columns()`."""
    for field in schema:
        description = _quoted(field.metadata[b"description"].decode())
        connection.execute(f'COMMENT ON COLUMN {name}."{field.name}" IS {description}')


def _audit_row(audit: Audit, records: dict[tuple[str, str | None], Record]) -> dict[str, object]:
    return {
        "time": datetime.fromisoformat(audit.time),
        "stage": audit.stage,
        "dataset": audit.dataset,
        "passed": audit.passed,
        "is_current": records[audit.stage, audit.dataset].published == audit,
        "run_id": audit.run_id,
        "identity": audit.identity,
        "code_version": audit.code_version,
        "vocabulary": audit.vocabulary,
        "files": len(audit.files),
        "rows": audit.rows,
        "bytes": sum(file.bytes for file in audit.files),
        "counts": audit.counts,
        "failed_checks": [check.name for check in audit.failed_checks],
        "audit_sha256": _digest(audit),
    }


def _digest(audit: Audit) -> str:
    return hashlib.sha256(msgspec.json.encode(audit)).hexdigest()


def _check_rows(audit: Audit) -> Iterable[dict[str, object]]:
    for check in audit.checks:
        yield {
            "time": datetime.fromisoformat(audit.time),
            "stage": audit.stage,
            "dataset": audit.dataset,
            "run_id": audit.run_id,
            "name": check.name,
            "passed": check.passed,
            "sentence": check.sentence,
            "numbers": check.numbers,
            "worst": msgspec.json.encode(check.worst).decode(),
        }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
