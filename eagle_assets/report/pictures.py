"""Numbers as pictures. Pure functions: mappings in, SVG out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log10

from eagle_assets.report.lengths import Lengths
from eagle_assets.report.svg import FAINT, GRID, INK, VERDICT_COLOURS, box, line, path, picture, text

WIDTH = 760
BLUE, RED, PALE = "#3b6fb6", "#d1495b", "#e8eef7"
_ROW, _LABELS, _TOP = 26, 170, 44
MOST_NATS = 40  # shown of a surprise


@dataclass(frozen=True)
class Spend:
    """Dollars of one dataset, or of all together, against its cap; without a cap of its own that is None."""

    name: str
    spent_usd: float
    reserved_usd: float
    cap_usd: float | None


@dataclass(frozen=True)
class CountDifferences:
    """One provider: the convention that its answers leave standing, and how many answers have which difference."""

    provider: str
    convention: str
    answers: Mapping[int, int]


def verdicts_by(rows: Mapping[str, Mapping[str, int]], title: str) -> str:
    """A bar for each row (provider or dataset), cut by verdict; all bars have the same scale."""
    most = max((sum(verdicts.values()) for verdicts in rows.values()), default=0) or 1
    room = WIDTH - _LABELS - 150
    parts = list(_legend(VERDICT_COLOURS, _TOP))
    y = _TOP + 24.0
    for name, verdicts in rows.items():
        total = sum(verdicts.values())
        trusted = verdicts.get("exact", 0) + verdicts.get("consistent", 0)
        parts.append(text(_LABELS - 10, y + 16, _short(name), anchor="end"))
        x = float(_LABELS)
        for verdict, colour in VERDICT_COLOURS.items():
            width = room * verdicts.get(verdict, 0) / most
            if width:
                parts.append(box(x, y + 2, width, _ROW - 6, colour, f"{name}: {verdicts[verdict]:,} {verdict}"))
            x += width
        share = f"{trusted / total:.0%}" if total else "none"
        parts.append(text(x + 8, y + 16, f"{share} of {total:,} trusted", colour=FAINT))
        y += _ROW
    return picture(WIDTH, y + 12, title, parts)


def count_differences(rows: Sequence[CountDifferences], title: str) -> str:
    """A line for each provider: how its token counts differ from the ids, under the convention that stands."""
    columns = range(-3, 4)
    cell, left = 52, 300
    parts = [text(left - 10, _TOP + 12, "server's count minus ids:", 11, "end", FAINT)]
    for i, difference in enumerate(columns):
        shown = {-3: "−3 or less", 3: "+3 or more", 0: "0: closes"}.get(
            difference, f"{difference:+d}".replace("-", "−")
        )
        parts.append(
            text(left + cell * (i + 0.5), _TOP + 12, shown, 9 if abs(difference) == 3 else 11, "middle", FAINT)
        )
    y = _TOP + 22.0
    for row in rows:
        total = sum(row.answers.values()) or 1
        parts.append(text(left - 10, y + 14, _short(row.provider, 34), anchor="end"))
        parts.append(text(left - 10, y + 28, _short(row.convention, 52), 10, "end", FAINT))
        for i, difference in enumerate(columns):
            number = sum(n for d, n in row.answers.items() if min(max(d, -3), 3) == difference)
            colour = _shade(VERDICT_COLOURS["exact"] if difference == 0 else RED, number / total)
            x = left + cell * i
            parts.append(box(x + 1, y + 1, cell - 2, 30, colour, f"{row.provider}: {number:,} of {total:,}", GRID))
            if number:
                ink = "#ffffff" if number / total > 0.55 else INK
                parts.append(text(x + cell / 2, y + 21, f"{number:,}", 12, "middle", ink))
        y += 36
    return picture(WIDTH, y + 12, title, parts)


def lengths(found: Lengths, title: str) -> str:
    """How many sequences have which length, in bins that double."""
    bins = found.bins
    first, last = (min(bins), max(bins)) if bins else (0, 0)
    bottom, room = 190.0, 120.0
    width = min(64.0, (WIDTH - 60) / (last - first + 1))
    parts = [line(30, bottom, WIDTH - 30, bottom)]
    for power in range(first, last + 1):
        number = bins.get(power, 0)
        height = room * number / max(bins.values(), default=1)
        x = 30 + width * (power - first)
        low, high = 2**power, 2 ** (power + 1) - 1
        parts.append(box(x + 3, bottom - height, width - 6, height, BLUE, f"{low:,} to {high:,} tokens: {number:,}"))
        if number:
            parts.append(text(x + width / 2, bottom - height - 5, f"{number:,}", 11, "middle"))
        parts.append(text(x + width / 2, bottom + 15, f"{low:,}–", 10, "middle", FAINT))
    if found.total:
        said = f"{found.total:,} sequences; half have up to {found.half:,} tokens, 95 % up to {found.nearly_all:,}"
        parts.append(text(30, bottom + 36, f"{said}, the longest {found.longest:,}", 12, colour=FAINT))
    return picture(WIDTH, bottom + 50, title, parts)


def surprises(rows: Mapping[str, Sequence[float]], title: str) -> str:
    """A line for each provider, a mark for each sequence: by how many nats the target prefers other ids in one place.

    Sequences that it does not surprise stand at 0, those beyond MOST_NATS at the end.
    """
    left, right = float(_LABELS), WIDTH - 40.0
    parts = []
    for nats in range(0, MOST_NATS + 1, 10):
        x = left + (right - left) * nats / MOST_NATS
        label = f"{nats} or more" if nats == MOST_NATS else f"{nats} nats" if nats else "none"
        parts += [text(x, _TOP + 12, label, 10, "middle", FAINT), line(x, _TOP + 18, x, _TOP + 22 + _ROW * len(rows))]
    y = _TOP + 22.0
    for provider, values in rows.items():
        parts.append(text(left - 10, y + 16, _short(provider), anchor="end"))
        for value in sorted(values):
            x = left + (right - left) * min(max(value, 0.0), MOST_NATS) / MOST_NATS
            parts.append(box(x - 1, y + 4, 2, _ROW - 10, RED if value > 0 else BLUE, f"{provider}: {value:.1f} nats"))
        y += _ROW
    return picture(WIDTH, y + 12, title, parts)


def spend(rows: Sequence[Spend], title: str) -> str:
    """Dollars spent and reserved, each against its cap: a bar is as long as its cap, and there is none without one."""
    room = WIDTH - _LABELS - 220
    y = float(_TOP)
    parts = []
    for row in rows:
        parts.append(text(_LABELS - 10, y + 16, _short(row.name), anchor="end"))
        if row.cap_usd:
            spent, reserved = (min(1.0, amount / row.cap_usd) for amount in (row.spent_usd, row.reserved_usd))
            parts.append(box(_LABELS, y + 2, room, _ROW - 6, PALE, border=GRID))
            colour = RED if row.spent_usd > row.cap_usd else BLUE
            parts.append(box(_LABELS, y + 2, max(room * spent, 1.5 if row.spent_usd else 0), _ROW - 6, colour))
            if row.reserved_usd:
                parts.append(box(_LABELS + room * spent, y + 2, room * reserved, _ROW - 6, "#9db8dc", "in flight"))
        cap = f" of ${row.cap_usd:,.2f} ({row.spent_usd / row.cap_usd:.1%})" if row.cap_usd else ", no cap of its own"
        parts.append(text(_LABELS + room + 8, y + 16, f"${row.spent_usd:,.4f}{cap}", colour=FAINT))
        y += _ROW
    return picture(WIDTH, y + 12, title, parts)


def coverage(counts: Sequence[int], size: int, title: str) -> str:
    """What share of all tokens the most frequent ids make up, up to the size of the draft vocabulary and beyond.

    `counts` are of each id that occurred, most frequent first.
    """
    total, last = sum(counts) or 1, max(len(counts), size, 10)
    left, right, top, bottom = 50.0, WIDTH - 30.0, 50.0, 210.0

    def x_of(rank: float) -> float:
        return left + (right - left) * log10(max(rank, 1)) / log10(last)

    def y_of(share: float) -> float:
        return bottom - (bottom - top) * share

    parts = []
    for percent in (0, 25, 50, 75, 100):
        y = y_of(percent / 100)
        parts += [line(left, y, right, y), text(left - 6, y + 4, f"{percent} %", 10, "end", FAINT)]
    for power in range(ceil(log10(last)) + 1):
        if 10**power <= last:
            parts.append(text(x_of(10**power), bottom + 15, f"{10**power:,}", 10, "middle", FAINT))
    wanted = {round(10 ** (step / 12)) for step in range(int(12 * log10(last)) + 1)} | {size, len(counts)}
    points, covered, at_size = [], 0, 0
    for rank, count in enumerate(counts, 1):
        covered += count
        at_size = covered if rank <= size else at_size
        if rank in wanted:
            points.append((x_of(rank), y_of(covered / total)))
    if points:
        parts.append(path([*points, (right, points[-1][1])], BLUE))
    parts.append(line(x_of(size), top, x_of(size), bottom, RED, dashed=True))
    said = f"{size:,} ids cover {at_size / total:.2%} of {total:,} tokens; {len(counts):,} different ids were generated"
    parts.append(text(left, bottom + 36, said, 12, colour=FAINT))
    return picture(WIDTH, bottom + 50, title, parts)


def _legend(colours: Mapping[str, str], y: float) -> list[str]:
    parts, x = [], float(_LABELS)
    for name, colour in colours.items():
        parts += [box(x, y, 11, 11, colour), text(x + 16, y + 10, name, 11, colour=FAINT)]
        x += 30 + 6.5 * len(name)
    return parts


def _short(words: str, most: int = 24) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _shade(colour: str, share: float) -> str:
    """The colour, the paler the smaller the share; white for nothing."""
    if not share:
        return "#ffffff"
    strength = 0.15 + 0.85 * share
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - channel) * strength):02x}" for channel in channels)
