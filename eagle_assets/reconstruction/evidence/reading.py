"""An exchange as reconstruction reads it: what the server was asked, what came back, whether it can be used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from eagle_assets.openrouter.deltas import Deltas
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.names import plain_name
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.values import as_count, as_dict, as_list
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.encoding import has_surrogate
from eagle_assets.reconstruction.evidence.layouts import Layout, layout_notes, layouts
from eagle_assets.serving.served import Situation
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.target import Target, UnknownTarget


@dataclass(frozen=True)
class Reading:
    """A response with its situation; `unusable` says why it holds no whole output, and is empty where it does."""

    exchange: Exchange
    response: Response
    situation: Situation | None
    unusable: tuple[str, ...]

    @property
    def provider(self) -> str | None:
        return self.response.provider or self.exchange.provider

    @property
    def target_name(self) -> str:
        """The target model that was asked for; empty where it is none that is known."""
        return self.situation.target.name if self.situation is not None else ""

    @property
    def is_witnessed(self) -> bool:
        """Whether the order and wholeness of what came is vouched for: by one JSON text, or by the times at which
        our own client saw a stream's pieces arrive. A bare file of frames may have been reordered by anyone."""
        if not self.response.streamed:
            return True
        offsets = [offset for offset, _ in self.exchange.arrivals]
        times = [seconds for _, seconds in self.exchange.arrivals]
        in_order = offsets == sorted(set(offsets)) and times == sorted(times)
        return bool(offsets) and in_order and offsets[-1] < len(self.exchange.body)

    @cached_property
    def completion_tokens(self) -> int | None:
        """The count of the server, or None where it gave none that can be one.

        A zero beside text is a missing count, and a count below `reasoning_tokens` breaks its own rule.
        """
        native = as_count((self.exchange.generation or {}).get("native_tokens_completion"))
        count = self.response.completion_tokens or native or None
        reasoning = self.response.reasoning_tokens
        return None if count is not None and reasoning is not None and reasoning > count else count

    @cached_property
    def layouts(self) -> list[Layout]:
        """Every layout of the response, the plainest first; none where it is unusable."""
        return [] if self.unusable or self.situation is None else layouts(self.response, self.situation)

    @cached_property
    def layout_notes(self) -> tuple[str, ...]:
        """Codes for what makes the place of a marker unknown, whichever layout is right."""
        return layout_notes(self.response, self.situation, self.exchange.request)

    @cached_property
    def text_notes(self) -> tuple[str, ...]:
        """Codes for what makes texts unprovable in themselves."""
        response = self.response
        texts = [response.reasoning or "", response.content or "", *(c.arguments or "" for c in response.tool_calls)]
        notes = ("replacement_char",) if any("\ufffd" in text for text in texts) else ()
        return (*notes, "half_surrogate") if any(map(has_surrogate, texts)) else notes

    @property
    def count_notes(self) -> tuple[str, ...]:
        """Codes for what is odd about the counts."""
        reported = self.response.completion_tokens
        notes = []
        if self.completion_tokens is None:
            notes.append(
                "usage_zero" if reported == 0 else "usage_missing" if reported is None else "usage_inconsistent"
            )
        if self.response.usage and self.response.cost_usd is None:
            notes.append("cost_missing")
        return tuple(notes)


def read(exchange: Exchange) -> Reading:
    """Read an exchange. Never raises: what is wrong stands in `unusable`."""
    return reading_of(exchange, read_response(exchange))


def reading_of(exchange: Exchange, response: Response) -> Reading:
    """The reading of an exchange whose body was read as this response. Never raises."""
    response = _without_blanks_after_calls(response)
    target = _target_of(exchange)
    reasons = [*_transport_reasons(response), *_origin_reasons(exchange, response, target)]
    shown = response.reasoning or response.content or response.tool_calls
    # An empty answer is one only if the server says how many tokens it has: the stop token at least.
    if not reasons and not shown and not (response.completion_tokens and response.finish_reason):
        reasons.append("no_content")
    situation = None if target is None else situation_of(exchange.request, target, response.streamed)
    return Reading(exchange, response, situation, tuple(reasons))


def _without_blanks_after_calls(response: Response) -> Response:
    """The response without the blanks that a stream brought as content after its first call.

    The model writes content before calls only; SGLang 0.5.8 sends the blanks round the section's markers there.
    """
    if not response.tool_calls:
        return response
    calls = [position for position, delta in enumerate(response.deltas) if delta.field == "tool_calls"]
    if not calls:
        return response
    late = [d for d in response.deltas[calls[0] :] if d.field == "content"]
    if not late or any(delta.text.strip(" ") for delta in late):
        return response
    kept = (d for d in response.deltas[calls[0] :] if d.field != "content")
    deltas = Deltas((*response.deltas[: calls[0]], *kept))
    content = "".join(delta.text for delta in deltas if delta.field == "content")
    return replace(response, deltas=deltas, content=content or None, notes=(*response.notes, "blanks_after_calls"))


def situation_of(request: dict[str, Any], target: Target, streamed: bool) -> Situation:
    """What of a request matters to how its output is served."""
    messages = map(as_dict, as_list(request.get("messages")))
    return Situation(
        target=target,
        thinking=target.thinks(request),
        tools=tuple(map(as_dict, as_list(request.get("tools")))),
        calls_in_history=sum(len(as_list(m.get("tool_calls"))) for m in messages),
        streamed=streamed,
    )


def _target_of(exchange: Exchange) -> Target | None:
    for model in (exchange.request.get("model"), exchange.model):
        if isinstance(model, str) and model:
            try:
                return target_named(model)
            except UnknownTarget:
                return None
    return None


def _transport_reasons(response: Response) -> list[str]:
    reasons = []
    if response.error is not None:
        reasons += [*response.notes, f"error: {response.error}"]
    elif not response.complete:
        reasons += response.notes or ("truncated_transport",)
    elif "several_choices" in response.notes:
        reasons.append("several_choices")
    return reasons


def _origin_reasons(exchange: Exchange, response: Response, target: Target | None) -> list[str]:
    if response.error is not None:
        return []
    if target is None:
        return [f"unknown_target: {exchange.request.get('model') or exchange.model!r}"]
    reasons = []
    answered_by = response.model or exchange.model
    if not target.is_named(answered_by):
        reasons.append(f"model_mismatch: answered by {answered_by!r}")
    provider = response.provider or exchange.provider or ""
    ignored = as_list(as_dict(exchange.request.get("provider")).get("ignore"))
    if provider and plain_name(provider) in {plain_name(name) for name in map(str, ignored) if "/" not in name}:
        reasons.append(f"excluded_provider: {provider}")
    if exchange.stray is not None:
        reasons.append(f"stray: {exchange.stray}")
    return reasons
