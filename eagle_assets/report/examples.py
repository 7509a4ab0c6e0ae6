"""Responses to look at: the worst, and some that are as they should be, token by token."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import Any

import duckdb
import msgspec
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from eagle_assets.reconstruction.console.reasons_in_words import VERDICT_IN_WORDS, reason_in_words
from eagle_assets.reconstruction.console.tokens_view import difference_in_words, differences, tokens_text
from eagle_assets.targets.vocabulary import Vocabulary

MOST_TOKENS = 300
MOST_DIFFERENCES = 3
BEFORE_A_DIFFERENCE = 60

# One of each verdict and provider, of a length that can be read; those with rivals first.
_PICK = """
WITH ranked AS (
    SELECT
        dataset, exchange_id, coalesce(provider, 'not named') AS provider, verdict, output_ids, reasons, evidence,
        candidates,
        row_number() OVER (
            PARTITION BY provider, verdict
            ORDER BY candidates = '[]', abs(len(output_ids) - 150), exchange_id
        ) AS place
    FROM all_sequences
    WHERE len(output_ids) > 0 AND list_contains($verdicts, verdict)
)
SELECT * EXCLUDE place
FROM ranked
WHERE place = 1
ORDER BY list_position($verdicts, verdict), provider
LIMIT $most
"""


_COLOURS = [(0, 0, 0), (255, 123, 114), (126, 231, 135), (242, 204, 96), (121, 192, 255), (210, 168, 255)]
_THEME = TerminalTheme((22, 25, 29), (230, 230, 230), [*_COLOURS, (165, 214, 255), (230, 230, 230)])  # on black


@dataclass(frozen=True)
class Example:
    """One response as the page shows it; `tokens` is HTML, all else is text."""

    exchange_id: str
    dataset: str
    provider: str
    verdict: str
    meaning: str
    why: tuple[str, ...]
    tokens: str
    length: int
    omitted_before: int
    omitted_after: int


def examples(
    connection: duckdb.DuckDBPyConnection, verdicts: list[str], most: int, vocabulary: Vocabulary
) -> list[Example]:
    """At most so many responses of these verdicts, in the order of the verdicts."""
    found = connection.sql(_PICK, params={"verdicts": verdicts, "most": most}).to_arrow_table()
    return [_example(row, vocabulary) for row in found.to_pylist()]


def _example(row: dict[str, Any], vocabulary: Vocabulary) -> Example:
    ids = row["output_ids"]
    rivals = msgspec.json.decode(row["candidates"] or "[]")
    places = [place for rival in rivals for place in differences(ids, rival["output_ids"])]
    begin = max(0, min((place.start for place in places), default=0) - BEFORE_A_DIFFERENCE)
    shown = ids[begin : begin + MOST_TOKENS]
    here = [
        type(place)(place.start - begin, min(place.end - begin, len(shown)), place.instead)
        for place in places
        if begin <= place.start < begin + len(shown)
    ]
    evidence = msgspec.json.decode(row["evidence"] or "{}")
    why = [reason_in_words(reason) for reason in row["reasons"]]
    if convention := evidence.get("convention"):
        why.append(f"read as: {convention}")
    if "residual_error" in evidence:
        why.append(f"may be wrong with a probability of {evidence['residual_error']:.2%}")
    for rival in rivals[:1]:
        why += [
            f"a rival ({rival['convention']}) has, {difference_in_words(place, ids, vocabulary)}"
            for place in differences(ids, rival["output_ids"])[:MOST_DIFFERENCES]
        ]
    return Example(
        exchange_id=row["exchange_id"],
        dataset=row["dataset"],
        provider=row["provider"],
        verdict=row["verdict"],
        meaning=VERDICT_IN_WORDS[row["verdict"]],
        why=tuple(why),
        tokens=_as_html(shown, vocabulary, here),
        length=len(ids),
        omitted_before=begin,
        omitted_after=len(ids) - begin - len(shown),
    )


def _as_html(ids: list[int], vocabulary: Vocabulary, places: list[Any]) -> str:
    console = Console(record=True, file=StringIO(), width=100, force_terminal=True, color_system="truecolor")
    console.print(tokens_text(ids, vocabulary, with_ids=False, coloured=True, differing=places))
    return console.export_html(inline_styles=True, code_format="{code}", theme=_THEME)
