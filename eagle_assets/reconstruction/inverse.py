"""Undoing a convention on texts: the blanks that a server put in are taken out again, edge by edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eagle_assets.serving.convention import EDGES, Edge, content_start
from eagle_assets.serving.output import Call, Output
from eagle_assets.serving.served import Situation

SOMETIMES_STRIPPED: frozenset[Edge] = frozenset(("arguments_end",))
"""Edges at which a server that puts a blank in takes it away again in some answers (SGLang 0.5.8, streamed)."""


def edges(output: Output[str], situation: Situation) -> Iterator[tuple[Edge, str, bool]]:
    """Each edge of the texts of an output: its name, the text, and whether a blank can have been put in there.

    Mirrors `Convention`: there is no blank where no added token is met, or where a content is empty.
    """
    if output.reasoning:
        yield "reasoning_start", output.reasoning, True
        yield "reasoning_end", output.reasoning, output.reasoning_closed or output.section_begun
    if output.content:
        start = content_start(output.reasoning is not None, situation)
        yield start or "content_start", output.content, start is not None
        yield "content_end", output.content, output.section_begun
    for call in output.calls:
        if call.arguments:
            yield "arguments_start", call.arguments, situation.streamed
            yield "arguments_end", call.arguments, situation.streamed and call.closed


_STARTS = frozenset(edge for edge in EDGES if edge.endswith("_start"))


def at_start(edge: str) -> bool:
    return edge in _STARTS


def has_blank(edge: Edge, text: str) -> bool:
    return text.startswith(" ") if at_start(edge) else text.endswith(" ")


def without_blank(edge: Edge, text: str) -> str:
    """The text with one blank less at this edge, if there is one."""
    return text.removeprefix(" ") if at_start(edge) else text.removesuffix(" ")


def without_blanks(output: Output[str], inserted: frozenset[Edge], situation: Situation) -> Output[str] | None:
    """The output without the blanks that a server puts in at the `inserted` edges; None where one is not there."""
    if not inserted:
        return output
    here = [(edge, text) for edge, text, possible in edges(output, situation) if possible and edge in inserted]
    if not all(has_blank(edge, text) or edge in SOMETIMES_STRIPPED for edge, text in here):
        return None
    if not here:
        return output
    at = {edge for edge, _ in here}

    start_of_content = content_start(output.reasoning is not None, situation) or "content_start"

    def shorten(text: str, start: Edge, end: Edge) -> str:
        text = without_blank(start, text) if start in at else text
        return without_blank(end, text) if end in at else text

    return replace(
        output,
        reasoning=None if output.reasoning is None else shorten(output.reasoning, "reasoning_start", "reasoning_end"),
        content=shorten(output.content, start_of_content, "content_end"),
        calls=tuple(_shorter_call(call, at) for call in output.calls),
    )


def _shorter_call(call: Call[str], at: set[Edge]) -> Call[str]:
    if not call.arguments:
        return call
    arguments = without_blank("arguments_start", call.arguments) if "arguments_start" in at else call.arguments
    if "arguments_end" in at and call.closed:
        arguments = without_blank("arguments_end", arguments)
    return replace(call, arguments=arguments)
