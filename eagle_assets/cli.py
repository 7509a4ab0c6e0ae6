"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import json
import os
import sys
from errno import EACCES, EEXIST, EISDIR, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from eagle_assets import __version__

if TYPE_CHECKING:
    from eagle_assets.lake.home import Home


class Mistake(click.ClickException):
    """Something that the user can mend: one sentence, status 1, no traceback."""


def fail(sentence: str) -> NoReturn:
    raise Mistake(sentence)


class Commands(click.Group):
    """Commands that say in a sentence which file or folder they cannot use."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno not in _OF_A_PATH or error.filename is None:
                raise
            reason = (error.strerror or "no reason was given").lower()
            fail(f"{error.filename} cannot be used: {reason}; choose another place, or look at its permissions")


_OF_A_PATH = {EACCES, EEXIST, EISDIR, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS}


def home() -> Home:
    """The home of the user's settings."""
    from eagle_assets.configuration import Settings
    from eagle_assets.lake.home import Home

    return Home(Settings().home)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Turn OpenRouter text responses into the exact token ids that trained drafters need, and prove it.

    \b
    First steps:
      make demo                          the whole graph on a loopback server, without a key
      eagle-assets reconstruct IN -o OUT your own recorded exchanges, with a verdict for each
      eagle-assets preflight             is this machine ready, is the vocabulary the official one?
    """


@main.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="IN...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Where verdicts go."
)
@click.option(
    "--calibration",
    "calibration_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this calibration instead of learning one from the input.",
)
@click.option("--save-calibration", type=click.Path(dir_okay=False, path_type=Path), help="Keep what was learnt.")
def reconstruct(
    files: tuple[Path, ...], output: Path, calibration_file: Path | None, save_calibration: Path | None
) -> None:
    """Turn recorded exchanges back into token ids, with a verdict for each line, in order.

    \b
    IN holds a JSON object a line: exchange_id, model, provider, status, request, body (raw text of the response).
    Examples:
      eagle-assets reconstruct recorded.jsonl -o verdicts.jsonl
      eagle-assets reconstruct monday.jsonl -o verdicts.jsonl --calibration last_week.json
    """
    from eagle_assets.reconstruction.console.command import reconstruct_files
    from eagle_assets.reconstruction.files.errors import CalibrationError

    if output.resolve() in {file.resolve() for file in files}:
        fail(f"{output} is an input too; choose another name for the verdicts")
    try:
        reconstruct_files(files, output, calibration_file, save_calibration)
    except CalibrationError as error:
        fail(str(error))


@main.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="IN...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where the calibration goes.")
@click.option("--explain", "provider", metavar="PROVIDER", help="Which exchanges refuted what, and what is left over.")
@click.option(
    "--judged",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A calibration that `judge --save-calibration` kept: what the target decided holds here too.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs: a JSON list of objects.")
def calibrate(
    files: tuple[Path, ...], output: Path | None, provider: str | None, judged: Path | None, as_json: bool
) -> None:
    """Learn from recorded exchanges how each provider serves and counts, and show what is settled and what is open.

    \b
    Examples:
      eagle-assets calibrate monday.jsonl tuesday.jsonl -o calibration.json
      eagle-assets calibrate monday.jsonl --explain "Moonshot AI"
      eagle-assets calibrate monday.jsonl --explain "Moonshot AI" --judged settled.json
    """
    from eagle_assets.reconstruction.console.calibrate_command import NothingToShow, calibrate_files
    from eagle_assets.reconstruction.files.errors import CalibrationError

    try:
        calibrate_files(files, output, provider, as_json, judged)
    except (NothingToShow, CalibrationError) as error:
        fail(str(error))


@main.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="IN...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Where verdicts go."
)
@click.option("--sglang", metavar="URL", help="An SGLang server that serves the target model.")
@click.option("--vllm", metavar="URL", help="A vLLM server that does.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with the model, for transformers and torch.",
)
@click.option("--model", metavar="NAME", help="How the vLLM server calls it; by default its first model.")
@click.option("--concurrency", type=click.IntRange(1), default=16, show_default=True, help="Questions in flight.")
@click.option(
    "--calibration",
    "calibration_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this calibration as it is, instead of learning one and settling it.",
)
@click.option("--save-calibration", type=click.Path(dir_okay=False, path_type=Path), help="Keep what was settled.")
def judge(
    files: tuple[Path, ...],
    output: Path,
    sglang: str | None,
    vllm: str | None,
    folder: Path | None,
    model: str | None,
    concurrency: int,
    calibration_file: Path | None,
    save_calibration: Path | None,
) -> None:
    """Reconstruct recorded exchanges, and put what is open and what is trusted before the target model itself.

    Without a server or a folder it takes the `judge` of the datasets file. What the target once said is kept in the
    home, and not asked again.

    \b
    Examples:
      eagle-assets judge recorded.jsonl -o verdicts.jsonl --sglang http://127.0.0.1:30000
      eagle-assets judge monday.jsonl -o verdicts.jsonl --vllm http://127.0.0.1:8000 --save-calibration settled.json
    """
    from eagle_assets.configuration import ConfigurationError, Settings, load_configuration
    from eagle_assets.judge.bench import Bench
    from eagle_assets.judge.command import judge_files
    from eagle_assets.judge.opening import judge_named, opened
    from eagle_assets.judge.questions import JudgeBusy, JudgeError
    from eagle_assets.openrouter.record_file import JournalError
    from eagle_assets.reconstruction.files.errors import CalibrationError
    from eagle_assets.targets.kimi import target_named

    if output.resolve() in {file.resolve() for file in files}:
        fail(f"{output} is an input too; choose another name for the verdicts")
    try:
        settings = Settings()
        configuration = load_configuration(settings.datasets_file)
        chosen = judge_named(sglang, vllm, folder, model) or configuration.judge
        if chosen is None:
            fail("there is no judge: name one with --sglang URL, --vllm URL or --folder DIR, or in the datasets file")
        key = settings.judge_key.get_secret_value() if settings.judge_key is not None else None
        bench = Bench(opened(chosen, concurrency, key), home().root / "judge", concurrency)
        target = target_named(configuration.target)
        limit = configuration.max_residual_error
        judge_files(files, output, bench, target, calibration_file, save_calibration, limit)
    except (CalibrationError, ConfigurationError, JudgeBusy, JudgeError, JournalError) as error:
        fail(str(error))


@main.command()
@click.argument("exchange_id")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Look in this file of exchanges, not in what the pipeline made.",
)
@click.option("--ids", "with_ids", is_flag=True, help="With the id of each token.")
def show(exchange_id: str, file: Path | None, with_ids: bool) -> None:
    """Show one response: its tokens, where the candidates differ, the evidence, and the verdict with its reasons.

    \b
    Examples:
      eagle-assets show gen-1733090000-abc
      eagle-assets show gen-1733090000-abc --file monday.jsonl --ids
    """
    from rich.console import Console

    from eagle_assets.reconstruction.console.show_command import NotFound
    from eagle_assets.reconstruction.console.show_command import show as show_exchange

    try:
        show_exchange(exchange_id, home(), file, with_ids, Console(width=None if sys.stdout.isatty() else 120))
    except NotFound as error:
        fail(str(error))


@main.command()
@click.argument("name", required=False)
@click.option("--dataset", metavar="B3", help="Over this dataset only.")
@click.option("--json", "form", flag_value="json", help="For programs: a JSON list of objects.")
@click.option("--csv", "form", flag_value="csv", help="For spreadsheets: commas, with a header.")
def query(name: str | None, dataset: str | None, form: str | None) -> None:
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
    from eagle_assets.lake.queries import audits_since, listed, run_query

    try:
        answer = run_query(home(), name, dataset) if name else listed()
        if name and (newer := audits_since(home())):
            click.echo(f"{newer} audits ended since eagle.duckdb was made: materialise run_statistics again", err=True)
    except CatalogueError as error:
        fail(str(error))
    if form == "json":
        click.echo(msgspec.json.encode(answer.as_objects()))
    elif form == "csv":
        click.echo(answer.as_csv(), nl=False)
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(answer.as_table(name or "eagle-assets query NAME"))


@main.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Not into the home, but here.")
def report(output: Path | None) -> None:
    """Write one HTML page: what was bought, what of it can be trusted and why, and responses token by token.

    It needs no network to be read, and lies in the home as report.html; `run_statistics` makes it too.

    \b
    Examples:
      eagle-assets report
      eagle-assets report -o monday.html
    """
    from eagle_assets.configuration import ConfigurationError, Settings, load_configuration
    from eagle_assets.lake.audit import GateClosed
    from eagle_assets.lake.catalogue import CatalogueError
    from eagle_assets.report.page import write_report

    try:
        click.echo(write_report(home(), load_configuration(Settings().datasets_file), output))
    except (CatalogueError, ConfigurationError, GateClosed) as error:
        fail(str(error))


@main.command()
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

    from eagle_assets.configuration import ConfigurationError, Settings, load_configuration
    from eagle_assets.defs.budget_page import as_json as spending_as_json
    from eagle_assets.defs.budget_page import as_page
    from eagle_assets.defs.spending import spending
    from eagle_assets.lake.audit import GateClosed
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.record_file import JournalError

    try:
        found = spending(home(), load_configuration(Settings().datasets_file))
    except (ConfigurationError, LedgerError, JournalError, GateClosed) as error:
        fail(str(error))
    if as_json:
        click.echo(msgspec.json.encode(spending_as_json(found)))
    else:
        console = Console(width=None if sys.stdout.isatty() else 170)
        for part in as_page(found):
            console.print(part)


@main.command()
@click.option(
    "--model-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with the model's tokenizer files.",
)
@click.option("--trust-remote-code", is_flag=True, help="Run the Python files of that folder.")
@click.option("--json", "as_json", is_flag=True, help="For programs: a JSON object.")
def preflight(model_dir: Path | None, trust_remote_code: bool, as_json: bool) -> None:
    """Prove the vocabulary, the encoders and the installed packages before money is spent; status 1 where one fails.

    \b
    Examples:
      eagle-assets preflight
      eagle-assets preflight --model-dir /models/kimi-k2.5 --json
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from eagle_assets.targets.findings import ModelFolderError
    from eagle_assets.targets.report import tokenizer_report

    if sys.stderr.isatty():
        click.echo("Trying the vocabulary, the encoders and each package: about ten seconds …", err=True)
    try:
        report = tokenizer_report(model_dir, trust_remote_code)
    except ModelFolderError as error:
        fail(str(error))
    if as_json:
        click.echo(json.dumps(report.to_dict(), ensure_ascii=False))
    elif report.environment.works("rich"):
        from rich.console import Console

        from eagle_assets.targets.page import print_report

        print_report(report, Console(width=None if sys.stdout.isatty() else 120))
    else:
        click.echo(report.to_markdown())
    sys.exit(0 if report.passed else 1)


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8123, show_default=True, help="0 takes a free one.")
@click.option("--truth", type=click.Path(dir_okay=False, path_type=Path), help="Append the true ids of each answer.")
@click.option("--fault", "faults", multiple=True, metavar="NAME=N", help="Spoil each N-th answer so; may be repeated.")
@click.option(
    "--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Answer as these exchanges do, once."
)
def sandbox(port: int, truth: Path | None, faults: tuple[str, ...], replay: Path | None) -> None:
    """Serve OpenRouter's interface on this machine, with known ids and made-up providers, until Ctrl-C.

    \b
    Examples:
      eagle-assets sandbox --port 8123
      eagle-assets sandbox --port 8123 --truth truth.jsonl
      eagle-assets sandbox --fault excluded=8 --fault stall=20
    """
    from eagle_assets.sandbox.faults import Faults
    from eagle_assets.sandbox.process import serve

    def announce(base_url: str) -> None:
        click.echo(f"Serving until Ctrl-C. In another shell:\n\n  export OPENROUTER_BASE_URL={base_url}")
        click.echo("  export OPENROUTER_API_KEY=sandbox")

    try:
        serve(port, truth, announce, Faults.parse(faults), replay)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"port {port} cannot be used ({os.strerror(error.errno or 0)}); choose another with --port")


