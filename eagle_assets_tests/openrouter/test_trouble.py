"""What goes wrong while responses are bought: each with a clear outcome, over real sockets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagle_assets.configuration import Configuration, Routing, Settings
from eagle_assets.openrouter.client import CollectionSummary, collect_missing
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.journal_reader import open_journal
from eagle_assets.openrouter.ledger import Ledger, budget_totals
from eagle_assets.openrouter.origin import Origin
from eagle_assets.openrouter.requests import Prompt
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.sequences import calibrate_rows, sequence_rows
from eagle_assets.reconstruction.stored import row_of_record
from eagle_assets.sandbox.faults import ANOTHER_MODEL, Faults
from eagle_assets.sandbox.process import running_sandbox
from eagle_assets_tests.openrouter.router import COST_USD, HUGE, Router, serving, wanted
from eagle_assets_tests.openrouter.test_client import QUICK, collect, configuration, spent

FAULTS = Path(__file__).parents[3] / "shared" / "faults"


@pytest.mark.parametrize(
    "stray",
    [{"provider": "Fireworks"}, {"model": "openai/gpt-5.4-mini"}, {"provider": "BaseTen"}],
    ids=["excluded", "model", "excluded too"],
)
def test_answers_of_others_are_kept_and_past_a_share_nothing_more_is_bought(
    tmp_path: Path, stray: dict[str, str]
) -> None:
    texts = [f"p{i}" for i in range(60)]
    scripts = {text: ["stray"] for text in texts[::8]}
    with serving(Router(scripts, **stray)) as router:
        summary = collect(tmp_path, router, *texts, concurrency=1)
        assert summary.fatal
        assert summary.stopped is not None
        assert next(iter(stray.values())) in summary.stopped
        assert "routing" in summary.stopped
    records = list(open_journal(tmp_path, "B3").read())
    assert len(records) == len(router.asked) == 20
    assert summary.strays == 3
    assert spent(tmp_path) == pytest.approx(len(records) * COST_USD)


def test_one_stray_answer_does_not_stop_a_run(tmp_path: Path) -> None:
    texts = [f"p{i}" for i in range(40)]
    with serving(Router({"p5": ["stray"]}, provider="Fireworks")) as router:
        summary = collect(tmp_path, router, *texts)
    assert (summary.answered, summary.strays, summary.stopped) == (40, 1, None)
    assert any("never trained on" in note for note in summary.notes)


def test_a_flagged_prompt_concerns_no_other(tmp_path: Path) -> None:
    with serving(Router({"bad": ["flagged"]})) as router:
        summary = collect(tmp_path, router, "bad", "good", "better", concurrency=1)
    assert (summary.answered, summary.refused, summary.stopped) == (2, 1, None)
    assert spent(tmp_path) == pytest.approx(2 * COST_USD)


def test_a_frame_of_50_mb_is_kept_whole(tmp_path: Path) -> None:
    with serving(Router({"p": ["huge"]})) as router:
        summary = collect(tmp_path, router, "p", timing=replace(QUICK, first_byte=60, between_bytes=60, total=120))
    (record,) = open_journal(tmp_path, "B3").read()
    assert (summary.answered, record.outcome) == (1, "answered")
    assert len(record.exchange.body) > HUGE
    assert record.cost_usd == COST_USD


def test_an_answer_without_an_end_is_given_up_and_not_asked_for_again(tmp_path: Path) -> None:
    timing = replace(QUICK, body_most=4 << 20)
    with serving(Router({"p": ["endless"] * 9})) as router:
        summary = collect(tmp_path, router, "p", "q", timing=timing)
        again = collect(tmp_path, router, "p", "q", timing=timing)
        assert router.asked == {"p": 1, "q": 1}
    assert (summary.answered, summary.refused, again.already) == (1, 1, 2)
    record = next(r for r in open_journal(tmp_path, "B3").read() if r.prompt_id == "id of p")
    assert record.exchange.transport_error == "given up: more than 4 MiB came without an end"
    assert len(record.exchange.body) > 4 << 20
    assert record.cost_usd == COST_USD  # /generation told


def test_an_outage_ends_the_run_before_it_eats_the_budget(tmp_path: Path) -> None:
    texts = [f"p{i}" for i in range(200)]
    with serving(Router({text: ["502"] * 9 for text in texts})) as router:
        summary = collect(tmp_path, router, *texts, timing=replace(QUICK, failures_in_a_row=20))
        assert summary.stopped is not None
        assert "all failed" in summary.stopped
        assert sum(router.asked.values()) <= 20 + 8
    # Nobody said what the failures cost; that the key's meter stands still did.
    assert (summary.unsettled, spent(tmp_path)) == (0, 0)


def test_an_overloaded_server_is_asked_less(tmp_path: Path) -> None:
    texts = [f"p{i}" for i in range(60)]
    with serving(Router({text: ["429"] for text in texts[40:50]}, pause=0.05)) as router:
        shown: list[Any] = []
        summary = collect(tmp_path, router, *texts, concurrency=32, on_progress=shown.append)
    assert summary.answered == 60
    assert router.most_at_once > 8
    assert shown[-1].window < 32
    assert shown[-1].providers["Chutes"].attempts >= 60


def test_token_bytes_are_asked_for_where_an_endpoint_gives_them(tmp_path: Path) -> None:
    with serving(Router(parameters=("logprobs", "tools"))) as router:
        collect(tmp_path, router, "a")
        router.parameters = ("tools",)
        collect(tmp_path, router, "b")
        assert collect(tmp_path, router, "a").already == 1
    assert ["logprobs" in request for request in router.requests] == [True, False]


CLOCK = """
import random, sys, time
steps, real = random.Random(int(sys.argv[3])), time.time
time.time = lambda: real() + steps.choice([-86_400.0, 0.0, 3.0, 86_400.0 * 400])
from pathlib import Path
from eagle_assets_tests.openrouter.router import Router
from eagle_assets_tests.openrouter.test_client import collect
summary = collect(Path(sys.argv[1]), Router(url=sys.argv[2]), *(f"p{i}" for i in range(40)))
print(summary.answered, summary.attempts)
"""


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path) -> None:
    with serving(Router({"p3": ["502", "slow down"], "p4": ["cut"]}, pause=0.02)) as router:
        command = [sys.executable, "-c", CLOCK, str(tmp_path), router.url, "3"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["40", "43"]
        assert collect(tmp_path, router, *(f"p{i}" for i in range(40))).already == 40
    for record in open_journal(tmp_path, "B3").read():
        assert 0 <= record.ended_at - record.asked_at < 30
    assert spent(tmp_path) == pytest.approx(41 * COST_USD)


NO_SPACE = """
import errno, os, sys
room, write = [int(sys.argv[3])], os.write
def write_while_there_is_room(descriptor, data):
    if descriptor > 2 and len(data) > room[0]:
        written = write(descriptor, data[: room[0]]) if room[0] else 0
        room[0] -= written
        if written:
            return written
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if descriptor > 2:
        room[0] -= len(data)
    return write(descriptor, data)
