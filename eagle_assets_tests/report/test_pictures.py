"""Pictures say what the numbers say, whatever the numbers are, and are well-formed."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from xml.etree import ElementTree

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.report import glances, pictures
from eagle_assets.report.figures import Figures, summed
from eagle_assets.report.lengths import Lengths
from eagle_assets.report.svg import as_markdown

SVG = "{http://www.w3.org/2000/svg}"
NAMES = st.text(max_size=50) | st.sampled_from(["\x00", "\ufffe", "a\x1bb", "\x7f"])
COUNTS = st.dictionaries(st.sampled_from(list(pictures.VERDICT_COLOURS)), st.integers(0, 10**9))


def words(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def widths(svg: str, colour: str) -> list[float]:
    boxes = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    return [float(box.get("width", "")) for box in boxes if box.get("fill") == colour]


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(NAMES, COUNTS, max_size=6), NAMES)
def test_any_numbers_and_names_make_a_picture(rows: dict[str, dict[str, int]], title: str) -> None:
    shown = words(pictures.verdicts_by(rows, title))[0]
    assert all(there == given or there == "\ufffd" for there, given in zip(shown, title, strict=True))
    gaps = [pictures.CountDifferences(name, name, Counter(len(name) - 5 for _ in v)) for name, v in rows.items()]
    ElementTree.fromstring(pictures.count_differences(gaps, title))
    lengths = [n for counts in rows.values() for n in counts.values()]
    ElementTree.fromstring(pictures.lengths(Lengths.of(lengths), title))
    ElementTree.fromstring(pictures.coverage(sorted(lengths, reverse=True), 32_000, title))
    spends = [pictures.Spend(name, float(len(v)), 0.5, None if len(v) % 2 else 3.0) for name, v in rows.items()]
    ElementTree.fromstring(pictures.spend(spends, title))


def test_bars_are_as_long_as_their_numbers() -> None:
    svg = pictures.verdicts_by({"A": {"exact": 30, "unverified": 10}, "B & <C>": {"exact": 10}}, "Verdicts")
    exact = [w for w in widths(svg, pictures.VERDICT_COLOURS["exact"]) if w != 11]
    assert exact[0] / exact[1] == 3
    assert {"75% of 40 trusted", "100% of 10 trusted", "B & <C>"} <= set(words(svg))


def test_differences_beyond_the_last_column_are_in_it() -> None:
    rows = [pictures.CountDifferences("A", "verbatim", {0: 7, 3: 1, 40: 2, -9: 5})]
    svg = pictures.count_differences(rows, "Counts")
    assert words(svg)[-3:] == ["5", "7", "3"]


def test_coverage_says_what_share_the_vocabulary_covers() -> None:
    assert "2 ids cover 90.00% of 10 tokens; 3 different ids were generated" in words(
        pictures.coverage([5, 4, 1], 2, "Coverage")
    )


def test_what_is_over_the_cap_is_red() -> None:
    assert widths(pictures.spend([pictures.Spend("B3", 16, 0, 15)], "Spend"), pictures.RED)
    assert not widths(pictures.spend([pictures.Spend("B3", 14, 0, 15)], "Spend"), pictures.RED)


def test_a_picture_travels_within_markdown() -> None:
    svg = pictures.lengths(Lengths.of([1, 2, 300]), "Lengths")
    markdown = as_markdown(svg)
    data = markdown.removeprefix("![](data:image/svg+xml;base64,").removesuffix(")")
    assert b64decode(data).decode() == svg


@given(st.lists(st.integers(0, 1 << 45) | st.builds((1).__lshift__, st.integers(0, 45))))
def test_lengths_are_counted_from_each_power_of_two_to_the_next(values: list[int]) -> None:
    found = Lengths.of(values)
    for power in {0, 1, 44, *found.bins, *(power + 1 for power in found.bins)}:
        there = sum(2**power <= max(value, 1) < 2 ** (power + 1) for value in values)
        assert found.bins.get(power, 0) == there
    assert (found.total, found.longest) == (len(values), max(values, default=0))
    assert 2 * sum(value <= found.half for value in values) >= len(values)
    assert 2 * sum(value >= found.half for value in values) >= len(values)
    assert sum(value <= found.nearly_all for value in values) >= 0.95 * len(values)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(NAMES, COUNTS, max_size=40), st.lists(st.integers(0, 10**7), max_size=50))
def test_glances_are_short_enough_to_be_shown_at_once(rows: dict[str, dict[str, int]], values: list[int]) -> None:
    trusted = frozenset(("exact", "consistent"))
    made = [
        glances.providers(rows, trusted),
        glances.lengths(Lengths.of(values)),
        *map(glances.verdicts, rows.values()),
    ]
    made += [glances.shares([(name, 0.5), (name, 2.0)]) for name in rows]
    for markdown in made:
        assert len(markdown) < glances.MOST_CHARACTERS
        if data := markdown.partition("base64,")[2]:
            ElementTree.fromstring(b64decode(data.removesuffix(")")))


def row(
    provider: str, verdict: str, ids: list[int] | None, cost: float | None, evidence: str = "{}"
) -> dict[str, object]:
    return {
        "provider": provider,
        "verdict": verdict,
        "output_ids": ids,
        "evidence": evidence,
        "count_difference": None if ids is None else 1,
        "canonical": verdict == "exact" or None,
        "cost_usd": cost,
    }


def test_figures_are_sums_of_the_rows() -> None:
    explained = '{"count_difference": 0, "convention": "verbatim"}'
    rows = [
        row("A", "exact", [1] * 3, 0.5),
        row("B", "consistent", [1] * 5, 0.5, explained),
        row("B", "unverified", [1] * 2, None, explained),
        row("B", "unusable", None, None),
    ]
    figures = Figures.of(pa.Table.from_pylist(rows).to_batches(max_chunksize=3))
    assert figures.trusted_tokens == 8
    assert figures.trusted_share == 0.5
    assert figures.usd_per_million_trusted == 1e6 / 8
    local = row("local", "exact", [1] * 100, 0.0)
    figures.add(summed(pa.RecordBatch.from_pylist([local])))
    assert figures.usd_per_million_trusted == 1e6 / 8
    assert [(d.provider, d.convention, dict(d.answers)) for d in figures.differences()] == [
        ("A", "the server gives the ids", {1: 1}),
        ("B", "verbatim", {0: 2}),
        ("local", "the server gives the ids", {1: 1}),
    ]
    assert list(figures.sorted_verdicts()) == ["A", "local", "B"]
    assert "| **consistent** | 1 | 5 | yes |" in figures.verdict_table()
