"""`run_statistics`: the DuckDB file with everything that can be asked of the lake."""

import dagster as dg

from eagle_assets.defs.gates import refusals
from eagle_assets.defs.resources import Project

ALL = dg.AllPartitionMapping()


@dg.asset(
    deps=["draft_vocabulary", "provider_calibration", dg.AssetDep("training_shards", partition_mapping=ALL)],
    group_name="statistics",
    kinds={"duckdb"},
    tags={"stage": "run_statistics"},
)
def run_statistics(project: Project) -> dg.MaterializeResult:
    """`eagle.duckdb`: a row for each audit of each stage, and the views of `sql/` over all that is published.

    Built aside and renamed, so that reading it never meets a lock.
    """
    from eagle_assets.lake.catalogue import CatalogueError, build_catalogue
    from eagle_assets.openrouter.ledger import LedgerError

    with refusals(CatalogueError, LedgerError):
        path = build_catalogue(project.home, project.ledger_totals())
    return dg.MaterializeResult(metadata={"catalogue": dg.MetadataValue.path(path)})
