"""The quick reading of an answer's end decides as the whole reading does."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.openrouter import outcome
from eagle_assets.openrouter.decisions import known_cost_usd, retry_decision
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.outcome import ErrorDetails, error_details, read_outcome
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.wire import read_response

SHARED = Path(__file__).parents[3] / "shared"


def stream(*frames: object) -> bytes:
    events = [b": OPENROUTER PROCESSING\n\n", *(b"data: " + json.dumps(f).encode() + b"\n\n" for f in frames)]
    return b"".join(events) + b"data: [DONE]\n\n"


def frame(delta: object, finish: str | None = None, **more: object) -> dict[str, object]:
    head = {"id": "gen-1", "model": "moonshotai/kimi-k2.5", "provider": "Chutes"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "cost": 0.001}
GOOD = stream(
    frame({"content": 'say "error", twice\n\n'}), frame({"content": " ok"}), frame({"content": ""}, "stop", usage=USAGE)
)


def told(exchange: Exchange, response: Response) -> tuple[object, ...]:
    """All that is decided from a response."""
    decision = retry_decision(exchange.status, response)
    cost = known_cost_usd(exchange.status, response)
    return decision, cost, response.response_id, response.model, response.provider, response.usage


def exchange(body: bytes, status: int | None = 200, transport_error: str | None = None) -> Exchange:
    return Exchange("e", "moonshotai/kimi-k2.5", None, status, {}, body, transport_error)


FAILED = b'data: {"error":{"code":502}}\n\n'
INSERTED = [b"", b"\n", b"\r", b"\n\n", b'"error"', b"data: ", b"data: [DONE]\n\n", FAILED, b"x"]


@settings(max_examples=400, deadline=None)
@given(
    cut=st.integers(0, len(GOOD)),
    insert=st.sampled_from(
        [
            b"",
            b"\n",
            b"\r",
            b"\n\n",
            b'"error"',
            b"data: ",
            b"data: [DONE]\n\n",
            b'data: {"error":{"code":502}}\n\n',
            b"x",
        ]
    ),
    drop=st.integers(0, 60),
    status=st.sampled_from([200, 200, 200, 502, None]),
    error=st.sampled_from([None, None, "ClientPayloadError: cut"]),
)
def test_damaged_streams_are_decided_alike(cut: int, insert: bytes, drop: int, status: int | None, error: str) -> None:
    damaged = exchange(GOOD[:cut] + insert + GOOD[cut + drop :], status, error)
    assert told(damaged, read_outcome(damaged)) == told(damaged, read_response(damaged))


def test_a_good_stream_is_read_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "read_response", lambda _: pytest.fail("the whole body was read"))
    quick = read_outcome(exchange(GOOD))
    assert (quick.response_id, quick.provider, quick.cost_usd, quick.completion_tokens) == ("gen-1", "Chutes", 0.001, 4)
    choiceless = stream(frame({"content": "ok"}), {**frame({}), "choices": [], "usage": USAGE})
    assert read_outcome(exchange(choiceless)).complete


def test_error_bodies_name_whom_to_blame() -> None:
    blamed = b'\n  {"error":{"code":429,"message":"slow","metadata":{"provider_name":"Chutes","raw":"x"}}}'
    assert error_details(blamed) == ErrorDetails("Chutes", moderated=False)
    flagged = b'{"error":{"code":403,"message":"no","metadata":{"reasons":["x"],"flagged_input":"y"}}}'
    assert error_details(flagged) == ErrorDetails(None, moderated=True)
    for other in (b"", b"<html>", b"[]", b'{"error":"text"}', b'{"error":{"metadata":[]}}'):
        assert error_details(other) == ErrorDetails()


if SHARED.is_dir():

    def test_recorded_exchanges_are_decided_alike() -> None:
        lines = [line for path in sorted(SHARED.glob("recorded/*.jsonl")) for line in path.read_bytes().splitlines()]
        damage = random.Random(4)
        for line in lines:
            recorded = exchange_of(json.loads(line))
            assert told(recorded, read_outcome(recorded)) == told(recorded, read_response(recorded))
            cut = damage.randrange(len(recorded.body) + 1)
            damaged = exchange(recorded.body[:cut] + recorded.body[cut + damage.randrange(40) :], recorded.status)
            assert told(damaged, read_outcome(damaged)) == told(damaged, read_response(damaged))
        assert lines
