"""`eagle-assets show`: one response with its tokens, its evidence and its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eagle_assets.reconstruction.console.reasons_in_words import VERDICT_IN_WORDS, reason_in_words
from eagle_assets.reconstruction.console.shown import Shown
from eagle_assets.reconstruction.console.tokens_view import difference_in_words, differences, tokens_text
from eagle_assets.reconstruction.verdict import Candidate, Verdict
from eagle_assets.targets.vocabulary import Vocabulary, kimi_vocabulary

_MOST_DIFFERENCES = 8
_STYLES: dict[Verdict, str] = {
    "exact": "bold green",
    "consistent": "green",
    "unverified": "yellow",
    "contradicted": "red",
    "unusable": "dim",
}


def show(shown: Shown, with_ids: bool, console: Console) -> None:
    """Print one response as the console can."""
    coloured = console.is_terminal and console.color_system is not None and not console.no_color
    print_shown(shown, with_ids, coloured, console)


def print_shown(shown: Shown, with_ids: bool, coloured: bool, console: Console) -> None:
    """Print the facts, the tokens, the evidence, the verdict with its reasons, and the other candidates."""
    vocabulary = kimi_vocabulary()
    _print_pairs(f"Exchange {shown.exchange_id}", shown.facts, console)
    if shown.output_ids:
        places = [place for other in shown.candidates for place in differences(shown.output_ids, other.output_ids)]
        marked = tokens_text(shown.output_ids, vocabulary, with_ids, coloured, places, shown.surprising)
        console.print(marked, soft_wrap=True)
        console.print(Text(_legend(len(shown.output_ids), coloured, bool(places), bool(shown.surprising)), "dim"))
    else:
        console.print("There are no ids to show.\n")
    _print_pairs("Evidence", {name.replace("_", " "): value for name, value in shown.evidence.items()}, console)
    verdict = Text.assemble((shown.verdict, _STYLES[shown.verdict]), f": {VERDICT_IN_WORDS[shown.verdict]}")
    console.print(verdict, soft_wrap=True)
    for reason in shown.reasons:
        code = reason.partition(":")[0]
        console.print(Text.assemble(f"  - {reason_in_words(reason)} ", (f"({code})", "dim")), soft_wrap=True)
    for number, candidate in enumerate(shown.candidates, 2):
        console.print(_candidate(number, candidate, shown.output_ids or (), vocabulary), soft_wrap=True)


def _candidate(number: int, candidate: Candidate, ids: Sequence[int], vocabulary: Vocabulary) -> Text:
    closes = candidate.count_difference
    counted = "no count" if closes is None else "its count closes" if closes == 0 else f"its count is {closes:+d} off"
    page = Text.assemble((f"\nCandidate {number}", "bold"), f": {candidate.convention}; {counted}")
    places = differences(ids, candidate.output_ids)
    for place in places[:_MOST_DIFFERENCES]:
        page.append(f"\n  {difference_in_words(place, ids, vocabulary)}")
    if len(places) > _MOST_DIFFERENCES:
        page.append(f"\n  … and at {len(places) - _MOST_DIFFERENCES} more places")
    return page


def _legend(tokens: int, coloured: bool, differing: bool, surprising: bool) -> str:
    boundaries = "the shades change" if coloured else "dots stand"
    marked = f" Candidates differ where tokens are {'highlighted' if coloured else 'in [ ]'}, or at ▲."
    disliked = f" The target would rather have others where tokens are {'red' if coloured else 'between ! and !'}."
    return (
        f"{tokens:,} output tokens; {boundaries} at their boundaries; ⏎ is a line break, ⇥ a tab.{marked * differing}"
        f"{disliked * surprising}\n"
    )


def _print_pairs(title: str, pairs: Mapping[str, Any], console: Console) -> None:
    known = {name: value for name, value in pairs.items() if value is not None}
    if not known:
        return
    table = Table(box=SIMPLE, show_header=False, show_edge=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in known.items():
        table.add_row(name, Text(f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)))
    console.print(Text(title, "bold"), soft_wrap=True)
    console.print(table)
    console.print()
