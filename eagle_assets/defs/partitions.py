"""The partitions: one for each dataset of the datasets file."""

from __future__ import annotations

import dagster as dg

from eagle_assets.configuration import Settings, load_configuration

CONFIGURED = load_configuration(Settings().datasets_file)
"""The datasets file as it was when the definitions were loaded."""

DATASETS = dg.StaticPartitionsDefinition(list(CONFIGURED.datasets))
