"""The partitions: one for each dataset of the datasets file."""

from __future__ import annotations

import dagster as dg

from eagle_assets.configuration import Settings, load_configuration

DATASETS = dg.StaticPartitionsDefinition(list(load_configuration(Settings().datasets_file).datasets))
