"""Commands on the home: make what lies in it, ask it, and take shards out of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from eagle_assets.commands.group import configuration, fail, home
from eagle_assets.export_options import (
    DEDUPS,
    DEFAULT_DRAFT_SIZE,
    DEFAULT_LEAST_VERDICT,
    DEFAULT_SHARD_SIZE,
    FORMATS,
    LEAST_VERDICTS,
)


@click.command()
@click.argument("datasets", nargs=-1, metavar="[DATASET]...")
@click.option("--until", metavar="ASSET", help="The last asset of the lineage to make; by default all of it.")
@click.option("--tick", is_flag=True, help="Within the limits of one tick of the datasets file, as a schedule asks.")
def run(datasets: tuple[str, ...], until: str | None, tick: bool) -> None:
    """Materialise datasets through Dagster: collect, reconstruct, audit, and write the shards.

    Datasets that are bought need OPENROUTER_API_KEY. Status 1 where something was refused, 3 where not every prompt
    has an answer, as the budget or a limit ended the buying or every attempt failed; with the reason.

    \b
    Examples:
      eagle-assets run
      eagle-assets run B3 B4 --until raw_responses
      eagle-assets run B3 --tick             for a crontab, in the place of Dagster's daemon
    """
    from eagle_assets.configuration import ConfigurationError
    from eagle_assets.targets.target import UnknownTarget

    try:
        from eagle_assets.defs.run import RunRefused, materialise, prepare
        from eagle_assets.defs.run_page import RunPage
    except ConfigurationError as error:
        fail(str(error))
    with RunPage() as page:
        try:
            plan = prepare(datasets, until, tick)
            page.announce(_cost_of_run(plan.bought))
            summary = materialise(plan, on_outcome=page.show, on_progress=page.progress)
        except (ConfigurationError, RunRefused, UnknownTarget) as error:
            fail(str(error))
        page.conclude(summary)
    sys.exit(1 if not summary.succeeded else 3 if summary.ended_early else 0)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: a JSON object.")
def budget(as_json: bool) -> None:
    """Show what is spent, reserved and left, what a trusted token costs, and what the rest will cost.

    By dataset and provider; asks nobody and changes nothing.

    \b
    Examples:
      eagle-assets budget
      eagle-assets budget --json
    """
    import msgspec
    from rich.console import Console

    from eagle_assets.configuration import ConfigurationError
    from eagle_assets.defs.budget_page import as_json as spending_as_json
    from eagle_assets.defs.budget_page import as_page
    from eagle_assets.defs.spending import spending
    from eagle_assets.lake.audit import GateClosed
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.record_file import JournalError
    from eagle_assets.targets.target import UnknownTarget

    try:
        found = spending(home(), configuration())
    except (ConfigurationError, LedgerError, JournalError, GateClosed, UnknownTarget) as error:
        fail(str(error))
    if as_json:
        click.echo(msgspec.json.encode(spending_as_json(found)))
    else:
        console = Console(width=None if sys.stdout.isatty() else 170)
        for part in as_page(found):
            console.print(part)


@click.command()
@click.argument("name", required=False)
@click.option("--dataset", metavar="B3", help="Over this dataset only.")
@click.option("--json", "as_json", is_flag=True, help="For programs: a JSON list of objects.")
@click.option("--csv", "as_csv", is_flag=True, help="For spreadsheets: commas, with a header.")
def query(name: str | None, dataset: str | None, as_json: bool, as_csv: bool) -> None:
    """Ask what was collected, spent and trusted. Without NAME: the questions there are.

    \b
    Examples:
      eagle-assets query
      eagle-assets query verdicts --dataset B3
      eagle-assets query spend --csv > spend.csv
    """
    import msgspec
    from rich.console import Console

    from eagle_assets.lake.catalogue import CatalogueError
    from eagle_assets.lake.queries import listed, run_query

    if as_json and as_csv:
        raise click.UsageError("--json or --csv, not both")
    try:
        answer = run_query(home(), name, dataset) if name else listed()
    except CatalogueError as error:
        fail(str(error))
    if name:
        _say_what_is_outdated()
    if as_json:
        click.echo(msgspec.json.encode(answer.as_objects()))
    elif as_csv:
        click.echo(answer.as_csv(), nl=False)
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(answer.as_table(name or "eagle-assets query NAME"))


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Not into the home, but here.")
def report(output: Path | None) -> None:
    """Write one HTML page: what was bought, what of it can be trusted and why, and responses token by token.

    It needs no network to be read, and lies in the home as report.html; `run_statistics` makes it too.

    \b
    Examples:
      eagle-assets report
      eagle-assets report -o monday.html
    """
    from eagle_assets.configuration import ConfigurationError
    from eagle_assets.lake.audit import GateClosed
    from eagle_assets.lake.catalogue import CatalogueError
    from eagle_assets.report.page import write_report

    try:
        click.echo(write_report(home(), configuration(), output))
    except (CatalogueError, ConfigurationError, GateClosed) as error:
        fail(str(error))
    _say_what_is_outdated()


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--format", "form", required=True, metavar="FORMAT", help=f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
@click.option("--datasets", multiple=True, metavar="B3,B4", help="Only these; by default all that may be read.")
@click.option("--max-length", type=int, metavar="TOKENS", help="Longer sequences are left out, or cut with --cut.")
@click.option("--cut/--whole", default=False, help="Cut longer sequences; nothing is put in place of what is cut off.")
@click.option("--min-verdict", type=click.Choice(LEAST_VERDICTS), default=DEFAULT_LEAST_VERDICT, show_default=True)
@click.option("--dedup", type=click.Choice(DEDUPS), help="Keep the first row of each.")
@click.option("--eval-share", type=float, default=0.0, help="This share of the prompts becomes an evaluation split.")
@click.option("--weights", multiple=True, metavar="B3=2,B4=0.5", help="How often rows of a dataset are met.")
@click.option(
    "--shard-size", "size", default=DEFAULT_SHARD_SIZE, show_default=True, help="A new file from about this size on."
)
@click.option(
    "--draft-size", type=int, default=DEFAULT_DRAFT_SIZE, show_default=True, help="Ids of the draft vocabulary."
)
def export(folder: Path, form: str, **options: Any) -> None:
    """Write the trusted sequences as a trainer takes them, with the draft vocabulary, into a new folder.

    DIR appears whole or not at all; an export that was interrupted goes on where it was.

    \b
    Examples:
      eagle-assets export --format speculators for_speculators
      eagle-assets export --format specforge for_specforge --max-length 8192 --cut --datasets B3,B4
      eagle-assets export --format huggingface dataset --eval-share 0.05 --dedup sequence
    """
    from eagle_assets.configuration import ConfigurationError
    from eagle_assets.training.exports.command import export_to
    from eagle_assets.training.exports.request import ExportError

    try:
        export_to(folder, form, **options)
    except (ConfigurationError, ExportError) as error:
        fail(str(error))


def _say_what_is_outdated() -> None:
    """What of the catalogue is not as it would be made now; what is asked of it is answered all the same."""
    from eagle_assets.configuration import ConfigurationError
    from eagle_assets.lake.queries import outdated

    try:
        sentences = outdated(home(), configuration().verdict_stage)
    except ConfigurationError as error:
        sentences = [str(error)]
    for sentence in sentences:
        click.echo(sentence, err=True)


def _cost_of_run(bought: tuple[str, ...]) -> str | None:
    """What buying the rest of these datasets will cost, in a sentence; None where there are none."""
    from eagle_assets.defs.budget_page import before_a_run
    from eagle_assets.defs.spending import spending
    from eagle_assets.lake.audit import GateClosed
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.record_file import JournalError

    configured = configuration()
    try:
        return before_a_run(spending(home(), configured, bought)) if bought else None
    except (GateClosed, JournalError, LedgerError) as error:
        fail(str(error))
