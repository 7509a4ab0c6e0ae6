"""`run_statistics`: the DuckDB file with everything that can be asked of the lake."""

import dagster as dg

from eagle_assets.defs.gates import refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import sequences_metadata, spend_metadata
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

    Built aside and renamed, so that reading it never meets a lock. `report.html` says the same to people, in one page:
    what was bought, what can be trusted and why.
    """
    from eagle_assets.lake.catalogue import CatalogueError, build_catalogue
    from eagle_assets.lake.queries import run_query
    from eagle_assets.openrouter.ledger import LedgerError, budget_totals
    from eagle_assets.report.page import figures_of, obstacles, write_report

    home, configuration = project.home, project.configuration
    with refusals(CatalogueError, LedgerError):
        catalogue = build_catalogue(home, project.ledger_totals())
        report = write_report(home, configuration)
        totals = budget_totals(home.root, configuration)
    caps = {name: dataset.budget_usd for name, dataset in configuration.bought.items()}
    missing = [f"- **{it.dataset}**: {it.sentence}" for it in obstacles(home, DATASETS.get_partition_keys())]
    overview = run_query(home, "overview").as_objects()
    missing += [
        f"- **{row['dataset']}**: {row['beyond_budget']} of {row['prompts']} prompts found no room in the budget; "
        "what was bought is in the shards"
        for row in overview
        if row["beyond_budget"]
    ]
    return dg.MaterializeResult(
        metadata={
            "report, to open in a browser": dg.MetadataValue.path(report),
            "catalogue": dg.MetadataValue.path(catalogue),
            "not in the shards": dg.MetadataValue.md("\n".join(missing) or "nothing: every dataset passed its checks"),
            **sequences_metadata(figures_of(home), "all datasets"),
            **spend_metadata(totals, caps),
        }
    )
