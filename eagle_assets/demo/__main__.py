"""`python -m eagle_assets.demo`: no key, no network, nothing spent; status 1 where the pipeline got anything wrong."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from eagle_assets.configuration import PACKAGED_DATASETS_FILE, load_configuration
from eagle_assets.lake.home import Home

if TYPE_CHECKING:
    from eagle_assets.defs.outcomes import Outcome, RunSummary

DEFAULT_HOME = Path("data/demo")
MARKER = ".made_by_the_demo"


class DemoRefused(Exception):
    """The demo cannot run here; the message says what to do."""


def main(arguments: list[str]) -> int:
    """Run the demo for these datasets of the packaged file, or for all; returns the exit status. With `--judge` among
    them a small target model judges the verdicts."""
    judged, datasets = "--judge" in arguments, [a for a in arguments if a != "--judge"]
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    began = time.monotonic()
    try:
        home = fresh_home(Path(os.environ.get("EAGLE_ASSETS_HOME", DEFAULT_HOME)))
        truth_file = home.root / "sandbox_truth.jsonl"
        truth_file.touch()
        console.print("A loopback server stands in for OpenRouter; Dagster runs the whole graph against it.\n")
        summary = run_graph(home, truth_file, datasets, console, judged)
    except DemoRefused as refusal:
        console.print(f"[bold red]{refusal}[/]")
        return 1
    for outcome in summary.refused:
        console.print(Text(f"{outcome.asset} {outcome.dataset or ''}: {outcome.reason}", style="red"))
    status = show_page(home, truth_file, console) if home.catalogue.exists() else 1
    console.print(f"\n{time.monotonic() - began:.0f} seconds")
    return status if summary.succeeded else 1


def fresh_home(folder: Path) -> Home:
    """An empty home. Raises DemoRefused where the folder holds what no demo made."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARKER).exists():
            raise DemoRefused(f"{folder} holds other data: set EAGLE_ASSETS_HOME to a folder that the demo may empty")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    return Home(folder)


def run_graph(home: Home, truth_file: Path, datasets: list[str], console: Console, judged: bool) -> RunSummary:
    """Materialise everything through Dagster, with the sandbox in OpenRouter's place, and if it is to be `judged` the
    small target in that of the team's server. Raises DemoRefused."""
    from eagle_assets.demo.judge import judged_datasets
    from eagle_assets.sandbox.process import SandboxFailed, running_sandbox

    began = time.monotonic()

    def report(outcome: Outcome) -> None:
        mark = "[green]✓[/]" if outcome.status == "materialised" else "[red]✗[/]"
        elapsed = f"{time.monotonic() - began:3.0f} s"
        console.print(f"{elapsed} {mark} {outcome.asset:<21}{outcome.dataset or '':<4}", Text(_what_came_of(outcome)))

    try:
        with (
            judged_datasets(home) if judged else nullcontext(PACKAGED_DATASETS_FILE) as datasets_file,
            running_sandbox(truth_file, port=0) as base_url,
            console.status("Dagster is at work"),
        ):
            os.environ.update(
                EAGLE_ASSETS_HOME=str(home.root),
                EAGLE_ASSETS_DATASETS=str(datasets_file),
                OPENROUTER_API_KEY="sandbox",
                OPENROUTER_BASE_URL=base_url,
                TRANSFORMERS_NO_ADVISORY_WARNINGS="1",
            )
            # The partitions are read from the environment when this is imported.
            from eagle_assets.defs.run import RunRefused, materialise, prepare

            try:
                return materialise(prepare(datasets), on_outcome=report)
            except RunRefused as refusal:
                raise DemoRefused(str(refusal)) from None
    except SandboxFailed as failure:
        raise DemoRefused(str(failure)) from None


def _what_came_of(outcome: Outcome) -> str:
    return outcome.reason if outcome.status == "materialised" else outcome.status


def show_page(home: Home, truth_file: Path, console: Console) -> int:
    """Print the closing page; returns 1 where a response is called exact and is not, or none could be scored."""
    from eagle_assets.demo.incidents import incidents
    from eagle_assets.demo.judge import judge_section
    from eagle_assets.demo.naive import naively_right
    from eagle_assets.demo.page import closing_page
    from eagle_assets.demo.score import false_exact, score
    from eagle_assets.lake.queries import run_query

    scores = score(home, truth_file)
    here = Path.cwd()
    folder = home.root.relative_to(here) if home.root.is_relative_to(here) else home.root
    console.print()
    overview = run_query(home, "overview").as_objects()
    bought = load_configuration(PACKAGED_DATASETS_FILE).bought
    for part in closing_page(
        overview=overview,
        providers=run_query(home, "providers").as_objects(),
        scores=scores,
        naive=naively_right(home, truth_file),
        blind=run_query(home, "blind_error").as_objects(),
        doubtful=run_query(home, "may_be_wrong").as_objects(),
        met=incidents(
            run_query(home, "calibration").as_objects(),
            run_query(home, "retries").as_objects(),
            overview,
            {name: dataset.budget_usd for name, dataset in bought.items() if dataset.budget_usd is not None},
        ),
        judged=judge_section(home, truth_file),
        home=folder,
        truth_file=folder / truth_file.name,
    ):
        console.print(part)
    return 1 if false_exact(scores) or not scores else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
