"""The Parquet schema of each stage, made from its columns."""

from __future__ import annotations

import pyarrow as pa

from eagle_assets.lake import columns
from eagle_assets.lake.columns import Columns

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "list<int32>": pa.list_(pa.int32()),
    "list<string>": pa.list_(pa.string()),
    "list<uint8>": pa.list_(pa.uint8()),
    "map<string, double>": pa.map_(pa.string(), pa.float64()),
}


def described(columns: Columns) -> pa.Schema:
    """A schema whose fields carry their description, in the files too."""
    return pa.schema(
        [pa.field(name, _TYPES[kind], metadata={"description": text}) for name, (kind, text) in columns.items()]
    )


PROMPTS = described(columns.PROMPTS)
RAW_RESPONSES = described(columns.RAW_RESPONSES)
TOKEN_SEQUENCES = described(columns.TOKEN_SEQUENCES)
JUDGED_SEQUENCES = described(columns.JUDGED_SEQUENCES)
TRAINING_SHARDS = described(columns.TRAINING_SHARDS)
TOKEN_FREQUENCIES = described(columns.TOKEN_FREQUENCIES)
CALIBRATION = described(columns.CALIBRATION)
AUDITS = described(columns.AUDITS)
CHECKS = described(columns.CHECKS)
LEDGER = described(columns.LEDGER)
