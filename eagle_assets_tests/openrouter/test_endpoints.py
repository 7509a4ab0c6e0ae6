from typing import Any

import pytest

from eagle_assets.configuration import Routing
from eagle_assets.openrouter.endpoints import (
    DEFAULT_PRICE,
    Price,
    allowed_endpoints,
    dearest_price,
    default_price,
    read_endpoints,
    worst_case_usd,
)


def row(provider: str, tag: str | None, prompt: object, completion: object, **more: object) -> dict[str, Any]:
    pricing = {"prompt": prompt, "completion": completion, **{k: v for k, v in more.items() if k == "request"}}
    return {"provider_name": provider, "tag": tag, "pricing": pricing, "quantization": "int4", "context_length": 262144}


LISTED = read_endpoints(
    {
        "data": {
            "endpoints": [
                row("Chutes", "chutes/int4", "0.0000005", "0.000002"),
                row("Moonshot AI", "moonshotai", "0.0000006", "0.000003"),
                row("Fireworks", "fireworks", "0.000001", "0.000009"),
                row("BaseTen", "baseten/fp4", "0.000001", "0.000008"),
                row("Inceptron", "inceptron", "0.0000007", "0.0000025", request="0.001"),
                row("Unpriced", "unpriced", "-1", "free"),
                {"provider_name": None},
                None,
            ]
        }
    }
)


def allowed(**routing: Any) -> list[str]:
    return [e.provider for e in allowed_endpoints(LISTED, Routing(**routing))]


def test_rows_are_read_and_unusable_ones_left_out() -> None:
    assert [e.provider for e in LISTED] == ["Chutes", "Moonshot AI", "Fireworks", "BaseTen", "Inceptron"]
    chutes = LISTED[0]
    assert (chutes.tag, chutes.slug, chutes.quantization, chutes.context_tokens) == (
        "chutes/int4",
        "chutes",
        "int4",
        262144,
    )
    assert read_endpoints({"data": None}) == read_endpoints("nonsense") == ()


def test_routing_leaves_out_the_excluded_always_and_others_by_slug_tag_or_name() -> None:
    assert allowed() == ["Chutes", "Moonshot AI", "Inceptron"]
    assert allowed(ignore=("chutes",)) == ["Moonshot AI", "Inceptron"]
    assert allowed(ignore=("chutes/fp8",)) == ["Chutes", "Moonshot AI", "Inceptron"]
    assert allowed(only=("chutes/int4", "baseten")) == ["Chutes"]
    assert allowed(ignore=("Moonshot AI",)) == ["Chutes", "Inceptron"]
    assert allowed(order=("inceptron",)) == ["Chutes", "Moonshot AI", "Inceptron"]
    assert allowed(order=("inceptron",), allow_fallbacks=False) == ["Inceptron"]
    assert allowed(max_price={"completion": 2.5}) == ["Chutes", "Inceptron"]
    assert allowed(max_price={"prompt": 0.5}) == ["Chutes"]


def test_the_dearest_price_is_taken_kind_by_kind() -> None:
    price = dearest_price(allowed_endpoints(LISTED, Routing()))
    assert price == Price(prompt=0.7e-6, completion=3e-6, request=0.001)
    assert dearest_price([]) is None


def test_without_a_list_the_limit_of_the_routing_counts() -> None:
    assert default_price(Routing()) == DEFAULT_PRICE
    assert default_price(Routing(max_price={"completion": 3.0})) == Price(DEFAULT_PRICE.prompt, 3e-6)


def test_the_worst_case_is_above_what_the_counts_alone_cost() -> None:
    price = Price(prompt=1e-6, completion=4e-6, request=0.5)
    assert worst_case_usd(1000, 200, price) > 1000e-6 + 800e-6 + 0.5
    assert worst_case_usd(0, 200, Price(0, 4e-6)) == pytest.approx(800e-6)
