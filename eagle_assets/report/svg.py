"""The few shapes that the pictures are made of, as SVG that stands by itself."""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape

INK, FAINT, GRID = "#1f2328", "#59636e", "#d8dee4"
VERDICT_COLOURS = {
    "exact": "#1a7f37",
    "consistent": "#7bc47f",
    "unverified": "#f2c14e",
    "contradicted": "#d1495b",
    "unusable": "#b8bfc6",
}
VERDICT_COLOURS_IN_SHORT = {
    "exact": "#283",
    "consistent": "#7b7",
    "unverified": "#da2",
    "contradicted": "#d45",
    "unusable": "#999",
}
"""About the same in few characters, for pictures whose data must be short."""

FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


_NOT_IN_XML = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(words: str) -> str:
    """Words as they may stand in a picture; characters that XML cannot hold become U+FFFD."""
    return escape(_NOT_IN_XML.sub("\ufffd", words))


def text(
    x: float, y: float, words: str, size: int = 12, anchor: str = "start", colour: str = INK, bold: bool = False
) -> str:
    """Words that stand on the line `y`; `anchor` is start, middle or end."""
    weight = " font-weight='600'" if bold else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{colour}'{weight}>"
        f"{escaped(words)}</text>"
    )


def box(x: float, y: float, width: float, height: float, colour: str, tip: str = "", border: str = "none") -> str:
    """A rectangle; `tip` shows when the mouse is over it."""
    title = f"<title>{escaped(tip)}</title>" if tip else ""
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' height='{height:.1f}' fill='{colour}' "
        f"stroke='{border}'>{title}</rect>"
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str = GRID, dashed: bool = False) -> str:
    dashes = " stroke-dasharray='4 3'" if dashed else ""
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}'{dashes}/>"


def path(points: list[tuple[float, float]], colour: str) -> str:
    """A line through points."""
    steps = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return f"<path d='{steps}' fill='none' stroke='{colour}' stroke-width='2'/>"


def picture(width: float, height: float, title: str, parts: list[str]) -> str:
    """The whole picture, on white, so that it can be read in a dark page too."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}' "
        f"height='{height:.0f}' role='img' aria-label='{escaped(title)}' {FONT}>"
        f"{box(0, 0, width, height, '#ffffff')}{text(16, 26, title, 15, bold=True)}{''.join(parts)}</svg>"
    )


def as_markdown(svg: str) -> str:
    """The picture within Markdown, without a file."""
    return f"![](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"
