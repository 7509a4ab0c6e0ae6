"""Outputs that a known server shows otherwise than it was given them: what it fills in, and what it takes for text.

They are tried where no plain reading closes, and count only where the server's model, given their ids, sends exactly
what was received.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from eagle_assets.reconstruction.calibrating.inversion import Inversion
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.search.served_by import sends
from eagle_assets.reconstruction.search.uncoerced import spellings_before_coercion
from eagle_assets.serving.convention import name_in
from eagle_assets.serving.output import Call, Output
from eagle_assets.serving.servers import Server

_MOST_EMPTY = 4  # calls whose `{}` may be the server's own
_MOST_SPELLINGS = 256  # of the arguments of all calls together


def sent_variants(
    reading: Reading, inversions: Sequence[Inversion], servers: Sequence[Server], texts: EncodedTexts
) -> list[Inversion]:
    """Variants of the inversions whose count closes and which one of the servers sends to the letter."""
    situation = reading.situation
    assert situation is not None
    found: dict[tuple[int, ...], Inversion] = {}
    for inversion in inversions:
        if inversion.difference is None:
            continue
        length = texts.length(inversion.output) + inversion.difference
        for output in _variants(inversion.output, reading):
            if texts.length(output) == length:
                variant = replace(inversion, output=output, difference=0)
                ids = variant.ids(texts, situation)
                if any(sends(server, ids, reading) for server in servers):
                    found.setdefault(tuple(ids), variant)
    return list(found.values())


def _variants(output: Output[str], reading: Reading) -> Iterator[Output[str]]:
    if not output.calls:
        return
    yield from _without_filled_in_arguments(output)
    late = _content_after_calls(reading)
    if late:
        yield _with_marker_in_arguments(output, late, reading)
    if not reading.response.streamed:
        yield from _before_coercion(output, reading)


def _without_filled_in_arguments(output: Output[str]) -> Iterator[Output[str]]:
    """Calls without arguments, for which servers show `{}`."""
    empty = [i for i, call in enumerate(output.calls) if call.arguments == "{}"][:_MOST_EMPTY]
    for chosen in product((False, True), repeat=len(empty)):
        emptied = {i for i, one in zip(empty, chosen, strict=True) if one}
        if emptied:
            yield replace(output, calls=tuple(_emptied(c) if i in emptied else c for i, c in enumerate(output.calls)))


def _before_coercion(output: Output[str], reading: Reading) -> Iterator[Output[str]]:
    """Calls whose arguments disagreed with the tool's schema, which vLLM makes agree in unstreamed answers."""
    assert reading.situation is not None
    tools = reading.situation.tools
    spellings = [
        [call.arguments, *spellings_before_coercion(call.arguments or "", name_in(call.header), tools)]
        for call in output.calls
    ]
    if prod(map(len, spellings)) > _MOST_SPELLINGS:
        return
    for chosen in product(*spellings):
        calls = tuple(replace(c, arguments=arguments) for c, arguments in zip(output.calls, chosen, strict=True))
        if calls != output.calls:
            yield replace(output, calls=calls)


def _emptied(call: Call[str]) -> Call[str]:
    return replace(call, arguments="")


def _with_marker_in_arguments(output: Output[str], late: str, reading: Reading) -> Output[str]:
    """The last call's arguments with a marker in them that the model wrote as text: SGLang's parsers take it for the
    end of the call, and what follows for content. Of the marker they may have sent a beginning."""
    assert reading.situation is not None
    target = reading.situation.target
    marker = target.vocabulary.special_text[target.markers.call_end]
    last = output.calls[-1]
    shown = last.arguments or ""
    begun = next((n for n in range(min(len(marker), len(shown)), 0, -1) if shown.endswith(marker[:n])), 0)
    arguments = shown[: len(shown) - begun] + marker + late
    calls = (*output.calls[:-1], replace(last, arguments=arguments))
    return replace(output, content=output.content.removesuffix(late), calls=calls)


def _content_after_calls(reading: Reading) -> str:
    """What a stream brought as content after its last call."""
    deltas = reading.response.deltas
    last = max((i for i, delta in enumerate(deltas) if delta.field == "tool_calls"), default=len(deltas))
    return "".join(delta.text for delta in deltas[last + 1 :] if delta.field == "content")
