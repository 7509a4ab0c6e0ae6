"""The tokenizer report as tables for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eagle_assets.targets.environment import Environment
from eagle_assets.targets.findings import Section
from eagle_assets.targets.report import ORIGIN, TokenizerReport

_MARKS = {True: "[green]✓[/]", False: "[bold red]✗[/]", None: ""}


def print_report(report: TokenizerReport, console: Console) -> None:
    """Sections first, then the environment and the gates, so that what decides stands last."""
    if report.sections:
        console.print(f"{ORIGIN}\n")
    for section in report.sections:
        console.print(_section_table(section))
        console.print(f"  [{'dim' if section.passed else 'bold red'}]{escape(section.answer)}[/]\n")
    _print_environment(report.environment, console)
    gates = Table("gate", "", "what was found", title="Gates", title_justify="left", title_style="bold")
    for gate in report.gates:
        gates.add_row(gate.name, _MARKS[gate.passed], escape(gate.sentence))
    console.print(gates)
    if report.passed:
        console.print("\n[bold green]Ready.[/] Every gate is open and every package works.")
    else:
        console.print("\n[bold red]Not ready.[/] No run may start before what is marked ✗ is mended.")


def _section_table(section: Section) -> Table:
    table = Table(
        "tried", "result", "", title=escape(section.title), title_justify="left", title_style="bold", expand=True
    )
    table.columns[0].ratio, table.columns[1].ratio = 2, 3
    for trial in section.trials:
        table.add_row(escape(trial.tried), escape(trial.result), _MARKS[trial.as_expected])
    return table


def _print_environment(environment: Environment, console: Console) -> None:
    packages = environment.packages
    console.print(f"[bold]Environment[/]: Python {environment.python}, {len(packages)} required packages")
    if environment.passed:
        console.print(f"  [dim]All import and work: {', '.join(f'{p.name} {p.version}' for p in packages)}.[/]\n")
    for package in environment.problems:
        console.print(f"  [bold red]✗[/] {escape(package.problem or '')}. To mend it:")
        console.print(f"      {escape(package.remedy or '')}", soft_wrap=True)
