"""Where a server may take white space away, and what makes a model number its calls otherwise than a server would."""

from __future__ import annotations

from typing import Literal

from eagle_assets.serving.convention import EDGES, Edge

LOSABLE = (" ", "\n", "\n\n")
"""White space that a model often writes at an end of a text and a trimming server takes away."""

Place = Edge | Literal["blank_reasoning", "blank_content"]
"""An edge of a text, or the place of a reasoning, or a content before calls, that has no text: nothing or white space
alone."""

BLANK_PLACES: tuple[Place, ...] = ("blank_reasoning", "blank_content")
PLACES: tuple[Place, ...] = (*EDGES, *BLANK_PLACES)
REASONING_PLACES: tuple[Place, ...] = ("reasoning_start", "reasoning_end", "blank_reasoning")

IndexRisk = Literal["single", "pair", "parallel", "history"]


def index_risk(calls_in_history: int, calls: int) -> IndexRisk:
    """What makes a model miscount its calls: earlier ones in the history, or several at once, the more the likelier."""
    if calls_in_history:
        return "history"
    return "single" if calls < 2 else "pair" if calls == 2 else "parallel"