@main.command()
@click.argument("datasets", nargs=-1, metavar="[DATASET]...")
@click.option("--until", metavar="ASSET", help="The last asset of the lineage to make; by default all of it.")
@click.option("--tick", is_flag=True, help="Within the limits of one tick of the datasets file, as a schedule asks.")
def run(datasets: tuple[str, ...], until: str | None, tick: bool) -> None:
    """Materialise datasets through Dagster: collect, reconstruct, audit, and write the shards.

    Datasets that are bought need OPENROUTER_API_KEY. Status 1 where something was refused, 3 where the budget or a
    limit ended the buying before every prompt was asked; with the reason.

    \b
    Examples:
      eagle-assets run
      eagle-assets run B3 B4 --until raw_responses
      eagle-assets run B3 --tick             for a crontab, in the place of Dagster's daemon
    """
    from eagle_assets.configuration import ConfigurationError

    try:
        from eagle_assets.defs.run import RunRefused, materialise
        from eagle_assets.defs.run_page import RunPage
    except ConfigurationError as error:
        fail(str(error))
    with RunPage() as page:
        try:
            page.announce(_cost_of_run(datasets))
            summary = materialise(datasets, until, on_outcome=page.show, on_progress=page.progress, as_tick=tick)
        except (ConfigurationError, RunRefused) as error:
            fail(str(error))
        page.conclude(summary)
    sys.exit(1 if not summary.succeeded else 3 if summary.ended_early else 0)


