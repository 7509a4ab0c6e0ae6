"""From the lake's audits to Dagster's events. The gate itself is in the data; Dagster shows it."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from typing import Any

import dagster as dg
import msgspec

from eagle_assets.configuration import ConfigurationError
from eagle_assets.lake.audit import Audit, Check, GateClosed, called
from eagle_assets.report.next_steps import NEXT_STEPS

Events = Iterator[dg.AssetCheckResult | dg.MaterializeResult]


def blocking_checks(
    asset: str, descriptions: Mapping[str, str], partitions: dg.PartitionsDefinition | None = None
) -> Sequence[dg.AssetCheckSpec]:
    """The checks of an asset, by name; each is blocking and has the partitions of its asset."""
    with warnings.catch_warnings():  # checks with partitions are a preview; the gate does not depend on them
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            dg.AssetCheckSpec(name, asset=asset, description=description, blocking=True, partitions_def=partitions)
            for name, description in descriptions.items()
        ]


def events_of(audit: Audit, metadata: Mapping[str, Any] | None = None, in_tables: Container[str] = ()) -> Events:
    """The results of an audit's checks, and the materialisation if it was published; else dagster's Failure.

    Counts of the audit become metadata but for those that the tables in `metadata` have.

    Check results come with the materialisation, because Dagster takes earlier ones for stale; where there is none
    they come alone, so that bad data is never recorded as materialised.
    """
    results = [_result(check, is_of_dataset=audit.dataset is not None) for check in audit.checks]
    if not audit.passed:
        yield from results
        failures = "; ".join(f"{check.name}: {check.sentence}" for check in audit.failed_checks)
        raise dg.Failure(
            f"{called(audit.stage, audit.dataset)} was not published. {failures}",
            metadata={"failed_checks": ", ".join(check.name for check in audit.failed_checks), **(metadata or {})},
            allow_retries=False,
        )
    yield dg.MaterializeResult(
        metadata={
            **(metadata or {}),
            **({"dagster/row_count": audit.rows} if any(f.name.endswith(".parquet") for f in audit.files) else {}),
            **{name: _plain(number) for name, number in audit.counts.items() if name not in in_tables},
            "audit": dg.MetadataValue.json(msgspec.to_builtins(audit)),
        },
        check_results=results,
        data_version=dg.DataVersion(audit.identity),
    )


@contextmanager
def refusals(*mistakes: type[Exception]) -> Iterator[None]:
    """What the user can mend, and closed gates, become one sentence on the run page and are not tried again."""
    expected: tuple[type[Exception], ...] = (GateClosed, ConfigurationError, *mistakes)
    try:
        yield
    except expected as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    except FileNotFoundError as error:  # nobody holds what a run reads
        raise dg.Failure(
            f"{error.filename or error} is not there any more: another run may have published its successor meanwhile; "
            "materialise it again"
        ) from error
    except OSError as error:
        if error.errno != ENOSPC:
            raise
        raise dg.Failure(
            "the disk of EAGLE_ASSETS_HOME is full: make room, and run it again; what was bought is kept"
        ) from error


def _result(check: Check, is_of_dataset: bool) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {name: _plain(number) for name, number in check.numbers.items()}
    if is_of_dataset:  # Dagster would draw one line through the numbers of all datasets
        metadata = {name: f"{number:,.6g}" for name, number in metadata.items()}
    if check.worst:
        metadata["worst offenders"] = _table(check.worst)
    if not check.passed and check.name in NEXT_STEPS:
        metadata["what to do next"] = NEXT_STEPS[check.name]
    return dg.AssetCheckResult(
        check_name=check.name,
        passed=check.passed,
        severity=dg.AssetCheckSeverity.ERROR,
        description=check.sentence,
        metadata=metadata,
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> dg.MetadataValue:
    return dg.MetadataValue.table([dg.TableRecord({k: str(v) for k, v in row.items()}) for row in rows])


def _plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number
