"""How a version of `token_sequences` is made: what the asset calls, kept apart because it is much to load."""

from __future__ import annotations

from functools import lru_cache

from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Input, Published, require, require_all
from eagle_assets.lake.home import Home
from eagle_assets.lake.schemas import TOKEN_SEQUENCES
from eagle_assets.lake.version import NewVersion
from eagle_assets.reconstruction.blind import BlindReport, blind_error
from eagle_assets.reconstruction.calibration import Calibration
from eagle_assets.reconstruction.canonical import with_canonical
from eagle_assets.reconstruction.departures import Departures, departures
from eagle_assets.reconstruction.local import sequence_row
from eagle_assets.reconstruction.own_outputs import known_outputs, some_of
from eagle_assets.reconstruction.sequence_checks import Examined, examine_bought, examine_local
from eagle_assets.reconstruction.sequences import calibrate_rows, held_back, positions_to_hold_back, sequence_rows
from eagle_assets.targets.kimi import target_named


def judge_local(project: Project, responses: Published, version: NewVersion) -> tuple[list[Examined], str]:
    """Write the rows of a local dataset; returns what the checks look at, and what was learnt from."""
    target = target_named(project.configuration.target)
    rows = (sequence_row(row, target) for row in responses.rows())
    version.write_rows("part.parquet", TOKEN_SEQUENCES, with_canonical(rows, target.vocabulary))
    return list(examine_local(version.rows("part.parquet"), responses.rows(), target)), "nothing: the ids are given"


def tried_blind(project: Project, version: NewVersion, total: int) -> BlindReport:
    """What comes of some of the team's own outputs where they are served as text and judged blind."""
    rows = version.rows("part.parquet", ["verdict", "prompt_ids", "output_ids"])
    return blind_error(known_outputs(some_of(rows, total)), target_named(project.configuration.target))


def judge_bought(project: Project, responses: Published, version: NewVersion) -> tuple[list[Examined], str]:
    """As `judge_local`, of a bought dataset: calibrated on the responses of all that are bought."""
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


def departures_of(project: Project) -> Departures:
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
