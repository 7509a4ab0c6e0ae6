"""`eagle-assets judge`: a file of exchanges, a server, a file of verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from eagle_assets.cli import main
from eagle_assets.reconstruction.files.exchanges import read_calibration
from eagle_assets.sandbox.judge_server import JudgeServer
from eagle_assets.sandbox.providers import all_providers
from eagle_assets_tests.judge.corpus import TARGET, small_target
from eagle_assets_tests.judge.provider_answers import exchanges_of
from eagle_assets_tests.judge.serving import serving

HARBOUR, MERIDIAN = (next(p for p in all_providers() if p.slug == slug) for slug in ("harbour", "meridian"))


def exchange_lines(path: Path) -> list[str]:
    """Answers of a provider whose convention its counts leave open, and of one that gives the ids."""
    exchanges = [e for e, _ in exchanges_of(HARBOUR, 12)] + [e for e, _ in exchanges_of(MERIDIAN, 12, start=20)]
    rows = [
        {
            "exchange_id": e.exchange_id,
            "model": e.model,
            "provider": e.provider,
            "status": 200,
            "request": e.request,
            "body": e.body.decode(),
        }
        for e in exchanges
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [e.exchange_id for e in exchanges]


def judged(folder: Path, *options: str) -> tuple[Result, list[dict[str, Any]]]:
    output = folder / "verdicts.jsonl"
    environment = {"EAGLE_ASSETS_HOME": str(folder / "home")}
    arguments = ["judge", str(folder / "exchanges.jsonl"), "-o", str(output), *options]
    result = CliRunner().invoke(main, arguments, env=environment)
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    return result, rows


def test_a_file_is_judged_and_what_the_target_said_is_not_asked_again(tmp_path: Path) -> None:
    names = exchange_lines(tmp_path / "exchanges.jsonl")
    server = JudgeServer(small_target(), TARGET)
    saved = tmp_path / "settled.json"
    with serving(server.app) as url:
        result, rows = judged(tmp_path, "--sglang", url, "--save-calibration", str(saved))
        assert result.exit_code == 0, result.output
        assert "at most" in result.output
        assert "target tokens" in result.output
        assert "blanks round added tokens" in result.output
        assert "12 proven ones 0 do" in " ".join(result.output.split())
        asked, read = server.asked, server.tokens_read
        again, same = judged(tmp_path, "--sglang", url)
        assert again.exit_code == 0
        assert (server.asked, server.tokens_read, same) == (asked, read, rows)
    assert [row["exchange_id"] for row in rows] == names
    assert set(rows[0]) == {
        "exchange_id",
        "verdict",
        "output_ids",
        "prompt_ids",
        "reasons",
        "evidence",
        "candidates",
    }
    truth = [ids for _, ids in exchanges_of(HARBOUR, 12)]
    assert [row["output_ids"] for row in rows[:12]] == truth
    assert all(row["verdict"] == "exact" for row in rows[12:])
    group = read_calibration(saved).of(TARGET.name, "Harbour AI", False)
    assert group is not None
    assert group.arbitrations[0].judge == f"sglang {url}"
    arguments = ["calibrate", str(tmp_path / "exchanges.jsonl"), "--explain", "Harbour AI", "--judged", str(saved)]
    explained = " ".join(CliRunner().invoke(main, arguments).output.split())
    likelier, less_likely = group.arbitrations[0].log_likelihoods
    assert "the target model: blanks round added tokens" in explained
    assert "an error of at most 0.1%" in explained
    assert f"the target gives them {likelier:.1f} and {less_likely:.1f} nats" in explained
    (row,) = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).output)[:1]
    assert len(row["decided_by_the_target"]) >= 1
    without = CliRunner().invoke(main, arguments[:-2]).output
    assert "the target model" not in without


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "there is no judge"),
        (("--sglang", "http://127.0.0.1:1", "--vllm", "http://127.0.0.1:1"), "name one judge"),
        (("--folder", "."), "torch is not installed"),
    ],
)
def test_what_the_user_can_mend_is_one_sentence(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    exchange_lines(tmp_path / "exchanges.jsonl")
    result, rows = judged(tmp_path, *options)
    assert result.exit_code == 1
    assert said in result.output
    assert rows == []
    assert "Traceback" not in result.output
