"""Parquet columns as Dagster shows them."""

from __future__ import annotations

import dagster as dg

from eagle_assets.lake.columns import Columns


def column_schema(columns: Columns) -> dg.TableSchema:
    return dg.TableSchema(columns=[dg.TableColumn(name, kind, text) for name, (kind, text) in columns.items()])
