import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eagle_assets.configuration import Configuration, Settings
from eagle_assets.openrouter.attempts import JournalRecord
from eagle_assets.openrouter.client import CollectionError, CollectionSummary, collect_missing
from eagle_assets.openrouter.collection import retry_after
from eagle_assets.openrouter.entries import Tick
from eagle_assets.openrouter.journal_reader import open_journal
from eagle_assets.openrouter.ledger import Ledger, LedgerError
from eagle_assets.openrouter.progress import Progress
from eagle_assets.openrouter.record_file import JournalError
from eagle_assets.openrouter.requests import Prompt
from eagle_assets.openrouter.timing import Timing
from eagle_assets.openrouter.wire import read_response
from eagle_assets_tests.openrouter.router import COST_USD, KEY, Router, serving, wanted

QUICK = Timing(
    first_byte=5,
    between_bytes=5,
    total=20,
    wait_first=0.01,
    wait_most=0.5,
    generation_wait_first=0.01,
    room_wait=3,
    meter_quiet=0.1,
)


def configuration(**more: Any) -> Configuration:
    dataset = {"source": "openrouter", "prompts": "p.jsonl", "max_tokens": 1000}
    return Configuration.model_validate({"datasets": {"B3": dataset, "B4": dataset}, "concurrency": 8, **more})


def settings(router: Router, key: str | None = KEY) -> Settings:
    return Settings.model_validate({"OPENROUTER_API_KEY": key, "OPENROUTER_BASE_URL": router.url})


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt(f"id of {text}", ({"role": "user", "content": text},)) for text in texts]


def collect(
    home: Path,
    router: Router,
    *texts: str,
    key: str | None = KEY,
    dataset: str = "B3",
    timing: Timing = QUICK,
    limit: int | None = None,
    tick: Tick | None = None,
    on_progress: Any = None,
    **more: Any,
) -> CollectionSummary:
    chosen = configuration(**more)
    return collect_missing(
        home,
        dataset,
        wanted(prompts(*texts), chosen, dataset),
        chosen,
        settings(router, key),
        on_progress,
        tick=tick,
        limit=limit,
        timing=timing,
    )


def spent(home: Path) -> float:
    with Ledger.open(home, configuration()) as ledger:
        assert ledger.totals().all.reserved_usd == 0
        return ledger.totals().all.spent_usd


def test_prompts_are_asked_once_and_kept_byte_for_byte(tmp_path: Path) -> None:
    shown: list[Progress] = []
    with serving(Router(pause=0.05)) as router:
        texts = [f"prompt {i}" for i in range(20)]
        summary = collect(tmp_path, router, *texts, on_progress=shown.append)
        assert (summary.answered, summary.attempts, summary.already, summary.stopped) == (20, 20, 0, None)
        again = collect(tmp_path, router, *texts, "one more")
        assert (again.answered, again.already) == (1, 20)
        assert router.asked == Counter(dict.fromkeys([*texts, "one more"], 1))
        assert router.most_at_once == 8
        assert all(r["stream"] and r["max_tokens"] == 1000 for r in router.requests)
        assert all(r["provider"] == {"ignore": ["fireworks", "baseten"]} for r in router.requests)
    records = list(open_journal(tmp_path, "B3").read())
    assert {r.prompt_id for r in records} == {f"id of {text}" for text in [*texts, "one more"]}
    for record in records:
        response = read_response(record.exchange)
        assert response.content == "Oh, yes."
        assert response.complete
        assert record.exchange.exchange_id in router.billed
        offsets, seconds = zip(*record.exchange.arrivals, strict=True)
        assert sorted(offsets) == list(offsets)
        assert sorted(seconds) == list(seconds)
        assert seconds[-1] > seconds[0]
        assert ("content-type", "text/event-stream; charset=utf-8") in record.headers
    assert summary.spent_usd == pytest.approx(20 * COST_USD)
    assert spent(tmp_path) == pytest.approx(21 * COST_USD)
    assert (shown[-1].answered, shown[-1].total, shown[-1].in_flight) == (20, 20, 0)


