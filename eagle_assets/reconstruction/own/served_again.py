"""The team's own outputs as another server would have sent them, and a client read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from eagle_assets.openrouter.deltas import Delta, Deltas
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.response import ReceivedCall, Response
from eagle_assets.reconstruction.evidence.reading import Reading, reading_of, situation_of
from eagle_assets.reconstruction.own.known_outputs import KnownOutput
from eagle_assets.serving.served import Served, Situation
from eagle_assets.targets.target import Target


class Serves(Protocol):
    """A `Server` or a `Convention`."""

    @property
    def name(self) -> str: ...

    def render(self, ids: Sequence[int], situation: Situation, steps: Sequence[int] | None = None) -> Served: ...


def read_as_served(
    known: KnownOutput, request: dict[str, Any], target: Target, server: Serves, streamed: bool, place: int
) -> tuple[Reading, int]:
    """What a client reads of an output that a server sends, and `prompt_tokens` minus the length of the rendered
    prompt. `place` is the name of the exchange and its place in the order."""
    served = server.render(known.output_ids, situation_of(request, target, streamed))
    exchange = Exchange(
        exchange_id=str(place),
        model=target.name,
        provider=server.name,
        status=200,
        request=request,
        body=b"{}",
        # Our own client sees when a stream's pieces arrive.
        arrivals=((0, 0.0),) if streamed else (),
        order=float(place),
    )
    generates_think = known.output_ids[:1] == [target.markers.think_begin]
    offset = served.prompt_offset - generates_think
    return reading_of(exchange, _response(served, target, server, known, streamed)), offset


def _response(served: Served, target: Target, server: Serves, known: KnownOutput, streamed: bool) -> Response:
    message = served.message
    return Response(
        streamed=streamed,
        complete=True,
        model=target.name,
        provider=server.name,
        reasoning=message.reasoning,
        content=message.content,
        tool_calls=tuple(ReceivedCall(call.id, call.name, call.arguments) for call in message.tool_calls),
        finish_reason=served.finish_reason,
        usage={
            "prompt_tokens": len(known.prompt_ids) + served.prompt_offset,
            "completion_tokens": served.completion_tokens,
            "completion_tokens_details": {"reasoning_tokens": served.reasoning_tokens},
            "cost": 0.0,
        },
        deltas=Deltas(
            Delta(frame.field, frame.text, frame.call, number)
            for number, frame in enumerate(served.frames, start=1)
            if frame.text or frame.field == "tool_calls"
        ),
    )
