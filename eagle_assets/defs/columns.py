"""Parquet columns as Dagster shows them."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    return dg.TableSchema(columns=[dg.TableColumn(field.name, str(field.type)) for field in schema])
