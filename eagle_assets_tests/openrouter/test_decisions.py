import json
from pathlib import Path
from typing import Any

import pytest

from eagle_assets.openrouter.decisions import known_cost_usd, retry_decision
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.wire import read_response

FAULTS = sorted((Path(__file__).parents[3] / "shared" / "faults").glob("*.json"))
WHOLE = {"id": "g", "choices": [{"finish_reason": "stop", "message": {"content": "hi"}}]}


def exchange(status: int | None, body: object, transport_error: str | None = None) -> Exchange:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Exchange("x", "m", None, status, {}, raw, transport_error)


def outcome(status: int | None, body: object, transport_error: str | None = None) -> str:
    return retry_decision(status, read_response(exchange(status, body, transport_error))).outcome


def error(code: object, message: str = "no") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


@pytest.mark.parametrize(
    ("expected", "status", "body"),
    [
        ("answered", 200, WHOLE),
        ("answered", 200, {**WHOLE, "choices": [{"finish_reason": "stop", "message": {"content": ""}}]}),
        *[("retry", status, b"<html>") for status in (408, 429, 500, 502, 503, 504, 524, 529)],
        *[("fatal", status, error(status)) for status in (401, 402, 403, 404)],
        *[("refused", status, error(status)) for status in (400, 413, 422)],
        ("retry", 200, error(429)),
        ("retry", 200, error("429")),
        ("retry", 200, error("server_error")),
        ("retry", 200, error(None)),
        ("refused", 200, error(400)),
        ("refused", 200, error("context_length_exceeded")),
        ("refused", 400, error("model_overloaded")),
        ("fatal", 200, error(402)),
        ("retry", 200, {"choices": None}),
        (
            "retry",
            200,
            {**WHOLE, "choices": [{"error": {"code": 502, "message": "gone"}, "message": {"content": "h"}}]},
        ),
        ("retry", 200, b"\n   \n"),
        ("retry", 200, b'data: {"choices":[{"delta":{"content":"h"}}]}\n\n'),
        ("retry", None, b""),
        ("fatal", 301, b""),
    ],
)
def test_what_to_do_about_an_answer(expected: str, status: int | None, body: object) -> None:
    assert outcome(status, body) == expected


def test_a_fatal_reason_says_what_to_do_and_what_the_server_said() -> None:
    reason = retry_decision(402, read_response(exchange(402, error(402, "Insufficient credits")))).reason
    assert reason is not None
    assert "buy credit" in reason
    assert "Insufficient credits" in reason


@pytest.mark.parametrize(
    ("expected", "status", "body"),
    [
        (0.5, 200, {**WHOLE, "usage": {"cost": 0.5, "completion_tokens": 2}}),
        (0.0, 200, {**WHOLE, "usage": {"cost": 0, "completion_tokens": 2}}),
        (None, 200, {**WHOLE, "usage": {"cost": 0, "completion_tokens": 0}}),
        (None, 200, {**WHOLE, "usage": {"completion_tokens": 2}}),
        (None, 200, WHOLE),
        (0.0, 429, error(429)),
        (0.0, 200, error(429)),
        (0.0, 402, b"no"),
        (None, 502, b"<html>"),
        (None, 200, b"  "),
        (None, None, b""),
        (None, 200, b'data: {"choices":[{"delta":{"content":"h"}}],"error":{"code":429,"message":"slow"}}\n\n'),
    ],
)
def test_unknown_is_not_zero(expected: float | None, status: int | None, body: object) -> None:
    assert known_cost_usd(status, read_response(exchange(status, body))) == expected


if FAULTS:

    @pytest.mark.parametrize("path", FAULTS, ids=lambda path: path.stem)
    def test_reported_faults(path: Path) -> None:
        case = json.loads(path.read_text())
        document = case["exchange"]
        body = next((document.pop(name) for name in ("body_sse", "body_text") if name in document), None)
        if body is not None:
            document["body"] = body
        fault = exchange_of(document)
        response = read_response(fault)
        decision = retry_decision(fault.status, response)
        expected = case["expect"]
        if expected["retry"] is False:
            assert decision.outcome in ("answered", "refused")
        elif expected["retry"] is True and (response.error or not response.complete):
            assert decision.outcome == "retry"
        cost = known_cost_usd(fault.status, response)
        assert (expected["billed"] == "no") == (cost == 0)
        if expected["billed"] == "unknown":
            assert cost is None
