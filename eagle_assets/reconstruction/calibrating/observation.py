"""What one exchange says of the convention it was served under, reduced to a few numbers.

An observation is what calibration keeps of an exchange: how far its count is from the canonical encoding of the
texts as they stand, and how that would change with a blank less or white space more at each edge.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import cache, lru_cache
from itertools import chain
from typing import Literal, get_args

import msgspec
from msgspec import structs

from eagle_assets.reconstruction.arguments import with_python_spacing
from eagle_assets.reconstruction.encoding import EncodedTexts, encodable
from eagle_assets.reconstruction.evidence.layouts import Layout
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.given_ids import agrees_with_message, given_ids, off_the_path
from eagle_assets.reconstruction.inverse import SOMETIMES_STRIPPED, at_start, edges
from eagle_assets.reconstruction.key_order import KeyOrder, key_order
from eagle_assets.reconstruction.places import LOSABLE, PLACES, REASONING_PLACES, IndexRisk, Place, index_risk, place_of
from eagle_assets.serving.convention import Edge
from eagle_assets.serving.output import Output
from eagle_assets.targets.vocabulary import Vocabulary

_INDEX = re.compile("[0-9]{1,9}")
# Characters beside an edge: pre-tokens are local, so these decide how it tokenises.
_CONTEXT_AT_START = 24
_CONTEXT_AT_END = 12


GivenIds = Literal["encoded", "off_path", "contradicted"]

AnswerKind = Literal[
    "thinking answers",
    "instant answers",
    "answers with tools",
    "answers without tools",
    "answers with calls",
    "answers without calls",
]
"""What parsers tell answers by: whether the target was asked to think, whether tools are declared, and called."""

OTHER_KIND: Mapping[AnswerKind, AnswerKind] = {
    "thinking answers": "instant answers",
    "instant answers": "thinking answers",
    "answers with tools": "answers without tools",
    "answers without tools": "answers with tools",
    "answers with calls": "answers without calls",
    "answers without calls": "answers with calls",
}


@cache
def kinds_of(thinking: bool, tools_declared: bool, has_calls: bool) -> frozenset[AnswerKind]:
    """All three kinds that an answer is of."""
    return frozenset(
        (
            "thinking answers" if thinking else "instant answers",
            "answers with tools" if tools_declared else "answers without tools",
            "answers with calls" if has_calls else "answers without calls",
        )
    )


class EdgeView(msgspec.Struct, frozen=True):
    """One edge of a text, or of all calls' arguments together. Changes are in tokens of the canonical encoding.

    `can_hold_blank`: a convention may have put a blank here. `white` is the white space that stands here.
    `outermost` is the character that stands last here. `without_blank` is the change when one blank is taken away, None
    where there is none; `with_lost` the change when a LOSABLE is put (back) there.
    """

    can_hold_blank: bool
    white: str
    without_blank: int | None
    with_lost: tuple[int, ...]
    outermost: str = ""


class Observation(msgspec.Struct, frozen=True):
    """`difference` is `completion_tokens` minus the canonical length of the texts as shown, markers included.

    `respaced` is the change of length when arguments are spaced as the model usually does, None where the server cannot
    have written them anew. `index_shifted` says whether tool ids number otherwise than a renumbering server would;
    `prompt_offset` is `prompt_tokens` minus the rendered prompt's length. `reasoning_surplus` is `reasoning_tokens`
    minus the tokens of the reasoning as shown. `ids_given` is what ids that the server gives are: as an encoder would
    give them for the text, off the canonical path, or ids of something else. `first_index` is the number of the first
    of calls that are numbered in turn, and what it is beyond the calls of the history. `line_breaks` are the kinds that
    its texts have, `key_order` is how the keys of its arguments are ordered. `deltas_beyond` is the number of a
    stream's deltas minus the tokens of the texts as shown, None of a response with calls. `tells_reasoning` says
    whether a reasoning is told from what is behind it. None: there was no thinking. `order` is the exchange's place.
    """

    exchange_id: str
    order: float
    model: str
    provider: str
    streamed: bool
    thinking: bool
    has_calls: bool
    difference: int
    edges: Mapping[Place, EdgeView]
    respaced: int | None
    index_shifted: bool | None
    index_risk: IndexRisk
    prompt_offset: int | None
    reasoning_surplus: int | None
    ids_given: GivenIds | None = None
    first_index: tuple[int, int] | None = None
    tools_declared: bool = False
    tells_reasoning: bool | None = None
    line_breaks: frozenset[LineBreak] = frozenset()
    key_order: KeyOrder | None = None
    deltas_beyond: int | None = None

    @property
    def kinds(self) -> frozenset[AnswerKind]:
        return kinds_of(self.thinking, self.tools_declared, self.has_calls)


def observe(reading: Reading, primary: Layout, texts: EncodedTexts, prompt_offset: int | None) -> Observation | None:
    """What a reading says; None where it says nothing: no count, or markers whose places are open."""
    situation, count = reading.situation, reading.completion_tokens
    output = primary.output
    if situation is None or count is None or not output.stopped or not _places_are_known(reading, output):
        return None
    respaced = with_python_spacing(output)
    return Observation(
        exchange_id=reading.exchange.exchange_id,
        order=reading.exchange.order,
        model=situation.target.name,
        provider=reading.provider or "",
        streamed=situation.streamed,
        thinking=situation.thinking,
        has_calls=bool(output.calls),
        difference=count - texts.length(output),
        edges=edge_views(reading, primary),
        respaced=None if respaced is None else texts.length(respaced) - texts.length(output),
        index_shifted=index_shifted(reading),
        index_risk=index_risk(situation.calls_in_history, len(output.calls)),
        prompt_offset=prompt_offset,
        reasoning_surplus=reasoning_surplus(reading, output, texts),
        ids_given=_ids_given(reading),
        first_index=_first_index(reading),
        line_breaks=line_breaks(output),
        key_order=key_order(reading.response.tool_calls, situation.tools),
        tools_declared=bool(situation.tools),
        tells_reasoning=shows_both(output) if situation.thinking else None,
        deltas_beyond=_deltas_beyond(reading, output, texts),
    )


def _places_are_known(reading: Reading, output: Output[str]) -> bool:
    """Whether it is known where markers stood: also where a reasoning of white space is all that there is."""
    if output.content or output.calls or (output.reasoning or "").strip():
        return not reading.layout_notes
    return not set(reading.layout_notes) - {"think_position_unknown"}


def reasoning_surplus(reading: Reading, output: Output[str], texts: EncodedTexts) -> int | None:
    """`reasoning_tokens` minus the tokens of an output's reasoning; None where either is missing.

    vLLM leaves tokens that end inside a character out of the count of a stream, so a stream's must be ASCII.
    """
    counted = reading.response.reasoning_tokens
    if not counted or not output.reasoning or (reading.response.streamed and not output.reasoning.isascii()):
        return None
    return counted - texts.count(output.reasoning)


def _deltas_beyond(reading: Reading, output: Output[str], texts: EncodedTexts) -> int | None:
    if not reading.response.deltas or output.calls:
        return None
    return len(reading.response.deltas) - sum(map(texts.count, output.segments()))


def _ids_given(reading: Reading) -> GivenIds | None:
    ids, _ = given_ids(reading)
    if ids is None:
        return None
    if len(ids) != reading.completion_tokens or not agrees_with_message(ids, reading):
        return "contradicted"
    return "off_path" if off_the_path(ids, reading) else "encoded"


def edge_views(reading: Reading, layout: Layout, wanted: Container[Place] = PLACES) -> dict[Place, EdgeView]:
    """The wanted places of a layout, the arguments of all its calls taken together."""
    views: dict[Place, EdgeView] = {}
    if reading.situation is not None:
        vocabulary = reading.situation.target.vocabulary
        reasoning, content = layout.output.reasoning, layout.output.content
        is_blank = reasoning is not None and not reasoning.strip()
        if is_blank and "blank_reasoning" in wanted:
            views["blank_reasoning"] = _view_blank(reasoning or "", vocabulary)
        if layout.output.calls and not content.strip() and "blank_content" in wanted:
            views["blank_content"] = _view_blank(content, vocabulary)
        for edge, text, possible in edges(layout.output, reading.situation):
            place = place_of(edge, layout.output.section_begun)
            if place not in wanted or (is_blank and place in REASONING_PLACES):
                continue
            view = _view_edge(edge, text, possible, vocabulary)
            views[place] = view if place not in views else _together(views[place], view, edge in SOMETIMES_STRIPPED)
    return views


def _view_edge(edge: Edge, text: str, can_hold_blank: bool, vocabulary: Vocabulary) -> EdgeView:
    starts = at_start(edge)
    near = text[:_CONTEXT_AT_START] if starts else text[-_CONTEXT_AT_END:]
    view = _view_near(vocabulary, starts, near, can_hold_blank)
    return structs.replace(view, white=white_at(edge, text)) if near.isspace() and len(near) < len(text) else view


def _view_blank(content: str, vocabulary: Vocabulary) -> EdgeView:
    # Of white space that is there none is lost.
    with_lost = () if content else _view_near(vocabulary, True, "", False).with_lost
    return EdgeView(can_hold_blank=False, white=content, without_blank=None, with_lost=with_lost)


def white_at(edge: Edge, text: str) -> str:
    """The white space at this end of a text; all of one that is nothing else."""
    return _white(at_start(edge), text)


def _white(starts: bool, text: str) -> str:
    return text[: len(text) - len(text.lstrip())] if starts else text[len(text.rstrip()) :]


def _together(one: EdgeView, other: EdgeView, sometimes: bool) -> EdgeView:
    blanks = [view.without_blank for view in (one, other) if view.without_blank is not None]
    return EdgeView(
        can_hold_blank=one.can_hold_blank and other.can_hold_blank,
        white=min(one.white, other.white, key=len),
        without_blank=sum(blanks) if len(blanks) == 2 or (blanks and sometimes) else None,
        with_lost=tuple(min(pair) for pair in zip(one.with_lost, other.with_lost, strict=True)),
    )


@lru_cache(maxsize=1 << 15)
def _view_near(vocabulary: Vocabulary, starts: bool, near: str, can_hold_blank: bool) -> EdgeView:
    """The edge at the start, or the end, of a text that is `near` there."""
    shorter = near.removeprefix(" ") if starts else near.removesuffix(" ")
    count = _count(vocabulary, near)
    return EdgeView(
        can_hold_blank=can_hold_blank,
        white=_white(starts, near),
        without_blank=_count(vocabulary, shorter) - count if shorter != near else None,
        with_lost=tuple(_count(vocabulary, lost + near if starts else near + lost) - count for lost in LOSABLE),
        outermost=near[:1] if starts else near[-1:],
    )


def _count(vocabulary: Vocabulary, text: str) -> int:
    return len(vocabulary.encode(encodable(text)))


def shows_both(output: Output[str]) -> bool:
    """Whether an output has both a reasoning and a content, so that its server knew where the one ended. Calls behind a
    reasoning do not tell: they are cut off wherever it is put."""
    return bool(output.reasoning and output.content.strip())


def line_breaks(output: Output[str]) -> frozenset[LineBreak]:
    """The kinds of line breaks in the reasoning and the content of an output."""
    found = (_LINE_BREAKS.findall(text) for text in (output.reasoning or "", output.content))
    return frozenset(_KINDS_OF_LINE_BREAKS[line_break] for line_break in chain.from_iterable(found))


LineBreak = Literal["\r\n", "\n", "\n\n"]
"""Line breaks of Windows, single ones, and those that leave a line blank."""

_LINE_BREAKS = re.compile(r"\r\n|\n\n|\n")
_KINDS_OF_LINE_BREAKS: Mapping[str, LineBreak] = {kind: kind for kind in get_args(LineBreak)}


def index_shifted(reading: Reading) -> bool | None:
    """Whether native tool ids number otherwise than calls in the history plus position; None without such ids."""
    indices = _indices(reading)
    if reading.situation is None or not indices:
        return None
    return indices != [reading.situation.calls_in_history + i for i in range(len(indices))]


def _first_index(reading: Reading) -> tuple[int, int] | None:
    indices = _indices(reading)
    if reading.situation is None or not indices or indices != [indices[0] + i for i in range(len(indices))]:
        return None
    return indices[0], indices[0] - reading.situation.calls_in_history


def _indices(reading: Reading) -> list[int]:
    """The numbers in native tool ids; none where one has none."""
    indices = [(call.id or "").rpartition(":")[2] for call in reading.response.tool_calls]
    return [int(index) for index in indices] if all(map(_INDEX.fullmatch, indices)) else []
