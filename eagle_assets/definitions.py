"""What Dagster loads."""

from eagle_assets.defs.graph import the_definitions

defs = the_definitions()