@main.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--format", "form", required=True, metavar="FORMAT", help="speculators, specforge or huggingface.")
@click.option("--datasets", multiple=True, metavar="B3,B4", help="Only these; by default all that may be read.")
@click.option("--max-length", type=int, metavar="TOKENS", help="Longer sequences are left out, or cut with --cut.")
@click.option("--cut/--whole", default=False, help="Cut longer sequences; nothing is put in place of what is cut off.")
@click.option("--min-verdict", type=click.Choice(["exact", "consistent"]), default="consistent", show_default=True)
@click.option("--dedup", type=click.Choice(["prompt", "sequence"]), help="Keep the first row of each.")
@click.option("--eval-share", type=float, default=0.0, help="This share of the prompts becomes an evaluation split.")
@click.option("--weights", multiple=True, metavar="B3=2,B4=0.5", help="How often rows of a dataset are met.")
@click.option("--shard-size", "size", default="1GB", show_default=True, help="A new file from about this size on.")
@click.option("--draft-size", type=int, default=32_000, show_default=True, help="Ids of the draft vocabulary.")
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


def _cost_of_run(datasets: tuple[str, ...]) -> str | None:
    """What buying the rest of these datasets will cost, in a sentence; None where nothing is bought."""
    from eagle_assets.configuration import Settings, load_configuration
    from eagle_assets.defs.budget_page import before_a_run
    from eagle_assets.defs.spending import spending
    from eagle_assets.lake.audit import GateClosed
    from eagle_assets.openrouter.ledger import LedgerError
    from eagle_assets.openrouter.record_file import JournalError

    configuration = load_configuration(Settings().datasets_file)
    bought = [name for name in configuration.bought if not datasets or name in datasets]
    try:
        return before_a_run(spending(home(), configuration, bought)) if bought else None
    except (GateClosed, JournalError, LedgerError) as error:
        fail(str(error))


if __name__ == "__main__":
    main()
