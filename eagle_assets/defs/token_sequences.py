"""`token_sequences`: ids, a verdict, and the evidence for each exchange."""

import dagster as dg

from eagle_assets.configuration import LocalDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import sequences_metadata
from eagle_assets.defs.resources import Project
from eagle_assets.lake import columns
from eagle_assets.lake.audit import require


@dg.asset(
    partitions_def=DATASETS,
    deps=["raw_responses"],
    group_name="reconstruction",
    kinds={"parquet"},
    tags={"stage": "token_sequences"},
    metadata={"dagster/column_schema": column_schema(columns.TOKEN_SEQUENCES)},
    check_specs=blocking_checks(
        "token_sequences",
        {
            "roundtrip_is_exact": "Every trusted sequence, served again under its convention, gives what was received.",
            "counts_close": "Every trusted sequence has the length that the server counted.",
            "contradictions_below_threshold": "The known conventions explain most of the answers.",
            "residual_error_below_limit": "The error that the evidence leaves open is within `max_residual_error`.",
        },
        DATASETS,
    ),
)
def token_sequences(context: dg.AssetExecutionContext, project: Project) -> Events:
    """A row for each exchange: output ids, prompt ids, verdict, reasons, evidence and rival candidates.

    The conventions of the providers are learnt from the responses of all bought datasets. Ids that the team's own
    server gave are `exact` and never encoded again. Where the residual error of the `consistent` ones would exceed
    `max_residual_error` on average, the least certain of them are held back as `unverified`. The team's own outputs
    are also served as text and judged blind, which shows how far the verdicts on bought ones can be believed.
    """
    from eagle_assets.defs.judging import departures_of, judge_bought, judge_local, tried_blind
    from eagle_assets.lake.version import new_version
    from eagle_assets.reconstruction.blind import with_blind_report
    from eagle_assets.reconstruction.departures import may_be_wrong
    from eagle_assets.reconstruction.sequence_checks import check_sequences, counts_of
    from eagle_assets.report.figures import COLUMNS, Figures

    name = context.partition_key
    with refusals(), new_version(project.home, "token_sequences", name, context.run.run_id) as version:
        responses = require(project.home, "raw_responses", name)
        is_local = isinstance(project.dataset(name), LocalDataset)
        examined, learnt_from = (judge_local if is_local else judge_bought)(project, responses, version)
        checks, counts = check_sequences(examined, project.configuration.max_residual_error), counts_of(examined)
        if is_local:
            checks = with_blind_report(checks, tried_blind(project, version, len(examined)))
        else:
            judged = version.rows("part.parquet", ["verdict", "reasons", "evidence"])
            counts |= may_be_wrong(judged, departures_of(project))
        figures = Figures.of(version.rows("part.parquet", COLUMNS))
        audit = version.audit(checks, [responses], counts, vocabulary=responses.audit.vocabulary)
        yield from events_of(audit, {**sequences_metadata(figures, name), "calibrated on": learnt_from})
