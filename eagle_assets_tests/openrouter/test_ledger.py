import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.openrouter.entries import Open, Reservation, Settlement, Tick
from eagle_assets.openrouter.ledger import Ledger, LedgerError, ledger_path


def ledger(home: Path, budget: float = 10.0, **datasets: float | None) -> Ledger:
    return Ledger(ledger_path(home), budget, datasets)


def test_a_reservation_is_refused_over_the_cap_in_all_and_by_dataset(tmp_path: Path) -> None:
    with ledger(tmp_path, 10.0, B3=4.0, B4=None) as book:
        assert book.reserve("a", "B3", 3.0)
        assert not book.reserve("b", "B3", 1.5)
        assert book.reserve("c", "B3", 1.0)
        assert book.reserve("d", "B4", 6.0)
        assert not book.reserve("e", "B4", 0.000000001)
        book.settle("a", 0.5)
        assert book.reserve("f", "B4", 2.5)
        totals = book.totals()
        assert (totals.all.spent_usd, totals.all.reserved_usd, totals.all.left_usd) == (0.5, 9.5, 0.0)
        assert totals.datasets["B3"].left_usd == 0.0


def test_what_is_unknown_stays_at_its_worst_case_until_it_is_known(tmp_path: Path) -> None:
    with ledger(tmp_path, 10.0, B3=None) as book:
        book.reserve("a", "B3", 3.0)
        book.settle("a", None, "gen-1")
        assert book.unsettled("B3") == [Open("a", "gen-1")]
        assert (book.totals().all.spent_usd, book.totals().all.unsettled_usd, book.totals().all.unsettled) == (3, 3, 1)
        book.settle("a", 0.25)
        book.settle("a", None)
        assert book.unsettled("B3") == []
        assert (book.totals().all.spent_usd, book.totals().all.unsettled_usd) == (0.25, 0)
        with pytest.raises(LedgerError, match="no reservation"):
            book.settle("nobody", 1.0)


def test_costs_are_rounded_up_and_never_twice(tmp_path: Path) -> None:
    with ledger(tmp_path, 10.0) as book:
        book.reserve("a", "B3", 0.1 + 0.2)
        book.settle("a", 0.00004836)
        assert book.totals().all.spent_usd == 0.00004836
        book.reserve("b", "B3", 1.0)
        book.settle("b", 1e-12)
        assert book.totals().all.spent_usd == 0.000048361


def test_a_tick_has_a_cap_of_its_own(tmp_path: Path) -> None:
    with ledger(tmp_path, 10.0, B3=None) as book:
        monday, tuesday = Tick("monday", 1.0), Tick("tuesday", 1.0)
        assert book.reserve("a", "B3", 0.8, monday)
        assert not book.reserve("b", "B3", 0.3, monday)
        assert book.reserve("b", "B3", 0.3, tuesday)
        book.settle("a", 0.1)
        assert book.reserve("c", "B3", 0.9, monday)
        assert not book.reserve("d", "B3", 0.001, monday)
        assert book.reserve("d", "B3", 5.0)


def test_entries_of_one_transaction_are_all_made_or_none(tmp_path: Path) -> None:
    with ledger(tmp_path, 10.0) as book:
        entries = [Reservation("a", "B3", 6.0), Reservation("b", "B3", 6.0), Settlement("a", 1.0, None, "Chutes", 5, 7)]
        assert book.apply(entries) == [True, False, True]
        with pytest.raises(LedgerError):
            book.apply([Reservation("c", "B3", 1.0), Settlement("nobody", 1.0)])
        totals = book.totals()
        assert (totals.all.spent_usd, totals.all.reserved_usd) == (1.0, 0.0)
        assert totals.providers["B3", "Chutes"].completion_tokens == 7


def test_the_meter_bounds_what_nobody_told_and_never_below_it(tmp_path: Path) -> None:
    with ledger(tmp_path, 10.0) as book:
        assert book.watch_meter("key", 5.0)
        for name in "abc":
            book.reserve(name, "B3", 1.0)
        book.settle("a", 0.25)
        book.settle("b", None)
        assert book.unexplained_usd(5.25) is None  # a request is under way
        book.settle("c", None)
        assert book.unexplained_usd(5.2) == pytest.approx(-0.05)
        assert book.settle_by_meter(5.2) == 0  # it lags behind
        assert book.settle_by_meter(8.0) == 0  # somebody else pays with this key too
        assert book.settle_by_meter(5.55) == 2
        assert book.totals().all.unsettled == 0
        assert 0.55 <= book.totals().all.spent_usd <= 0.55 + 1e-8
        assert not book.watch_meter("another key", 7.0)
        assert not book.watch_meter("key", 7.0)


