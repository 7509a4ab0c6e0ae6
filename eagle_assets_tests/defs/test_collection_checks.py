"""Whether answers are from whom they were asked, and what is said of prompts that nobody answered."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from eagle_assets.configuration import Routing
from eagle_assets.defs.collection_checks import ASKED_OF, providers_allowed
from eagle_assets.lake.audit import Check
from eagle_assets.lake.schemas import RAW_RESPONSES
from eagle_assets.openrouter.origin import Origin

TARGET = "moonshotai/kimi-k2.5"
ROUTING = Routing(ignore=("lakeside",))
SCHEMA = pa.schema([RAW_RESPONSES.field(name) for name in ASKED_OF])


def allowed(rows: list[dict[str, Any]]) -> Check:
    return providers_allowed([pa.RecordBatch.from_pylist(rows, SCHEMA)], TARGET)


def answer(provider: str, asked: dict[str, Any]) -> dict[str, Any]:
    stray = Origin.allowed(TARGET, ROUTING).stray(TARGET, provider)
    return {
        "exchange_id": provider,
        "outcome": "answered",
        "stray": stray,
        "model": TARGET,
        "provider": provider,
        "request": json.dumps({"model": TARGET, "provider": asked}),
    }


def test_a_provider_that_is_excluded_later_does_not_hold_up_the_others() -> None:
    before, after = {"ignore": ["fireworks"]}, {"ignore": ["fireworks", "lakeside"]}
    rows = [*(answer("Lakeside", before) for _ in range(13)), *(answer("Harbour", before) for _ in range(69))]
    check = allowed(rows)
    assert check.passed
    assert (check.numbers["strays"], check.numbers["excluded_since"]) == (0, 13)
    assert "13 are by providers excluded since, and no longer trained on" in check.sentence
    asked_not_to = allowed([*rows, *(answer("Lakeside", after) for _ in range(9))])
    assert not asked_not_to.passed
    assert (asked_not_to.numbers["strays"], asked_not_to.numbers["excluded_since"]) == (9, 13)
    assert "such as an excluded provider: Lakeside" in asked_not_to.sentence


def test_whom_a_request_named_alone_is_who_may_answer_it() -> None:
    only = {"only": ["harbour"], "ignore": []}
    rows = [answer("Lakeside", only), *(answer("Harbour", only) for _ in range(9))]
    assert not allowed(rows).passed
