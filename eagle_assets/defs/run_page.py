"""What `eagle-assets run` shows: a line for each asset of each dataset, and what was refused at the end."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from eagle_assets.defs.run import Outcome, RunSummary

MARKS = {"materialised": "[green]✓[/]", "refused": "[red]✗[/]", "not reached": "[yellow]–[/]"}


class RunPage:
    """Lines on the standard output; a bar of the collection that is under way, on a terminal only."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("${task.fields[spent]:.4f}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> RunPage:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def announce(self, cost: str | None) -> None:
        """Say what the run will cost, before it begins."""
        if cost is not None:
            self.console.print(f"{cost}\n", markup=False)

    def progress(self, dataset: str, done: int, total: int, spent_usd: float) -> None:
        """Show how far the collection of a dataset is."""
        if dataset not in self._bars:
            self._bars[dataset] = self._progress.add_task(f"{dataset} raw_responses", spent=0.0)
        self._progress.update(self._bars[dataset], completed=done, total=total, spent=spent_usd)

    def show(self, outcome: Outcome) -> None:
        """Show what became of one asset."""
        if outcome.dataset in self._bars:
            self._progress.remove_task(self._bars.pop(outcome.dataset))
        name = f"{outcome.dataset or '':<6} {outcome.asset:<21}"
        self.console.print(f"{MARKS[outcome.status]} {name} {outcome.seconds:6.1f} s  ", end="")
        self.console.print(outcome.status, outcome.reason, sep=": ", markup=False)

    def conclude(self, summary: RunSummary) -> None:
        """Show what was refused and why; nothing where nothing was."""
        if not summary.succeeded:
            self.console.print("\n[bold]Refused[/]")
            for outcome in summary.refused:
                self.console.print(f"{outcome.dataset or 'all'} {outcome.asset}: {outcome.reason}", markup=False)
