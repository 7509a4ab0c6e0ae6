"""The kinds of line breaks that an output has."""

from __future__ import annotations

import pytest

from eagle_assets.reconstruction.calibrating.observation import line_breaks
from eagle_assets.serving.output import Output


@pytest.mark.parametrize(
    ("reasoning", "content", "kinds"),
    [
        (None, "", set()),
        ("a", "b\r", set()),
        ("a\nb", "", {"\n"}),
        (None, "a\r\nb\r\n", {"\r\n"}),
        ("a\r\nb", "c\nd", {"\n", "\r\n"}),
        (None, "\r\r\n", {"\r\n"}),
        (None, "\n\r\n", {"\n", "\r\n"}),
        ("a\n", "\nb", {"\n"}),
        ("a\n\nb", "", {"\n\n"}),
        (None, "a\n\n\nb", {"\n", "\n\n"}),
    ],
)
def test_kinds_of_line_breaks_are_told_apart(reasoning: str | None, content: str, kinds: set[str]) -> None:
    assert line_breaks(Output(False, reasoning, True, content, False, (), False, True)) == kinds