from eagle_assets.openrouter import record_file
record_file.os.write = write_while_there_is_room
"""
BUYER = """
import sys
from pathlib import Path
from eagle_assets.openrouter.ledger import LedgerError
from eagle_assets.openrouter.record_file import JournalError
from eagle_assets_tests.openrouter.router import Router
from eagle_assets_tests.openrouter.test_client import collect
try:
    summary = collect(Path(sys.argv[1]), Router(url=sys.argv[2]), *(f"p{i}" for i in range(80)))
    print(summary.answered, summary.stopped)
except (JournalError, LedgerError) as error:
    print(0, error)
"""


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Callable[[], int] | None]:
    """Put a file system of this many bytes there, and give what makes it large; None where nobody may mount one."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        yield None
        return
    try:
        grow = ["mount", "-o", "remount,size=64m", str(folder)]
        yield lambda: subprocess.check_call(grow)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("room", [90_003, 180_001, 220_007])
def test_no_space_left_is_a_clear_stop_and_nothing_is_corrupted(tmp_path: Path, room: int) -> None:
    """On a disk that is full, also for the ledger; where none may be mounted, the journal's writes are refused."""
    with serving(Router()) as router, small_disk(tmp_path, room) as grow:
        code = BUYER if grow else NO_SPACE + BUYER
        command = [sys.executable, "-c", code, str(tmp_path), router.url, str(room // 4)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answered, _, sentence = done.stdout.partition(" ")
        assert any(words in sentence for words in ("No space left on device", "disk is full")), done.stdout
        if grow:
            grow()
        summary = collect(tmp_path, router, *(f"p{i}" for i in range(80)))
        assert sum(router.billed.values()) <= spent(tmp_path) + 1e-9
    assert not any("damaged" in note for note in summary.notes)
    assert summary.already >= int(answered)
    assert summary.already + summary.answered == 80


def test_two_processes_share_one_cap(tmp_path: Path) -> None:
    """Both would spend more than there is; together they spend nearly all of it, and never more."""
    program = """
import sys
from pathlib import Path
from eagle_assets_tests.openrouter.router import Router
from eagle_assets_tests.openrouter.test_client import collect
home, url, dataset = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
texts = [f"{dataset} {i}" for i in range(60)]
summary = collect(Path(home), Router(url=url), *texts, dataset=dataset, budget_usd=0.05)
print(summary.answered, summary.beyond_budget, summary.stopped)
"""
    with serving(Router(pause=0.03)) as router:
        buyers = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path), router.url, dataset],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for dataset in ("B3", "B4")
        ]
        for buyer in buyers:
            assert buyer.stdout is not None
            assert buyer.stdout.readline() == "ready\n"
            assert buyer.stdin is not None
        for buyer in buyers:
            buyer.stdin.write("go\n")
            buyer.stdin.flush()
        said = [buyer.communicate(timeout=60)[0].strip() for buyer in buyers]
        billed = sum(router.billed.values())
    assert 0.9 * 0.05 <= billed <= 0.05
    answered = [int(line.split()[0]) for line in said]
    assert min(answered) > 0
    assert sum(answered) == round(billed / COST_USD)
    assert all("the budget ends here" in line and "raise `budget_usd`" in line for line in said)
    with Ledger.open(tmp_path, configuration(budget_usd=0.05)) as ledger:
        assert ledger.totals().all.spent_usd == pytest.approx(billed)


