"""Whether a server, as an executable model, would have sent what was received for some ids."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.serving.output import NotInGrammar
from eagle_assets.serving.served import Frame, Served
from eagle_assets.serving.servers import Server
from eagle_assets.serving.stepping import possible_steppings, shown_texts

_TOKENS_A_STEP = range(1, 5)
_MOST_TOKENS = 400  # of a stream of several tokens a step: the work grows with all ways to divide it
_RANDOM_ID = re.compile(r"call_\w{8,}")


def sends(server: Server, ids: Sequence[int], reading: Reading) -> bool:
    """Whether the server, given these ids, sends exactly what was received: texts, calls, frames and their number.

    Not held against it is `reasoning_tokens`: gateways report that by rules of their own.
    """
    situation = reading.situation
    assert situation is not None
    try:
        if not situation.streamed:
            return _same(server.render(ids, situation), reading.response)
        if _counted_one_by_one(server, ids, reading) is not None:
            return True
        return (
            _is_counted(ids, reading)
            and len(ids) <= _MOST_TOKENS
            and bool(possible_steppings(server, ids, situation, frames_of(reading), _TOKENS_A_STEP, shown_texts))
        )
    except NotInGrammar:
        return False


def sends_one_by_one(server: Server, ids: Sequence[int], reading: Reading) -> bool:
    """Whether the server, given these ids one a step, sends exactly what was received, `reasoning_tokens` included."""
    counted = _counted_one_by_one(server, ids, reading)
    return counted is not None and counted == reading.response.reasoning_tokens


def frames_of(reading: Reading) -> tuple[Frame, ...]:
    """The frames of a stream, as they came: with the blanks that reading leaves out."""
    response = reading.response
    if "blanks_after_calls" in response.notes:
        response = read_response(reading.exchange)
    return tuple(Frame(delta.field, delta.text, delta.call) for delta in response.deltas)  # type: ignore[arg-type]


def _counted_one_by_one(server: Server, ids: Sequence[int], reading: Reading) -> int | None:
    """The server's `reasoning_tokens` when, given the ids one a step, it sends what came; None if it does not."""
    assert reading.situation is not None
    if not _is_counted(ids, reading):
        return None
    received, seen = shown_texts(frames_of(reading)), 0
    stream = server.stream(reading.situation)
    for place, token in enumerate(ids, start=1):
        sent = shown_texts(stream.feed([token], last=place == len(ids)))
        if received[seen : seen + len(sent)] != sent:
            return None
        seen += len(sent)
    return stream.reasoning_tokens if seen == len(received) else None


def _is_counted(ids: Sequence[int], reading: Reading) -> bool:
    return reading.completion_tokens in (None, len(ids))


def _same(served: Served, response: Response) -> bool:
    message = served.message
    return (
        (message.reasoning or "") == (response.reasoning or "")
        and (message.content or "") == (response.content or "")
        and [(_without_random(call.id), call.name, call.arguments) for call in message.tool_calls]
        == [(_without_random(call.id), call.name, call.arguments or "") for call in response.tool_calls]
        and served.completion_tokens == response.completion_tokens
    )


def _without_random(id: str | None) -> str:
    """A call's id; what a gateway draws at random is as good as any other."""
    return _RANDOM_ID.sub("random", id or "")