def test_what_passes_is_retried_and_every_attempt_is_kept(tmp_path: Path) -> None:
    scripts = {
        "limited": ["slow down", "429"],
        "html": ["502", "503", "529"],
        "inside": ["error in 200"],
        "cut": ["cut"],
        "hopeless": ["500"] * 9,
        "wrong": ["400"] * 9,
    }
    with serving(Router(scripts)) as router:
        summary = collect(tmp_path, router, *scripts)
        assert router.asked == Counter(limited=3, html=4, inside=2, cut=2, hopeless=5, wrong=1)
        assert (summary.answered, summary.failed, summary.refused, summary.attempts) == (4, 1, 1, 17)
        scripts["hopeless"] = []
        again = collect(tmp_path, router, *scripts)
        assert (again.answered, again.already, again.attempts) == (1, 5, 1)
    kept = list(open_journal(tmp_path, "B3").read())
    assert len(kept) == 18
    assert len({r.exchange.exchange_id for r in kept}) == 18
    by_prompt = {text: [r for r in kept if r.prompt_id == f"id of {text}"] for text in scripts}
    assert [r.exchange.status for r in by_prompt["html"]] == [502, 503, 529, 200]
    assert [r.attempt for r in by_prompt["html"]] == [1, 2, 3, 4]
    assert by_prompt["html"][0].exchange.body == b"<html>502</html>"
    assert by_prompt["limited"][1].asked_at - by_prompt["limited"][0].ended_at >= 0.3
    cut = by_prompt["cut"][0]
    assert cut.exchange.body.count(b"data:") == 3
    assert cut.exchange.transport_error is not None
    # The cut answer was billed, and /generation said so. Of each of the gateway's errors nobody knows; that they cost
    # nothing together, the key's meter says.
    assert cut.cost_usd == COST_USD
    assert cut.exchange.generation is not None
    unknown = [r for r in kept if r.possibly_paid]
    assert {r.exchange.status for r in unknown} == {502, 503, 529, 500, 200}
    assert (summary.unsettled, spent(tmp_path)) == (0, pytest.approx(6 * COST_USD))


def test_an_unknown_cost_is_asked_for_with_patience(tmp_path: Path) -> None:
    with serving(Router({"p": ["no cost"]}, generation_404s=3)) as router:
        summary = collect(tmp_path, router, "p")
        assert (summary.answered, summary.unsettled) == (1, 0)
    (record,) = open_journal(tmp_path, "B3").read()
    assert record.cost_usd == COST_USD
    assert spent(tmp_path) == COST_USD


def test_a_cost_that_nobody_tells_stays_at_its_worst_until_someone_does(tmp_path: Path) -> None:
    with serving(Router({"p": ["no cost"]}, generation_404s=10**6, has_meter=False)) as router:
        summary = collect(tmp_path, router, "p", timing=replace(QUICK, generation_tries=2))
        assert summary.unsettled == 1
        assert spent(tmp_path) > 1000 * 0.000001
        router.generation_404s = 0
        assert collect(tmp_path, router, "p").unsettled == 0
    assert spent(tmp_path) == COST_USD


@pytest.mark.parametrize(
    ("status", "advice"),
    [("401", "OPENROUTER_API_KEY"), ("402", "buy credit"), ("403", "permissions"), ("404", "routing")],
)
def test_a_fatal_answer_stops_the_run_and_says_what_to_do(tmp_path: Path, status: str, advice: str) -> None:
    texts = [f"p{i}" for i in range(30)]
    with serving(Router({text: [status] for text in texts})) as router:
        summary = collect(tmp_path, router, *texts, concurrency=2)
        assert summary.fatal
        assert summary.stopped is not None
        assert advice in summary.stopped
        assert max(router.asked.values()) == 1
        assert len(router.asked) <= 4
        assert summary.left == 30 - len(router.asked)
        router.scripts.clear()
        assert collect(tmp_path, router, *texts).answered == 30


def test_the_key_is_in_no_file_and_no_word(tmp_path: Path) -> None:
    with serving(Router({"b": ["502", "cut"]})) as router:
        collect(tmp_path, router, "a", "b")
        wrong = collect(tmp_path, router, "c", key="sk-or-v1-wrong-but-secret")
    assert wrong.fatal
    assert "sk-or-v1" not in repr(wrong)
    assert "[redacted key]" in repr(wrong)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 4
    for path in files:
        assert b"sk-or-v1" not in path.read_bytes()


def test_a_stalled_answer_is_given_up_and_kept(tmp_path: Path) -> None:
    with serving(Router({"p": ["stall"]})) as router:
        summary = collect(tmp_path, router, "p", timing=replace(QUICK, between_bytes=0.2))
    first, second = open_journal(tmp_path, "B3").read()
    assert summary.answered == 1
    assert first.exchange.transport_error == "timed out: nothing more came for 0.2 s"
    assert first.exchange.body == b": OPENROUTER PROCESSING\n\n"
    assert second.outcome == "answered"