def through_the_sandbox(
    home: Path, base_url: str, prompts: list[Prompt], model: str = "moonshotai/kimi-k2.5"
) -> CollectionSummary:
    dataset = {"source": "openrouter", "prompts": "p.jsonl", "max_tokens": 300}
    chosen = Configuration.model_validate({"datasets": {"B3": dataset}, "concurrency": 4, "target": model})
    settings = Settings.model_validate({"OPENROUTER_API_KEY": "sandbox", "OPENROUTER_BASE_URL": base_url})
    timing = replace(QUICK, first_byte=30, between_bytes=30, generation_tries=2)
    return collect_missing(home, "B3", wanted(prompts, chosen, prompt_tokens=40), chosen, settings, timing=timing)


def prompt_of(name: str) -> Prompt:
    return Prompt(name, ({"role": "user", "content": name},))


def cases() -> dict[str, tuple[Exchange, Any]]:
    """Recorded exchanges and whether to ask again, by name; none where the folder is not there."""
    found = {}
    for path in sorted(FAULTS.glob("[0-9]*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        exchange = case["exchange"]
        for other in ("body_sse", "body_text"):
            if other in exchange:
                exchange["body"] = exchange.pop(other)
        exchange["request"] = {**exchange["request"], "messages": [{"role": "user", "content": path.stem}]}
        found[path.stem] = (exchange_of(exchange), case["expect"]["retry"])
    return found


if FAULTS.is_dir():

    def test_every_recorded_fault_is_met_with_the_right_decision_and_kept(tmp_path: Path) -> None:
        recorded = cases()
        lines = (
            {"exchange_id": name, "status": e.status, "request": e.request, "body": e.body.decode()}
            for name, (e, _) in recorded.items()
        )
        replay = tmp_path / "replay.jsonl"
        replay.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        with running_sandbox(tmp_path / "truth.jsonl", replay=replay) as base_url:
            for model in sorted({e.request["model"] for e, _ in recorded.values()}):
                asked = [prompt_of(name) for name, (e, _) in recorded.items() if e.request["model"] == model]
                through_the_sandbox(tmp_path, base_url, asked, model)
        attempts: dict[str, list[Any]] = {}
        for record in open_journal(tmp_path, "B3").read():
            attempts.setdefault(record.prompt_id, []).append(record)
        of_transport = 0
        for name, (exchange, retry) in recorded.items():
            first, *others = attempts[name]
            assert first.exchange.body == exchange.body, name
            response = read_response(exchange)
            if response.error is not None or not response.complete:
                of_transport += 1
                assert retry is None or bool(others) == retry, name
            else:
                assert not others, name
        assert of_transport >= 7


def test_the_sandbox_misbehaves_as_it_is_asked_to(tmp_path: Path) -> None:
    faults = Faults(excluded=8, foreign=9)
    with running_sandbox(tmp_path / "truth.jsonl", faults=faults) as base_url:
        summary = through_the_sandbox(tmp_path, base_url, [prompt_of(f"prompt {i}") for i in range(40)])
        books = httpx.get(base_url.replace("/api/v1", "/sandbox/books")).json()
    assert summary.fatal
    assert summary.strays >= 2
    records = list(open_journal(tmp_path, "B3").read())
    assert any(r.exchange.provider in ("Fireworks", "BaseTen") for r in records)
    assert any(r.exchange.model == ANOTHER_MODEL for r in records)
    spent_usd = budget_totals(tmp_path, configuration()).all.spent_usd
    assert books["billed_usd"] <= spent_usd <= books["billed_usd"] * 1.02
    rows = [row_of_record(record, "B3") for record in records]
    sequences = list(sequence_rows(rows, calibrate_rows(rows)))
    strays = [s for s in sequences if s["provider"] in ("Fireworks", "BaseTen") or s["model"] == ANOTHER_MODEL]
    assert len(strays) >= summary.strays
    assert {s["verdict"] for s in strays} == {"unusable"}


def test_whoever_was_not_asked_is_never_trained_on_though_the_request_excludes_nobody(tmp_path: Path) -> None:
    with serving(Router({"p5": ["stray"]}, provider="Novita")) as router:
        assert collect(tmp_path, router, *(f"p{n}" for n in range(30))).strays == 0
    records = list(open_journal(tmp_path, "B3").read())
    asked = Origin.allowed("moonshotai/kimi-k2.5", Routing(only=("chutes",)))
    rows = [row_of_record(record, "B3", asked.stray) for record in records]
    sequences = {s["prompt_id"]: s for s in sequence_rows(rows, calibrate_rows(rows))}
    assert {name for name, s in sequences.items() if s["verdict"] == "unusable"} == {"id of p5"}
    assert sequences["id of p5"]["reasons"] == ["stray: a provider that was not asked: Novita"]
