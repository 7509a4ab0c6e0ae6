"""Routing as OpenRouter's `provider` object steers it."""

from collections import Counter

import pytest

from eagle_assets.configuration import Routing
from eagle_assets.sandbox.providers import all_providers
from eagle_assets.sandbox.routing import choose, eligible

PROVIDERS = all_providers()


def asked(text="hi", **provider):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 100, "provider": provider}


def slugs(request):
    return [provider.slug for provider in eligible(PROVIDERS, request)]


def test_without_wishes_everyone_may_answer():
    assert slugs(asked()) == [provider.slug for provider in PROVIDERS]
    assert slugs({"messages": []}) == slugs(asked())


def test_ignored_providers_never_answer():
    assert not {"fireworks", "baseten"} & set(slugs(asked(ignore=["Fireworks", "baseten"])))


def test_the_datasets_routing_excludes_requantised_weights():
    request = asked(**Routing().as_request())
    assert {p.quantization for p in eligible(PROVIDERS, request)} == {"int4"}


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({"only": ["harbour", "lakeside"]}, ["lakeside", "harbour"]),
        ({"only": ["nobody"]}, []),
        ({"only": ["baseten"], "ignore": ["baseten"]}, []),
        ({"order": ["tundra", "nobody", "lakeside"], "allow_fallbacks": False}, ["tundra", "lakeside"]),
        ({"order": ["nobody"], "allow_fallbacks": False}, []),
        ({"max_price": {"prompt": 0.42}}, ["lakeside"]),
        ({"max_price": {"completion": 2.2}}, ["lakeside", "harbour", "tundra"]),
        ({"max_price": {"prompt": 0.1}}, []),
    ],
)
def test_wishes(wishes, expected):
    assert slugs(asked(**wishes)) == expected


def test_fallbacks_come_after_the_order():
    assert slugs(asked(order=["tundra"]))[0] == "tundra"
    assert set(slugs(asked(order=["tundra"]))) == set(slugs(asked()))
    assert choose(PROVIDERS, asked(order=["tundra"])).slug == "tundra"


def test_more_tokens_than_an_endpoint_gives_drop_it():
    assert choose(PROVIDERS, asked() | {"max_tokens": 10**7}) is None


def test_traffic_is_spread_and_stays_where_it_is():
    requests = [asked(f"question {i}") for i in range(400)]
    chosen = [choose(PROVIDERS, request).slug for request in requests]
    counts = Counter(chosen)
    assert min(counts[provider.slug] for provider in PROVIDERS) > 10
    assert counts.most_common(1)[0][0] == min(PROVIDERS, key=lambda p: p.completion_price).slug
    assert chosen == [choose(PROVIDERS, request | {"stream": True}).slug for request in requests]