def test_a_server_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        router = Router(url=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        summary = collect(tmp_path, router, "p", timing=replace(QUICK, attempts=2))
    assert (summary.failed, summary.attempts, summary.unsettled) == (1, 2, 0)
    assert "could not be had" in summary.notes[0]
    assert spent(tmp_path) == 0
    (first, _) = open_journal(tmp_path, "B3").read()
    assert first.exchange.status is None
    assert "ClientConnectorError" in str(first.exchange.transport_error)


def test_the_budget_ends_a_run_with_a_sentence_and_is_never_passed(tmp_path: Path) -> None:
    texts = [f"p{i}" for i in range(40)]
    with serving(Router(pause=0.02)) as router:
        summary = collect(tmp_path, router, *texts, budget_usd=0.0205)
        assert sum(router.billed.values()) <= 0.0205
        assert sum(router.billed.values()) >= 0.9 * 0.0205
        assert summary.answered + summary.beyond_budget == 40
        assert not summary.fatal
        assert summary.stopped is not None
        assert "raise `budget_usd`" in summary.stopped
        rest = collect(tmp_path, router, *texts)
        assert (rest.answered, rest.stopped) == (summary.beyond_budget, None)
    assert set(router.asked.values()) == {1}


def test_without_its_ledger_a_home_buys_nothing_more(tmp_path: Path) -> None:
    with serving(Router()) as router:
        collect(tmp_path, router, "a")
        for file in tmp_path.glob("ledger.sqlite*"):
            file.unlink()
        with pytest.raises(LedgerError, match="is gone, though something was bought for B3"):
            collect(tmp_path, router, "b")
        with pytest.raises(LedgerError, match="is gone"):
            spent(tmp_path)
        assert len(router.requests) == 1


def test_a_cost_that_is_settled_makes_room_in_the_same_run(tmp_path: Path) -> None:
    texts = [f"p{i}" for i in range(10)]
    with serving(Router({"p0": ["no cost"]}, price="0.00001")) as router:
        summary = collect(tmp_path, router, *texts, budget_usd=0.0225)
    assert (summary.answered, summary.beyond_budget, summary.stopped) == (10, 0, None)
    assert spent(tmp_path) == pytest.approx(10 * COST_USD)


def test_the_budget_of_one_run_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    texts = [f"p{i}" for i in range(10)]
    with serving(Router()) as router:
        summary = collect(tmp_path, router, *texts, tick=Tick("first", 0.0045))
        assert (summary.answered, summary.beyond_budget, summary.left) == (4, 0, 6)
        assert summary.stopped == "the $0.0045 of this run end here: 6 prompts are for the next one"
        assert collect(tmp_path, router, *texts, tick=Tick("next")).answered == 6


def test_a_limit_bounds_the_prompts_of_one_run(tmp_path: Path) -> None:
    with serving(Router()) as router:
        summary = collect(tmp_path, router, "a", "b", "c", limit=2)
        assert (summary.answered, summary.left) == (2, 1)
        assert collect(tmp_path, router, "a", "b", "c", limit=2).answered == 1


def test_what_cannot_begin_says_why(tmp_path: Path) -> None:
    with serving(Router()) as router:
        with pytest.raises(CollectionError, match="OPENROUTER_API_KEY is not set"):
            collect(tmp_path, router, "p", key=None)
        with pytest.raises(CollectionError, match="not bought"):
            collect(tmp_path, router, "p", dataset="B1")
        with pytest.raises(CollectionError, match=r"leaves no provider .*: chutes"):
            collect(tmp_path, router, "p", routing={"ignore": ["chutes"]})
        assert not router.asked


def test_without_prices_the_guess_is_named(tmp_path: Path) -> None:
    with serving(Router(price=None)) as router:
        summary = collect(tmp_path, router, "p", routing={"max_price": {"completion": 7}})
    assert summary.answered == 1
    assert "$7 a million" in summary.notes[0]


def test_retry_after_is_seconds_or_a_date(tmp_path: Path) -> None:
    with serving(Router({"p": ["400"]})) as router:
        collect(tmp_path, router, "p")
    (record,) = open_journal(tmp_path, "B3").read()
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def with_headers(*headers: tuple[str, str]) -> JournalRecord:
        return replace(record, exchange=replace(record.exchange, other={"headers": headers}))

    def asked(value: str) -> float | None:
        return retry_after(with_headers(("Retry-After", value)), now)

    assert asked("7") == 7
    assert asked("0.5") == 0.5
    assert asked("Thu, 01 Jan 2026 00:01:00 GMT") == 60
    assert asked("Wed, 31 Dec 2025 00:00:00 GMT") == 0
    assert asked("soon") is None
    assert asked("") is None
    assert retry_after(with_headers(), now) is None


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_an_interrupted_run_records_what_is_in_flight_after_the_grace(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with serving(Router({f"p{i}": ["stall"] for i in range(4)}, pause=1.5)) as router:
        process = collector(tmp_path, router, 9, grace=4)
        wait_for(lambda: router.most_at_once == 8)
        process.send_signal(number)
        assert process.wait(timeout=15) == status
    records = {r.prompt_id: r for r in open_journal(tmp_path, "B3").read()}
    cancelled = [r for r in records.values() if str(r.exchange.transport_error).startswith("cancelled")]
    assert {r.prompt_id for r in cancelled} == {f"id of p{i}" for i in range(4)}
    assert all(records[f"id of p{i}"].outcome == "answered" for i in range(4, 8))
    with Ledger.open(tmp_path, configuration()) as ledger:
        assert ledger.reserved("B3") == []
    assert spent(tmp_path) == pytest.approx(8 * COST_USD)


def test_a_second_interruption_takes_effect_at_once(tmp_path: Path) -> None:
    with serving(Router({f"p{i}": ["stall"] for i in range(4)})) as router:
        process = collector(tmp_path, router, 4, grace=60)
        wait_for(lambda: router.most_at_once == 4)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=15) == -signal.SIGINT
    records = list(open_journal(tmp_path, "B3").read())
    assert len(records) == 4
    assert all(str(r.exchange.transport_error).startswith("cancelled") for r in records)
    with Ledger.open(tmp_path, configuration()) as ledger:
        assert ledger.reserved("B3") == []
        assert {row.generation_id for row in ledger.unsettled("B3")} == set(router.billed)


def test_an_interruption_while_costs_are_settled_ends_that_and_takes_its_effect(tmp_path: Path) -> None:
    with serving(Router({"p0": ["no cost"]}, generation_404s=1_000)) as router:
        process = collector(tmp_path, router, 2, grace=0.5, meter_quiet=60)
        wait_for(lambda: router.meters_read >= 2)  # from now on it waits whether the meter stands still
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=15) == -signal.SIGINT
    assert [record.outcome for record in open_journal(tmp_path, "B3").read()] == ["answered"] * 2
    with Ledger.open(tmp_path, configuration()) as ledger:
        assert [row.generation_id for row in ledger.unsettled("B3")] == ["gen-0"]


