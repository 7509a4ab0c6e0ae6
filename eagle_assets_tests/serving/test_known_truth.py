"""Conventions against what real servers returned for known ids, where that data lies beside the repository."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.wire import read_response
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, STOP_NOT_COUNTED, VERBATIM
from eagle_assets.serving.output import NotInGrammar
from eagle_assets.serving.served import Served, Situation
from eagle_assets.targets.kimi import target_named

TRUTH = Path(__file__).parents[3] / "shared" / "truth"

RENUMBERED = replace(VERBATIM, tool_ids="renumbered")
WITHOUT_BLANKS = replace(BLANKS_ROUND_ADDED_TOKENS, blanks=frozenset())
TRIMMED = replace(RENUMBERED, reasoning_strip="both", content_strip="both")
NORMALISED = replace(RENUMBERED, nfc=True)
COMPACT = replace(WITHOUT_BLANKS, tool_ids="opaque", arguments="compact")


@dataclass(frozen=True)
class Expected:
    """The least shares of answers that a convention gives to the letter, and of its one-token streams cut alike.

    What falls short is known. Texts: marker text that a JSON parser swallowed, composed characters whose parts are
    two tokens. Calls: those that a parser dropped, arguments coerced to a schema, ids that such a loss renumbers.
    Frames: what may become a marker is held back, and so are letters that a printer joins to what follows.
    """

    convention: Convention
    whole: float
    streamed: float = 1.0
    alike: float = 1.0


# The labels of the data only group its answers here; the code under test never sees them.
EXPECTED = {
    "ServerS": Expected(RENUMBERED, 0.95, 0.98, 0.82),
    "ServerV": Expected(BLANKS_ROUND_ADDED_TOKENS, 0.93, 0.97, 0.25),
    "ServerW": Expected(WITHOUT_BLANKS, 0.93, 1.0, 0.47),
    "ServerTokenIds": Expected(BLANKS_ROUND_ADDED_TOKENS, 0.94),
    "ServerNoStop": Expected(replace(STOP_NOT_COUNTED, tool_ids="renumbered"), 0.95),
    "ServerTrim": Expected(TRIMMED, 0.91),
    "ServerNFC": Expected(NORMALISED, 0.87),
    "ServerIds": Expected(COMPACT, 0.84),
}


@cache
def known() -> dict[tuple[str, bool], list[tuple[Exchange, dict[str, Any]]]]:
    """Exchanges with the record that tells their true ids, by kind of server and whether they were streamed."""
    records = {}
    for line in (TRUTH / "truth.jsonl").read_bytes().splitlines():
        record = json.loads(line)
        records.update(dict.fromkeys(record["exchanges"], record))
    found: dict[tuple[str, bool], list[tuple[Exchange, dict[str, Any]]]] = {}
    for file in sorted(TRUTH.glob("exchanges_*.jsonl")):
        for line in file.read_bytes().splitlines():
            exchange = exchange_of(json.loads(line))
            record = records[exchange.exchange_id]
            place = record["exchanges"][exchange.exchange_id]
            found.setdefault((place["persona"], place["stream"]), []).append((exchange, record))
    return found


def situation_of(exchange: Exchange) -> Situation:
    target = target_named(exchange.model)
    request = exchange.request
    history = sum(len(message.get("tool_calls") or ()) for message in request["messages"])
    tools = tuple(request.get("tools") or ())
    return Situation(target, target.thinks(request), tools, history, bool(request.get("stream")))


def deviations(served: Served, response: Response, opaque_ids: bool) -> list[str]:
    message = served.message
    made = [(call.name, call.arguments) for call in message.tool_calls]
    shown = [(call.name, call.arguments or "") for call in response.tool_calls]
    checks = {
        "reasoning": (message.reasoning or "") == (response.reasoning or ""),
        "content": (message.content or "") == (response.content or ""),
        "calls": made == shown,
        "tool ids": opaque_ids or [c.id for c in message.tool_calls] == [c.id for c in response.tool_calls],
        "finish reason": served.finish_reason == response.finish_reason,
        "count": served.completion_tokens == response.completion_tokens,
    }
    return [name for name, agrees in checks.items() if not agrees]


def measured(kind: str, convention: Convention, streamed: bool) -> tuple[float, Counter[str], float]:
    """Share of answers given to the letter, what the others differ in, and the share of streams cut alike."""
    answers = known()[kind, streamed]
    differing: Counter[str] = Counter()
    right = alike = one_step = 0
    for exchange, record in answers:
        response = read_response(exchange)
        try:
            served = convention.render(record["true_ids"], situation_of(exchange))
        except NotInGrammar:
            differing["grammar"] += 1
            continue
        found = deviations(served, response, convention.tool_ids == "opaque")
        differing.update(found)
        right += not found
        if streamed and not found and record["exchanges"][exchange.exchange_id]["tokens_per_step"] == "1":
            frames = [(frame.field, frame.text) for frame in served.frames if frame.text]
            one_step += 1
            alike += frames == [(delta.field, delta.text) for delta in response.deltas if delta.text]
    return right / len(answers), differing, alike / one_step if one_step else 1.0


if TRUTH.is_dir():

    @pytest.mark.parametrize("kind", EXPECTED)
    def test_answers_of_real_servers(kind: str) -> None:
        expected = EXPECTED[kind]
        share, differing, _ = measured(kind, expected.convention, streamed=False)
        assert share >= expected.whole, differing
        if (kind, True) in known():
            share, differing, alike = measured(kind, expected.convention, streamed=True)
            assert share >= expected.streamed, differing
            assert alike >= expected.alike
