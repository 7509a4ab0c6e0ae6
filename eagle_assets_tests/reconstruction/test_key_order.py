"""Arguments whose keys a server may have sorted."""

from __future__ import annotations

import json

import pytest

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.response import ReceivedCall
from eagle_assets.reconstruction.key_order import key_order
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.serving.conventions import VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets_tests.reconstruction.served_exchanges import K2_5, Truth, document, exchanges, output_of, some_outputs

PROPERTIES = {"zone": {"type": "string"}, "area": {"type": "string"}, "size": {"type": "object"}}
TOOL = {
    "type": "function",
    "function": {"name": "measure", "parameters": {"type": "object", "properties": PROPERTIES}},
}


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        ('{"zone": "a"}', None),
        ('{"unknown": "a"}', None),
        ('{"zone": "a", "area": "b"}', "unsorted"),
        ('{"area": "b", "zone": "a"}', "against_schema"),
        ('{"area": "b", "size": {}}', "sorted"),
        ('{"area": "b", "unknown": "a"}', "sorted"),
        ('{"size": {"high": 1, "wide": 2}}', "sorted"),
        ('{"size": {"wide": 1, "high": [{"to": 2, "from": 1}]}}', "unsorted"),
        ('{"area": "b", "zone": "a", "size": {"x": 1}}', "unsorted"),
        ('[{"b": 1, "c": 2}]', "sorted"),
        ("[1", None),
        ("[" * 5_000, None),
        (None, None),
    ],
)
def test_the_order_of_keys_is_held_against_the_schema(arguments: str | None, order: str | None) -> None:
    assert key_order([ReceivedCall("functions.measure:0", "measure", arguments)], (TOOL,)) == order
    assert key_order([], (TOOL,)) is None


def measuring(number: int) -> Truth:
    arguments = json.dumps({"zone": f"north {number}", "area": f"field {number}"})
    ends = "\n" * (number % 3 == 0)
    ids = output_of(f"So it is.{ends}", f"I measure {number}.{ends}", [("functions.measure:0", arguments)])
    return Truth(ids, Situation(K2_5, True, (TOOL,)))


def with_sorted_keys(truth: Truth, name: str) -> Exchange:
    line = document(truth, VERBATIM, name)
    body = json.loads(line["body"])
    for call in body["choices"][0]["message"]["tool_calls"] or ():
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True)
    return exchange_of({**line, "body": json.dumps(body)})


@pytest.mark.parametrize(("unsorted", "trusted"), [(0, False), (1, True)])
def test_sorted_keys_are_doubted_where_a_provider_shows_no_others(unsorted: int, trusted: bool) -> None:
    plain = exchanges(some_outputs(60, 1, calls=False), VERBATIM)
    unchanged = exchanges([measuring(number) for number in range(unsorted)], VERBATIM)
    changed = [with_sorted_keys(measuring(number), f"sorted {number}") for number in range(10, 20)]
    known = calibrate([*plain, *unchanged, *changed])
    result, *_ = reconstruct(changed, known)
    assert ("argument_keys_may_be_sorted" in result.reasons) is not trusted
    assert result.trusted is trusted
