"""Commands on this machine: is it ready, and a server on it that stands in for OpenRouter."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from eagle_assets.commands.group import fail, require_outputs


@click.command()
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


@click.command()
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

    require_outputs([truth], [replay])
    try:
        serve(port, truth, announce, Faults.parse(faults), replay)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"port {port} cannot be used ({os.strerror(error.errno or 0)}); choose another with --port")