def test_a_meter_that_was_not_read_first_tells_nothing(tmp_path: Path) -> None:
    with ledger(tmp_path, 10.0) as book:
        assert not book.watch_meter("key", None)
        book.reserve("a", "B3", 1.0)
        book.settle("a", None)
        assert not book.watch_meter("key", 5.0)
        assert book.unexplained_usd(5.0) is None
        assert book.settle_by_meter(5.0) == 0


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["B3", "B4"]), st.floats(0, 2), st.floats(0, 2) | st.none()),
        max_size=25,
    )
)
def test_the_totals_are_the_sum_of_what_was_done(
    steps: list[tuple[str, str, float, float | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ledger(tmp_path_factory.mktemp("home"), 5.0, B3=3.0, B4=None) as book:
        rows: dict[str, tuple[str, float, float, str]] = {}
        for name, dataset, worst, real in steps:
            if name not in rows:
                before = book.totals()
                fits = book.reserve(name, dataset, worst)
                if fits:
                    rows[name] = (dataset, worst, worst, "reserved")
                else:
                    assert worst > before.datasets[dataset].left_usd - 1e-8
            else:
                own, most, amount, state = rows[name]
                book.settle(name, real)
                if real is not None:
                    rows[name] = (own, most, real, "settled")
                elif state != "settled":
                    rows[name] = (own, most, amount, "unsettled")
        totals = book.totals()
        spent = sum(a for _, _, a, s in rows.values() if s != "reserved")
        reserved = sum(a for _, _, a, s in rows.values() if s == "reserved")
        assert totals.all.spent_usd == pytest.approx(spent, abs=1e-6)
        assert totals.all.reserved_usd == pytest.approx(reserved, abs=1e-6)
        assert totals.all.left_usd == pytest.approx(max(0, 5.0 - spent - reserved), abs=1e-6)
        assert totals.datasets["B3"].unsettled == sum(d == "B3" and s == "unsettled" for d, _, _, s in rows.values())


BUYER = """
import random, sys, time
from pathlib import Path
from eagle_assets.openrouter.ledger import Ledger, ledger_path
home, dataset, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
costs = random.Random(seed)
with Ledger(ledger_path(home), 1.0, {}) as book:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(400):
        worst = costs.uniform(0.001, 0.02)
        if book.reserve(f"{dataset}-{seed}-{number}", dataset, worst):
            assert book.totals().all.left_usd >= 0
            real = worst * costs.uniform(0.5, 1)
            time.sleep(0.002)
            print(f"{real:.12f}", flush=True)
            book.settle(f"{dataset}-{seed}-{number}", real)
"""


def buyer(home: Path, dataset: str, seed: int) -> subprocess.Popen[str]:
    """A process that buys until the budget is used up, and prints what it paid; it waits for a word to start."""
    arguments = [sys.executable, "-c", BUYER, str(home), dataset, str(seed)]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_two_processes_never_go_over_one_cap(tmp_path: Path) -> None:
    buyers = [buyer(tmp_path, name, seed) for seed, name in enumerate(("B3", "B4"))]
    for process in buyers:
        start(process)
    bought = [sum(map(float, process.communicate()[0].split())) for process in buyers]
    assert [process.returncode for process in buyers] == [0, 0]
    assert min(bought) > 0
    assert 0.9 < sum(bought) <= 1.0
    with ledger(tmp_path, 1.0) as book:
        totals = book.totals()
    assert totals.all.spent_usd == pytest.approx(sum(bought), abs=1e-6)
    assert totals.all.reserved_usd == 0
    assert [totals.datasets[name].spent_usd for name in ("B3", "B4")] == pytest.approx(bought, abs=1e-6)


def test_after_kill_9_what_was_promised_still_counts(tmp_path: Path) -> None:
    instants = random.Random(3)
    for seed in range(4):
        with buyer(tmp_path, "B3", seed) as process:
            start(process)
            assert process.stdout is not None
            for _ in range(instants.randrange(1, 12)):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
    with ledger(tmp_path, 1.0) as book:
        before = book.totals().all
        dead = book.reserved("B3")
        for reservation in dead:
            book.settle(reservation, None)
        after = book.totals().all
    assert len(dead) <= 4
    assert after.unsettled == len(dead)
    assert after.spent_usd == pytest.approx(before.spent_usd + before.reserved_usd)
    assert after.reserved_usd == 0
