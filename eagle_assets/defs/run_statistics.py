"""`run_statistics`: the DuckDB file with everything that can be asked of the lake."""

import dagster as dg

from eagle_assets.defs.gates import refusals
from eagle_assets.defs.presentation import LOOKED_AT, sequences_metadata, spend_metadata, to_look_at
from eagle_assets.defs.resources import Project

ALL = dg.AllPartitionMapping()


@dg.asset(
    deps=["draft_vocabulary", "provider_calibration", dg.AssetDep("training_shards", partition_mapping=ALL)],
    group_name="statistics",
    kinds={"duckdb"},
    tags={"stage": "run_statistics"},
)
def run_statistics(project: Project) -> dg.MaterializeResult:
    """All of it in figures: cost, trust, what is missing.

    `eagle.duckdb` has a row for each audit of each stage, and the views of `sql/` over all that is published. Built
    aside and renamed, so that reading it never meets a lock. `report.html` says the same to people, in one page: what
    was bought, what can be trusted and why.
    """
    import duckdb

    from eagle_assets.configuration import PROBES
    from eagle_assets.lake.catalogue import CatalogueError, build_catalogue
    from eagle_assets.lake.queries import run_query
    from eagle_assets.openrouter.ledger import LedgerError, budget_totals
    from eagle_assets.report.page import figures_of, obstacles, write_report

    home, configuration = project.home, project.configuration
    with refusals(CatalogueError, LedgerError):
        catalogue = build_catalogue(home, project.ledger_totals(), verdict_stage=configuration.verdict_stage)
        report = write_report(home, configuration)
        totals = budget_totals(home.root, configuration)
        missing = [f"- **{it.dataset}**: {it.sentence}" for it in obstacles(home, configuration)]
        overview = run_query(home, "overview").as_objects()
        with duckdb.connect(home.catalogue, read_only=True) as eagle:
            sequences = eagle.sql(f"SELECT {', '.join(LOOKED_AT)} FROM all_sequences ORDER BY dataset")
            doubtful = to_look_at(sequences.to_arrow_reader(1_024))
        trust = sequences_metadata(figures_of(home), "all datasets")
    spent = spend_metadata(totals, {name: dataset.budget_usd for name, dataset in configuration.bought.items()})
    probes = totals.datasets.get(PROBES)
    del trust["cost_usd"]  # of answers alone; what was spent has the probes too
    missing += [
        f"- **{row['dataset']}**: {row['beyond_budget']} of {row['prompts']} prompts found no room in the budget; "
        "what was bought is in the shards"
        for row in overview
        if row["beyond_budget"]
    ]
    return dg.MaterializeResult(
        metadata={
            "report, to open in a browser": dg.MetadataValue.path(report),
            "verdicts of each dataset": dg.MetadataValue.md(" · ".join(map(_link_to_verdicts, configuration.datasets))),
            "not in the shards": dg.MetadataValue.md("\n".join(missing) or "nothing: every dataset passed its checks"),
            **spent,
            "spent_usd": totals.all.spent_usd,
            "of_it_for_probes_usd": probes.spent_usd if probes is not None else 0.0,
            **trust,
            **doubtful,
            "catalogue": dg.MetadataValue.path(catalogue),
        }
    )


def _link_to_verdicts(dataset: str) -> str:
    """The page of an asset with partitions opens without one."""
    return f"[{dataset}](/assets/token_sequences?view=partitions&partition={dataset})"
