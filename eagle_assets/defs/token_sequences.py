"""`token_sequences`: ids, a verdict, and the evidence for each exchange."""

from functools import lru_cache

import dagster as dg

from eagle_assets.configuration import LocalDataset
from eagle_assets.defs.columns import column_schema
from eagle_assets.defs.gates import Events, blocking_checks, events_of, refusals
from eagle_assets.defs.partitions import DATASETS
from eagle_assets.defs.presentation import sequences_metadata
from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Input, Published, require, require_all
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import TOKEN_SEQUENCES
from eagle_assets.lake.version import NewVersion, new_version
from eagle_assets.reconstruction.blind import BlindReport, blind_error, with_blind_report
from eagle_assets.reconstruction.calibration import Calibration
from eagle_assets.reconstruction.canonical import with_canonical
from eagle_assets.reconstruction.departures import Departures, departures, may_be_wrong
from eagle_assets.reconstruction.local import sequence_row
from eagle_assets.reconstruction.own_outputs import known_outputs, some_of
from eagle_assets.reconstruction.sequence_checks import (
    Examined,
    check_sequences,
    counts_of,
    examine_bought,
    examine_local,
)
from eagle_assets.reconstruction.sequences import calibrate_rows, held_back, positions_to_hold_back, sequence_rows
from eagle_assets.report.figures import COLUMNS, Figures
from eagle_assets.targets.kimi import target_named


@dg.asset(
    partitions_def=DATASETS,
    deps=["raw_responses"],
    group_name="reconstruction",
    kinds={"parquet"},
    tags={"stage": "token_sequences"},
    metadata={"dagster/column_schema": column_schema(TOKEN_SEQUENCES)},
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
    name = context.partition_key
    with refusals(), new_version(project.home, "token_sequences", name, context.run.run_id) as version:
        responses = require(project.home, "raw_responses", name)
        is_local = isinstance(project.dataset(name), LocalDataset)
        examined, learnt_from = (_local if is_local else _bought)(project, responses, version)
        checks, counts = check_sequences(examined, project.configuration.max_residual_error), counts_of(examined)
        if is_local:
            checks = with_blind_report(checks, _tried_blind(project, version, len(examined)))
        else:
            judged = version.rows("part.parquet", ["verdict", "reasons", "evidence"])
            counts |= may_be_wrong(judged, _departures(project))
        figures = Figures.of(version.rows("part.parquet", COLUMNS))
        audit = version.audit(checks, [responses], counts, vocabulary=responses.audit.vocabulary)
        yield from events_of(audit, {**sequences_metadata(figures, name), "calibrated on": learnt_from})


def _local(project: Project, responses: Published, version: NewVersion) -> tuple[list[Examined], str]:
    target = target_named(project.configuration.target)
    rows = (sequence_row(row, target) for row in responses.rows())
    version.write_rows("part.parquet", TOKEN_SEQUENCES, with_canonical(rows, target.vocabulary))
    return list(examine_local(version.rows("part.parquet"), responses.rows(), target)), "nothing: the ids are given"


def _tried_blind(project: Project, version: NewVersion, total: int) -> BlindReport:
    rows = version.rows("part.parquet", ["verdict", "prompt_ids", "output_ids"])
    return blind_error(known_outputs(some_of(rows, total)), target_named(project.configuration.target))


def _bought(project: Project, responses: Published, version: NewVersion) -> tuple[list[Examined], str]:
    bought, _ = require_all(project.home, "raw_responses", project.configuration.bought)
    calibration = _calibration(project.home, tuple(published.as_input for published in bought))
    vocabulary = target_named(project.configuration.target).vocabulary
    rows = sequence_rows(responses.rows(), calibration)
    version.write_rows("part.parquet", TOKEN_SEQUENCES, with_canonical(rows, vocabulary))
    judged = version.rows("part.parquet", ["verdict", "evidence"])
    if positions := positions_to_hold_back(judged, project.configuration.max_residual_error):
        version.write_rows("part.parquet", TOKEN_SEQUENCES, held_back(version.rows("part.parquet"), positions))
    examined = examine_bought(version.rows("part.parquet"), responses.rows(), calibration)
    return list(examined), ", ".join(str(published.audit.dataset) for published in bought)


@lru_cache(maxsize=1)
def _calibration(home: Home, learnt_from: tuple[Input, ...]) -> Calibration:
    """Kept, because the datasets of a run follow each other and learn from the same responses."""
    versions = (require(home, version.stage, version.dataset) for version in learnt_from)
    return calibrate_rows(row for published in versions for row in published.rows())


def _departures(project: Project) -> Departures:
    """How often the model left the canonical path in the local datasets that are there."""
    own, _ = require_all(project.home, "raw_responses", project.configuration.local)
    return _departures_in(project.home, tuple(published.as_input for published in own), project.configuration.target)


@lru_cache(maxsize=1)
def _departures_in(home: Home, datasets: tuple[Input, ...], target_name: str) -> Departures:
    """Kept for the same reason."""
    target = target_named(target_name)
    versions = (require(home, version.stage, version.dataset) for version in datasets)
    rows = (row for published in versions for row in some_of(published.rows(), published.audit.rows))
    return departures(known_outputs(sequence_row(row, target) for row in rows), target)
