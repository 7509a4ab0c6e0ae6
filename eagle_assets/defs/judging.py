"""How the asset `token_sequences` judges a dataset: what it learns from, and what it writes, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain

import pyarrow as pa

from eagle_assets.defs.resources import Project
from eagle_assets.lake.audit import Published, require_all
from eagle_assets.lake.kept import Part, forget_others, parts_of
from eagle_assets.lake.parquet import ROWS_PER_BATCH
from eagle_assets.lake.schemas import TOKEN_SEQUENCES
from eagle_assets.lake.version import NewVersion
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.decisions import Arbitrations
from eagle_assets.reconstruction.calibrating.observation import Observation
from eagle_assets.reconstruction.own.as_generated import as_generated
from eagle_assets.reconstruction.own.blind import BlindReport, blind_error
from eagle_assets.reconstruction.own.departures import Departures, departures
from eagle_assets.reconstruction.own.kept import kept
from eagle_assets.reconstruction.own.known_outputs import KnownOutput, known_outputs, rows_to_try
from eagle_assets.reconstruction.own.local import sequence_row
from eagle_assets.reconstruction.parts.findings import BoughtFinder, Finder, LocalFinder, found_by, read_findings
from eagle_assets.reconstruction.parts.observations import calibrate_parts
from eagle_assets.reconstruction.parts.weights import PartWeights
from eagle_assets.reconstruction.sequence_checks import Examination, examined_again, examined_before
from eagle_assets.reconstruction.workers import on_threads
from eagle_assets.report.figures import SUMMED, Figures
from eagle_assets.targets.kimi import target_named
from eagle_assets.training.shard_parts import digest_for_shards

OBSERVATIONS = "observations"  # what is kept of each part of raw_responses

_IDS = ["prompt_ids", "output_ids"]
_WRITTEN = ["exchange_id", "provider", "verdict", "evidence"]
_FOUND = ["exchange_id", "text_agrees", "count_gap", *SUMMED.names]


def finder_of(project: Project, is_own: bool) -> tuple[Finder, str]:
    """Who judges a dataset, and what that was learnt from."""
    target = project.configuration.target
    if is_own:
        return LocalFinder(target), "nothing: the ids are given"
    bought, _ = require_all(project.home, "raw_responses", project.configuration.bought)
    own_outputs = _own(project)
    calibration = _calibration(tuple(bought), own_outputs, target)
    learnt_from, own = (", ".join(str(of.audit.dataset) for of in published) for published in (bought, own_outputs))
    return BoughtFinder(target, calibration), learnt_from + (f"; the model's habits also on {own}" if own else "")


def calibration_with(project: Project, decided: Arbitrations) -> Calibration:
    """What is learnt from all that was bought, and from what the target model decided."""
    bought, _ = require_all(project.home, "raw_responses", project.configuration.bought)
    return calibrate_parts(_parts(bought), decided, _as_generated(_own(project), project.configuration.target))


def write_sequences(version: NewVersion, weighed: Sequence[PartWeights]) -> tuple[Examination, Figures]:
    """Write the parts that are not there yet, and read them back; keep the others, which are as they were examined."""
    examination, figures = Examination(), Figures()
    fresh = set()
    for part in weighed:
        if version.keep_made_from(part.recipe) is None:
            version.tell(part.name, part.recipe)  # its place among the files
            fresh.add(part.name)

    def written(part: PartWeights) -> tuple[pa.Table, pa.Table]:
        return _write(version, part) if part.name in fresh else _kept(part)

    for examined, found in on_threads(written, weighed):
        figures.add(found.set_column(found.column_names.index("verdict"), "verdict", examined["verdict"]))
        examination.add(examined)
    return examination, figures


def _write(version: NewVersion, part: PartWeights) -> tuple[pa.Table, pa.Table]:
    """Write a part; gives rows of EXAMINED, of what was written, and of _FOUND."""
    found = read_findings(part.part)
    version.write_batches(part.name, TOKEN_SEQUENCES, part.sequences(found).to_batches(ROWS_PER_BATCH))
    written = pa.Table.from_batches(version.batches(part.name), TOKEN_SEQUENCES)
    version.tell(part.name, part.recipe, passes_on=digest_for_shards(written.to_batches()))
    as_found = written.select(_IDS).equals(found.select(_IDS))
    return examined_again(written.select(_WRITTEN), found, as_found), found.select(_FOUND)


def _kept(part: PartWeights) -> tuple[pa.Table, pa.Table]:
    """The same for a part that is as it was written."""
    found = read_findings(part.part, _FOUND)
    return examined_before(found, part.verdicts(found["verdict"]), part.errors(found["verdict"])), found


def tried_blind(project: Project, name: str, version: NewVersion, total: int) -> BlindReport:
    """The inverse tried on the team's own outputs, as they stand in a version that is being made."""
    rows = rows_to_try(version.batches(columns=["verdict", "prompt_ids", "output_ids"]), total)
    outputs, target = known_outputs(rows), target_named(project.configuration.target)
    return kept(
        partial(blind_error, outputs, target), BlindReport, outputs, project.home.kept("blind", name), found_by()
    )


def departures_of(project: Project) -> Departures:
    """How often the model left the canonical path in the local datasets that are there."""
    target = project.configuration.target
    outputs = (_own_outputs(published, target) for published in _own(project))
    return departures(chain.from_iterable(outputs), target_named(target))


def _own(project: Project) -> tuple[Published, ...]:
    """The local datasets that are there."""
    own, _ = require_all(project.home, "raw_responses", project.configuration.own)
    return tuple(own)


@lru_cache(maxsize=1)
def _calibration(bought: tuple[Published, ...], own: tuple[Published, ...], target: str) -> Calibration:
    """Kept, because the datasets of a run follow each other and learn from the same responses."""
    return calibrate_parts(_parts(bought), own=_as_generated(own, target))


def _parts(bought: Iterable[Published]) -> list[Part]:
    parts: list[Part] = []
    for published in bought:
        of_dataset = parts_of(published, OBSERVATIONS, found_by())
        forget_others(published.home, OBSERVATIONS, str(published.audit.dataset), of_dataset)
        parts += of_dataset
    return parts


def _as_generated(own: Iterable[Published], target: str) -> Iterator[Observation]:
    for published in own:
        outputs = _own_outputs(published, target)
        folder = published.home.kept("as_generated", str(published.audit.dataset))
        yield from kept(
            partial(as_generated, outputs, target_named(target)), list[Observation], outputs, folder, found_by()
        )


@lru_cache(maxsize=8)
def _own_outputs(published: Published, target: str) -> list[KnownOutput]:
    """Some outputs of a dataset; kept for the same reason."""
    rows = rows_to_try(published.batches(), published.audit.rows)
    return known_outputs(sequence_row(row, target_named(target)) for row in rows)
