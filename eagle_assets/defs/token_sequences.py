"""`token_sequences`: ids, a verdict, and the evidence for each exchange."""

import dagster as dg

from eagle_assets.configuration import OpenRouterDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import LOOKED_AT, sequences_metadata, to_look_at
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
    """The token ids of every response, with a verdict.

    A row for each exchange: output ids, prompt ids, verdict, reasons, evidence and rival candidates.

    The conventions of the providers are learnt from the responses of all bought datasets, the habits of the model (what
    white space it writes, how it numbers calls) from the team's own outputs too. Ids that the team's own server gave
    are `exact` and never encoded again. Judged are only responses that are new, or of whose provider something else is
    known than when they were judged. Where the residual error of the `consistent` ones would exceed
    `max_residual_error` on average, the least certain of them are held back as `unverified`. The team's own outputs are
    also served as text and judged blind, which shows how far the verdicts on bought ones can be believed.
    """
    from eagle_assets.defs.judging import departures_of, finder_of, tried_blind, write_sequences
    from eagle_assets.lake.kept import forget_others, parts_of
    from eagle_assets.lake.version import new_version
    from eagle_assets.reconstruction.own.blind import with_blind_report
    from eagle_assets.reconstruction.own.departures import may_be_wrong
    from eagle_assets.reconstruction.parts.findings import FINDINGS, find_in_parts, found_by
    from eagle_assets.reconstruction.parts.weights import weigh_parts

    name, home, limit = context.partition_key, project.home, project.configuration.max_residual_error
    with refusals(), new_version(home, "token_sequences", name, context.run.run_id) as version:
        responses = require(home, "raw_responses", name)
        is_own = not isinstance(project.dataset(name), OpenRouterDataset)
        finder, learnt_from = finder_of(project, is_own)
        parts, judged = parts_of(responses, FINDINGS, found_by()), 0
        for number in find_in_parts(parts, finder):
            judged += number
            context.log.info(f"{name}: {judged:,} responses were given a verdict")
        examination, figures = write_sequences(version, weigh_parts(parts, finder.calibration, limit))
        checks, counts = examination.checks(limit), examination.counts()
        if is_own:
            checks = with_blind_report(checks, tried_blind(project, name, version, examination.rows))
        else:
            verdicts = version.rows(columns=["verdict", "reasons", "evidence"])
            counts |= may_be_wrong(verdicts, departures_of(project))
        doubtful = to_look_at(version.batches(columns=LOOKED_AT))
        audit = version.audit(checks, [responses], counts, vocabulary=responses.audit.vocabulary)
        # What an audit refused is not built upon.
        forget_others(home, FINDINGS, name, parts if audit.passed else ())
        said = {"calibrated on": learnt_from, "given a verdict now": judged}
        yield from events_of(audit, {**sequences_metadata(figures, name), **doubtful, **said})
