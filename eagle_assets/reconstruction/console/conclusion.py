"""What ends a reconstruction on the console: verdicts by provider, and what trust was withheld for."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eagle_assets.reconstruction.files.summary import Summary
from eagle_assets.reconstruction.verdict import VERDICTS

NO_LINES = (
    "No line could be read. Exchanges are plain text in UTF-8, a JSON object a line, with exchange_id, model, "
    "provider, status, request and body (the text of the response, as received). Unpack a file that is compressed; "
    "write a JSON array as lines, as `jq -c '.[]'` does."
)


def conclude(console: Console, summary: Summary, seconds: float, output: Path) -> None:
    """Print the tables of a summary, and how fast it went."""
    console.print(_by_provider(summary))
    if summary.reasons:
        console.print(_by_reason(summary))
    if summary.reasons["malformed_line"] == summary.exchanges:
        console.print(NO_LINES, style="yellow", highlight=False)
    console.print(
        f"{summary.exchanges:,} exchanges, {summary.tokens:,} output tokens in {seconds:.1f} s "
        f"({summary.tokens / seconds:,.0f} tokens a second). Verdicts are in {output}"
    )


def _by_provider(summary: Summary) -> Table:
    table = Table(title="Verdicts by provider", title_justify="left")
    table.add_column("provider")
    for verdict in VERDICTS:
        table.add_column(verdict, justify="right")
    for provider in sorted({provider for provider, _ in summary.verdicts}):
        table.add_row(escape(provider), *(str(summary.verdicts[provider, verdict] or "") for verdict in VERDICTS))
    return table


def _by_reason(summary: Summary) -> Table:
    table = Table(title="First reason why a response is not trusted", title_justify="left")
    table.add_column("reason")
    table.add_column("responses", justify="right")
    for reason, times in summary.reasons.most_common(12):
        table.add_row(escape(reason), str(times))
    return table
