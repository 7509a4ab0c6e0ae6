"""The ready queries of `sql/queries/`, each one file whose leading comment says what it answers."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from eagle_assets.lake.catalogue import SQL_FOLDER, CatalogueError, sql_files
from eagle_assets.lake.home import Home


@dataclass(frozen=True)
class Query:
    """A ready query; `answers` is its leading comment."""

    name: str
    answers: str
    sql: str


@dataclass(frozen=True)
class Answer:
    """Rows of a query, in order of its columns."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def as_objects(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def as_csv(self) -> str:
        """With a header; lists with their items joined by semicolons."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["; ".join(map(str, v)) if isinstance(v, list) else v for v in row] for row in self.rows)
        return text.getvalue()

    def as_table(self, title: str) -> Table:
        """For people: numbers to the right, nothing for null."""
        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        for i, column in enumerate(self.columns):
            is_number = any(isinstance(row[i], int | float) and not isinstance(row[i], bool) for row in self.rows)
            longest = max((len(_shown(row[i])) for row in self.rows), default=0)
            # Where there is little room headings wrap first, then long texts: a row without its names says nothing.
            room = longest if is_number else min(longest, _ENOUGH_OF_A_NAME)
            justify: JustifyMethod = "right" if is_number else "left"
            table.add_column(column.replace("_", " "), justify=justify, min_width=room, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(_shown(value)) for value in row))
        return table


def ready_queries(sql_folder: Path = SQL_FOLDER) -> dict[str, Query]:
    """All queries by name. Raises CatalogueError where the folder is missing."""
    return {path.stem: _read_query(path) for path in sql_files(sql_folder / "queries")}


def run_query(home: Home, name: str, dataset: str | None = None) -> Answer:
    """Run a ready query on the catalogue, which is opened for reading only; over one dataset, or all of them.

    Raises CatalogueError where the query, the dataset or the catalogue is not there, or the files it names have gone.
    """
    queries = ready_queries()
    if name not in queries:
        raise CatalogueError(f"there is no query {name!r}; there are: {', '.join(queries)}")
    if not home.catalogue.is_file():
        raise CatalogueError(
            f"there is no catalogue at {home.catalogue}: `eagle-assets run` makes it; what `make demo` made lies "
            "elsewhere: EAGLE_ASSETS_HOME=data/demo eagle-assets query"
        )
    try:
        with duckdb.connect(home.catalogue, read_only=True) as connection:
            if dataset is not None:
                _ask_for(connection, dataset)
            relation = connection.sql(queries[name].sql)
            return Answer(relation.columns, relation.fetchall())
    except duckdb.Error as error:
        raise CatalogueError(
            f"query {name} fails on {home.catalogue} ({str(error).splitlines()[0]}); "
            "if data was materialised since, materialise run_statistics again"
        ) from None


def listed() -> Answer:
    """The ready queries themselves: name, and what each answers."""
    return Answer(["query", "answers"], [(query.name, query.answers) for query in ready_queries().values()])


def outdated(home: Home, verdict_stage: str) -> list[str]:
    """What has changed since the catalogue was built, a sentence each; nothing where there is none. `verdict_stage` is
    the one of the datasets file as it is."""
    if not home.catalogue.is_file():
        return []
    try:
        with duckdb.connect(home.catalogue, read_only=True) as connection:
            ((known, stage),) = connection.sql("SELECT count(*), verdict_stage() FROM audits").fetchall()
    except duckdb.Error:
        return [f"eagle.duckdb was made by another version of this program{_MAKE_IT_ANEW}"]
    newer = sum(1 for _ in home.history.glob("*.json")) - int(known)
    found = [f"{newer} audits ended since eagle.duckdb was made"] if newer else []
    if stage != verdict_stage:
        found.append(
            f"verdicts in eagle.duckdb are those of {stage}, and the datasets file goes by {verdict_stage} now"
        )
    return [f"{sentence}{_MAKE_IT_ANEW}" for sentence in found]


_ENOUGH_OF_A_NAME = 12  # letters of a text that stay in one line
_MAKE_IT_ANEW = ": materialise run_statistics again"


def _ask_for(connection: duckdb.DuckDBPyConnection, dataset: str) -> None:
    rows = connection.sql("SELECT DISTINCT dataset FROM audits WHERE dataset IS NOT NULL ORDER BY 1").fetchall()
    if (dataset,) not in rows:
        known = ", ".join(name for (name,) in rows) or "none yet"
        raise CatalogueError(f"there is no dataset {dataset!r} in the catalogue; there are: {known}")
    connection.execute("SET VARIABLE dataset = $name", {"name": dataset})


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _read_query(path: Path) -> Query:
    sql = path.read_text(encoding="utf-8")
    comment = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        comment.append(line.removeprefix("--").strip())
    return Query(path.stem, " ".join(comment), sql)
