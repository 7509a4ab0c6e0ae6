"""What is shown while a collection runs: a bar and a line on a terminal, plain lines elsewhere, numbers in Dagster."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from eagle_assets.defs import run_page
from eagle_assets.defs.latest_verdicts import LatestVerdicts
from eagle_assets.defs.progress import observed_metadata
from eagle_assets.defs.run_page import RunPage
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.progress import Progress, ProviderProgress, in_a_line

STATE = Progress(
    dataset="B3",
    total=200,
    answered=40,
    refused=1,
    failed=2,
    beyond_budget=0,
    attempts=50,
    strays=0,
    in_flight=12,
    window=16,
    spent_usd=0.125,
    reserved_usd=0.5,
    left_usd=9.375,
    seconds=20.0,
    providers={"Chutes": ProviderProgress(40, 4), "Inceptron": ProviderProgress(10, 0)},
    verdicts={"consistent": 30, "unverified": 10},
)


def test_a_line_says_everything() -> None:
    line = in_a_line(STATE)
    assert "40 of 200 answered, 1 refused, 2 failed" in line
    assert "$0.1250 spent, $0.5000 reserved, $9.38 left" in line
    assert "2.0 a second, 1 min 13 s to go" in line
    assert "12 in flight, window 16" in line
    assert "the latest 40: 30 consistent, 10 unverified" in line
    assert "Chutes 40 (10% failed), Inceptron 10" in line
    assert "NOBODY" in in_a_line(replace(STATE, strays=2))


def test_dagster_gets_numbers() -> None:
    metadata = observed_metadata(STATE)
    assert metadata["spent_usd"] == 0.125
    assert metadata["error share of Chutes"] == 0.1
    assert metadata["verdict consistent"] == 30


@pytest.mark.parametrize("terminal", [True, False])
def test_a_page_shows_it_with_and_without_a_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_page, "SECONDS_BETWEEN_LINES", 0.0)
    output = StringIO()
    with RunPage(Console(file=output, force_terminal=terminal, width=200, highlight=False)) as page:
        page.progress(STATE)
        page.progress(replace(STATE, answered=60))
    assert "60 of 200 answered" in output.getvalue()
    assert ("\x1b[" in output.getvalue()) == terminal


def test_the_latest_answers_are_judged() -> None:
    body = (
        b'data: {"id":"gen-1","model":"moonshotai/kimi-k2.5","provider":"P","choices":[{"delta":{"content":"hi"},'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":1}}\n\ndata: [DONE]\n\n'
    )
    request = {"model": "moonshotai/kimi-k2.5", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    latest = LatestVerdicts()
    for number in range(150):
        latest.add(Exchange(f"e{number}", "moonshotai/kimi-k2.5", "P", 200, request, body))
    latest.judge()
    assert sum(latest.verdicts.values()) == 100
