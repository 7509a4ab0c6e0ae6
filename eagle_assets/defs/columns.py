"""Parquet columns as Dagster shows them."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa

from eagle_assets.lake.schemas import description_of


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[dg.TableColumn(field.name, str(field.type), description_of(field)) for field in schema]
    )
