"""What `eagle-assets run` shows: a line for each asset of each dataset, and what was refused at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from eagle_assets.defs.outcomes import Outcome, RunSummary
from eagle_assets.openrouter.progress import Progress, in_a_line

MARKS = {"materialised": "[green]✓[/]", "refused": "[red]✗[/]", "not reached": "[yellow]–[/]"}
SECONDS_BETWEEN_LINES = 10.0


class BarOverALine(Bars):
    """Each bar with its task's `line` below it."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            yield Text(task.fields["line"], style="dim", overflow="fold")


class RunPage:
    """Lines on the standard output. While a collection is under way: a bar and a line about it on a terminal, which
    both go when it has ended; elsewhere a line now and then."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._bars: dict[str, TaskID] = {}
        self._said_at = time.monotonic()
        self._progress = BarOverALine(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
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

    def progress(self, progress: Progress) -> None:
        """Show how far the collection of a dataset is."""
        name = progress.dataset
        if not self.console.is_terminal:
            if time.monotonic() - self._said_at >= SECONDS_BETWEEN_LINES:
                self._said_at = time.monotonic()
                self.console.print(f"  {name} raw_responses: {in_a_line(progress)}", markup=False)
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(f"{name} raw_responses", line="")
        self._progress.update(self._bars[name], completed=progress.done, total=progress.total, line=in_a_line(progress))

    def show(self, outcome: Outcome) -> None:
        """Show what became of one asset."""
        if outcome.dataset in self._bars:
            self._progress.remove_task(self._bars.pop(outcome.dataset))
        name = f"{outcome.dataset or '':<6} {outcome.asset:<21}"
        self.console.print(f"{MARKS[outcome.status]} {name} {outcome.seconds:6.1f} s  ", end="")
        self.console.print(outcome.status, outcome.reason, sep=": ", markup=False)

    def conclude(self, summary: RunSummary) -> None:
        """Show what ended early or was refused, and why; nothing where nothing was."""
        if summary.ended_early:
            self.console.print("\n[bold]Ended early[/]")
            for outcome in summary.ended_early:
                self.console.print(f"{outcome.dataset} {outcome.asset}: {outcome.ended_early}", markup=False)
        if not summary.succeeded:
            self.console.print("\n[bold]Refused[/]")
            for outcome in summary.refused:
                self.console.print(f"{outcome.dataset or 'all'} {outcome.asset}: {outcome.reason}", markup=False)