def test_a_signal_that_was_to_be_ignored_is(tmp_path: Path) -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + COLLECTOR
    with serving(Router(pause=1.0)) as router:
        process = collector(tmp_path, router, 4, code=code)
        wait_for(lambda: router.most_at_once == 4)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=15) == 0
    assert [record.outcome for record in open_journal(tmp_path, "B3").read()] == ["answered"] * 4


COLLECTOR = """
import sys
from dataclasses import replace
from pathlib import Path
from eagle_assets_tests.openrouter.router import Router
from eagle_assets_tests.openrouter.test_client import QUICK, collect
home, url, prompts, grace, meter_quiet = sys.argv[1:6]
timing = replace(QUICK, between_bytes=60, total=60, grace=float(grace), meter_quiet=float(meter_quiet))
collect(Path(home), Router(url=url), *(f"p{i}" for i in range(int(prompts))), timing=timing)
"""


def collector(
    home: Path,
    router: Router,
    prompts: int,
    grace: float = 10.0,
    meter_quiet: float = QUICK.meter_quiet,
    code: str = COLLECTOR,
) -> subprocess.Popen[bytes]:
    """A process that collects so many prompts."""
    arguments = [str(home), router.url, str(prompts), str(grace), str(meter_quiet)]
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_dataset_is_collected_by_one_process_at_a_time(tmp_path: Path) -> None:
    with serving(Router(pause=1.0)) as router:
        first = threading.Thread(target=collect, args=(tmp_path, router, "p"))
        first.start()
        wait_for(lambda: router.at_once == 1)
        with pytest.raises(JournalError, match="another process"):
            collect(tmp_path, router, "p")
        assert collect(tmp_path, router, "p", dataset="B4").answered == 1
        first.join()
    assert router.asked == Counter(p=2)


def test_a_full_disk_is_a_clear_stop(tmp_path: Path) -> None:
    code = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        + COLLECTOR.replace("collect(Path(home)", "summary = collect(Path(home)")
        + "\nimport json; print(json.dumps([summary.fatal, summary.stopped, summary.answered]))"
    )
    with serving(Router()) as router:
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), router.url, "200", "10", "0.1"],
            capture_output=True,
            text=True,
            check=True,
        )
        fatal, stopped, answered = json.loads(done.stdout)
        assert fatal
        assert "cannot" in stopped
        assert 0 < answered < 200
        summary = collect(tmp_path, router, *(f"p{i}" for i in range(200)))
    assert summary.already >= answered
    assert summary.answered + summary.already == 200
