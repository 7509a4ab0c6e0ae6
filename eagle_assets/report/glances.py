"""The same at a glance: pictures so small that Dagster shows them at once, instead of behind a click.

It does so for Markdown of up to 1,000 characters, the picture's data included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eagle_assets.report.lengths import Lengths
from eagle_assets.report.svg import VERDICT_COLOURS_IN_SHORT, as_markdown, escaped

MOST_CHARACTERS = 1_000
_WIDTH = 370  # pixels; a wider one is cut off on the page of an asset
_FULL, _EMPTY = "#47b", "#dde"


def verdicts(counts: Mapping[str, int]) -> str:
    """One bar, cut by verdict."""
    total, x, parts, words = sum(counts.values()) or 1, 0, "", ""
    for verdict, colour in VERDICT_COLOURS_IN_SHORT.items():
        if number := counts.get(verdict, 0):
            width = max(1, round(_WIDTH * number / total))
            parts += _bar(x, 0, width, colour)
            words += f"<tspan fill='{colour}'>{verdict} {number} </tspan>"
            x += width
    return _markdown(40, f"{parts}<text y='35'>{words}</text>")


def providers(rows: Mapping[str, Mapping[str, int]], trusted: frozenset[str]) -> str:
    """A line of a Markdown table for each row, with a bar of characters; as many lines as have room."""
    lines = "| provider | responses | trusted |\n|---|--:|---|"
    for name, counts in rows.items():
        total = sum(counts.values()) or 1
        share = sum(counts.get(verdict, 0) for verdict in trusted) / total
        bar = "█" * round(10 * share) + "░" * (10 - round(10 * share))
        line = f"\n| {_cell(name)} | {total:,} | {bar} {share:.0%} |"
        if len(lines) + len(line) > MOST_CHARACTERS - 20:
            return f"{lines}\n| … | | |"
        lines += line
    return lines


def shares(rows: Sequence[tuple[str, float]]) -> str:
    """A bar for each row, with its words below, filled by its share."""
    parts = ""
    for place, (words, share) in enumerate(rows):
        y = 44 * place
        parts += _bar(0, y, _WIDTH, _EMPTY) + _bar(0, y, round(_WIDTH * min(max(share, 0.0), 1.0)), _FULL)
        parts += f"<text y='{y + 35}'>{escaped(words[:60])}</text>"
    return _markdown(44 * len(rows), parts)


def lengths(found: Lengths) -> str:
    """How many sequences there are from each power of two to the next."""
    if not (bins := found.bins):
        return "none"
    first, last = min(bins), max(bins)
    most, width = max(bins.values()), min(30, _WIDTH // (last - first + 1))
    steps = "".join(f"V{60 - round(56 * bins.get(p, 0) / most)}h{width}" for p in range(first, last + 1))
    said = f"from {2**first:,} to {2 ** (last + 1):,} tokens, bars double; half up to {found.half:,}"
    return _markdown(80, f"<path fill='{_FULL}' d='M0 60{steps}V60z'/><text y='75'>{said}</text>")


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f"<path fill='{colour}' d='M{x} {y}h{width}v20h-{width}z'/>"


def _cell(words: str) -> str:
    return words.replace("|", "/").replace("\n", " ")[:40]


def _markdown(height: int, parts: str) -> str:
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' font-family='sans-serif' "
        f"font-size='12' style='background:#fff'>{parts}</svg>"
    )
    return as_markdown(svg)
