"""Providers probed over real sockets, ranked by what they prove, and the routing that a person can overrule."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml

from eagle_assets.configuration import PROBES, Configuration, ConfigurationError, Settings
from eagle_assets.defs.standing import RIVALS, standings
from eagle_assets.openrouter.endpoints import Endpoint, Price, allowed_endpoints, read_endpoints
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.ledger import budget_totals
from eagle_assets.openrouter.probing import Probed, ask_probes
from eagle_assets.openrouter.written_routing import routing_path, routing_text, with_written_routing, write_routing
from eagle_assets.reconstruction.probing.probes import distinct_requests, probe_requests
from eagle_assets.sandbox.process import running_sandbox
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import prompt_ids

TARGET = target_named("moonshotai/kimi-k2.5")
CONFIGURATION = Configuration.model_validate(
    {"datasets": {"B3": {"source": "openrouter", "prompts": "p.jsonl"}}, "routing": {"ignore": ["quillhost"]}}
)


def test_probes_tell_how_each_provider_serves_and_cost_tenths_of_a_cent(tmp_path: Path) -> None:
    probes = distinct_requests(probe_requests(TARGET, RIVALS, streamed=True), TARGET, streamed=True)
    requests = [(body, len(prompt_ids(TARGET, body))) for body in probes]
    with running_sandbox(tmp_path / "truth.jsonl") as base_url:
        settings = Settings.model_validate({"OPENROUTER_API_KEY": "sandbox", "OPENROUTER_BASE_URL": base_url})
        endpoints = read_endpoints(httpx.get(f"{base_url}/models/{TARGET.name}/endpoints").json())
        allowed = allowed_endpoints(endpoints, CONFIGURATION.routing)
        probed = ask_probes(tmp_path, requests, allowed, CONFIGURATION, settings)
        books = httpx.get(base_url.replace("/api/v1", "/sandbox/books")).json()
        ask_probes(tmp_path, requests, allowed, CONFIGURATION, settings)
        again = httpx.get(base_url.replace("/api/v1", "/sandbox/books")).json()
    ranked = standings(endpoints, probed)
    known = {standing.slug: standing for standing in ranked}
    assert known["meridian"].proof == "gives its own ids"
    assert known["lakeside"].conventions == ("verbatim",)
    assert known["harbour"].conventions == ("blanks round added tokens",)
    assert known["tundra"].conventions == ("verbatim, <think> generated, bare tool ids",)
    assert known["copperline"].conventions == ("verbatim, stop token not counted",)
    assert known["quillhost"].proof == "not probed"
    assert {s.slug for s in ranked if s.refused} == {"fireworks", "baseten"}
    assert [s.slug for s in ranked][:2] == ["meridian", "lakeside"]
    assert all(0 < known[slug].probes_usd < 0.01 for slug in ("lakeside", "harbour", "tundra", "copperline"))
    assert again["billed_usd"] == books["billed_usd"]
    spent = budget_totals(tmp_path, CONFIGURATION).datasets[PROBES].spent_usd
    assert books["billed_usd"] <= spent <= 1.02 * books["billed_usd"]

    written = routing_text([standing.advice() for standing in ranked])
    assert write_routing(tmp_path, written)
    assert "1. meridian: gives its own ids, $2.7 a million tokens" in written
    assert yaml.safe_load(written)["ignore"] == [s.slug for s in ranked if s.refused]
    routing = with_written_routing(CONFIGURATION, tmp_path).routing
    assert set(routing.ignore) == {"quillhost", "fireworks", "baseten"}


def test_who_cannot_be_explained_is_refused_unless_nobody_else_is_left() -> None:
    body = stream("moonshotai/kimi-k2.5", content="12", completion_tokens=40)
    request = {"model": TARGET.name, "messages": [{"role": "user", "content": "12"}], "reasoning": {"enabled": False}}
    odd = tuple(Exchange(f"e{i}", TARGET.name, "Odd", 200, request, body) for i in range(8))
    good = tuple(replace(exchange, body=body.replace(b"40", b"2")) for exchange in odd)
    odd_one, other = Endpoint("Odd", "odd", Price(1e-6, 2e-6)), Endpoint("Good", "good", Price(1e-6, 9e-6))
    probed = [Probed("odd", odd, 0.001, None), Probed("good", good, 0.001, None)]
    alone = standings([odd_one], probed)
    assert [(s.proof, s.refused) for s in alone] == [("none explains it", None)]
    both = standings([odd_one, other], probed)
    assert [(s.slug, s.refused is None) for s in both] == [("good", True), ("odd", False)]
    assert "8 of its 8 answers" in str(both[1].refused)


def stream(model: str, content: str, completion_tokens: int) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": completion_tokens, "cost": 0.001}
    frame = {"id": "gen-1", "model": model, "provider": "Odd", "choices": [choice], "usage": usage}
    return b"data: " + json.dumps(frame).encode() + b"\n\ndata: [DONE]\n\n"


def test_a_person_overrules_the_routing_and_is_left_alone(tmp_path: Path) -> None:
    assert with_written_routing(CONFIGURATION, tmp_path) == CONFIGURATION
    assert write_routing(tmp_path, "ignore: [a]\n")
    assert write_routing(tmp_path, "ignore: [b]\n")
    path = routing_path(tmp_path)
    path.write_text(path.read_text().replace("[b]", "[c]\norder: [d]"))
    assert not write_routing(tmp_path, "ignore: [e]\n")
    routing = with_written_routing(CONFIGURATION, tmp_path).routing
    assert (routing.ignore, routing.order) == (("quillhost", "c"), ("d",))
    path.write_text("max_price: {completion: 3}\n")
    assert with_written_routing(CONFIGURATION, tmp_path).routing.max_price.limits() == {"completion": 3}
    path.write_text("ignore: {}\nnonsense: 1\n")
    with pytest.raises(ConfigurationError, match="mend it or delete it"):
        with_written_routing(CONFIGURATION, tmp_path)
    path.unlink()
    assert write_routing(tmp_path, "ignore: [e]\n")
