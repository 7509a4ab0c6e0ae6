"""Where a server may take white space away, and what makes a model number its calls otherwise than a server would."""

from __future__ import annotations

from typing import Literal

from eagle_assets.serving.convention import EDGES, Edge

LOSABLE = (" ", "\n", "\n\n")
"""White space that a model often writes at an end of a text and a trimming server takes away."""

Place = Edge | Literal["message_end", "blank_reasoning", "blank_content"]
"""An edge of a text, or the place of a reasoning, or a content before calls, that has no text: nothing or white space
alone. A content ends at its `content_end` where calls follow, which parsers cut off, else at the `message_end`."""

BLANK_PLACES: tuple[Place, ...] = ("blank_reasoning", "blank_content")
PLACES: tuple[Place, ...] = (*EDGES, "message_end", *BLANK_PLACES)
REASONING_PLACES: tuple[Place, ...] = ("reasoning_start", "reasoning_end", "blank_reasoning")

IndexRisk = Literal["single", "pair", "parallel", "history"]


def place_of(edge: Edge, section_begun: bool) -> Place:
    """The place of an edge in an output with a tool section, or without."""
    return "message_end" if edge == "content_end" and not section_begun else edge


def index_risk(calls_in_history: int, calls: int) -> IndexRisk:
    """What makes a model miscount its calls: earlier ones in the history, or several at once, the more the likelier."""
    if calls_in_history:
        return "history"
    return "single" if calls < 2 else "pair" if calls == 2 else "parallel"
