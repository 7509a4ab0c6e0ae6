import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eagle_assets.openrouter.attempts import Attempt, JournalRecord
from eagle_assets.openrouter.journal import INTERRUPTED, Journal
from eagle_assets.openrouter.journal_reader import JournalReader
from eagle_assets.openrouter.record_file import JournalError

REQUEST = {"model": "moonshotai/kimi-k2.5", "messages": [{"role": "user", "content": "é"}]}
STREAM = (
    b': OPENROUTER PROCESSING\n\ndata: {"id":"gen-1","model":"moonshotai/kimi-k2.5-0127","provider":"Chutes",'
    b'"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: {"id":"gen-1","choices":[],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":0.25}}\n\ndata: [DONE]\n\n'
)
END = b"data: [DONE]\n\n"
JSON_BODY = (
    b'{"id":"gen-1","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":0.25}}'
)


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[i : i + size] for i in range(0, len(body), size)]


def test_an_exchange_comes_back_as_it_was(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        attempt = journal.ask("local-1", "p1", "k1", REQUEST)
        other = journal.ask("local-2", "p2", "k2", REQUEST)
        journal.begin(attempt, 200, [("Content-Type", "text/event-stream"), ("X-Generation-Id", "gen-1")])
        for i, piece in enumerate(pieces(STREAM, 7)):
            journal.receive(attempt, piece, i / 8)
            if i == 3:
                journal.begin(other, 502, [])
                journal.receive(other, b"<html>\xff", 9.5)
        returned = journal.end(attempt)
        journal.end(other, "ClientPayloadError: cut")
        assert journal.is_settled("p1", "k1")
        assert not journal.is_settled("p2", "k2")

    first, second = JournalReader(tmp_path).read()
    assert first == returned
    assert first.exchange.body == STREAM
    assert first.exchange.exchange_id == "gen-1"
    assert first.exchange.arrivals == tuple((i * 7, i / 8) for i in range(len(pieces(STREAM, 7))))
    assert (first.outcome, first.cost_usd, first.exchange.provider) == ("answered", 0.25, "Chutes")
    assert first.headers == (("Content-Type", "text/event-stream"), ("X-Generation-Id", "gen-1"))
    assert first.exchange.request == REQUEST
    assert (second.exchange.status, second.exchange.body, second.outcome) == (502, b"<html>\xff", "retry")
    assert second.exchange.transport_error == "ClientPayloadError: cut"
    assert second.possibly_paid
    assert JournalReader(tmp_path).find("gen-1") == first
    assert JournalReader(tmp_path).find("nobody") is None


def test_what_generation_says_joins_its_exchange(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        attempt = journal.ask("local-1", "p1", "k1", REQUEST)
        journal.begin(attempt, 200, [("x-generation-id", "gen-9")])
        journal.receive(attempt, STREAM[:60], 0.1)
        assert journal.end(attempt, "timed out").cost_usd is None
        journal.add_generation("gen-9", {"total_cost": 0.5, "native_tokens_completion": 4})
    (record,) = JournalReader(tmp_path).read()
    assert record.cost_usd == 0.5
    assert record.exchange.generation == {"total_cost": 0.5, "native_tokens_completion": 4}


def test_ids_are_unique_whatever_the_server_says(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        for local_id in ("local-1", "local-2"):
            attempt = journal.ask(local_id, "p1", "k1", REQUEST)
            journal.begin(attempt, 200, [])
            journal.receive(attempt, STREAM, 0.1)
            journal.end(attempt)
    records = list(JournalReader(tmp_path).read())
    assert [r.exchange.exchange_id for r in records] == ["gen-1", "local-2"]
    assert [r.attempt for r in records] == [1, 2]


def test_an_attempt_left_open_is_possibly_paid_and_a_whole_answer_is_kept(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.ask("local-1", "asked only", "k", REQUEST)
    cut = journal.ask("local-2", "cut", "k", REQUEST)
    journal.begin(cut, 200, [])
    journal.receive(cut, STREAM[:150], 0.5)
    whole = journal.ask("local-3", "whole", "k", REQUEST)
    journal.begin(whole, 200, [])
    journal.receive(whole, STREAM, 0.5)
    assert list(journal.read()) == []
    journal.close()

    with Journal.open(tmp_path) as reopened:
        recovered = {r.prompt_id: r for r in reopened.recovered}
        assert list(reopened.read()) == list(reopened.recovered)
        assert not reopened.is_settled("cut", "k")
        assert reopened.is_settled("whole", "k")
        assert reopened.ask("local-4", "cut", "k", REQUEST).ordinal == 2
    assert recovered["asked only"].possibly_paid
    assert recovered["asked only"].exchange.transport_error == INTERRUPTED
    assert recovered["cut"].possibly_paid
    assert recovered["cut"].exchange.body == STREAM[:150]
    assert (recovered["whole"].outcome, recovered["whole"].cost_usd) == ("answered", 0.25)


@pytest.mark.parametrize("body", [STREAM, STREAM.removesuffix(END), b" " + JSON_BODY])
def test_a_whole_answer_whose_end_was_not_noted_is_as_good_as_any(tmp_path: Path, body: bytes) -> None:
    def asked(journal: Journal) -> Attempt:
        attempt = journal.ask("local-1", "p", "k", REQUEST)
        journal.begin(attempt, 200, [])
        journal.receive(attempt, body, 0.5)
        return attempt

    with Journal.open(tmp_path / "calm") as journal:
        calm = journal.end(asked(journal))
    with Journal.open(tmp_path / "disturbed") as journal:
        asked(journal)
    with Journal.open(tmp_path / "disturbed") as journal:
        (recovered,) = journal.recovered
    assert recovered.outcome == "answered"
    assert recovered.exchange == calm.exchange


@pytest.mark.parametrize("body", [STREAM[:-60], JSON_BODY[:-1], b"", b": OPENROUTER PROCESSING\n\n"])
def test_an_answer_that_was_cut_by_the_end_of_the_process_says_so(tmp_path: Path, body: bytes) -> None:
    with Journal.open(tmp_path) as journal:
        attempt = journal.ask("local-1", "p", "k", REQUEST)
        journal.begin(attempt, 200, [])
        journal.receive(attempt, body, 0.5)
    with Journal.open(tmp_path) as journal:
        (recovered,) = journal.recovered
    assert (recovered.outcome, recovered.exchange.transport_error) == ("retry", INTERRUPTED)


def test_a_second_writer_is_told_who_has_it(tmp_path: Path) -> None:
    with Journal.open(tmp_path):
        code = (
            "import sys; from pathlib import Path; from eagle_assets.openrouter.journal import Journal\n"
            "Journal.open(Path(sys.argv[1]))"
        )
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == 1
        assert f"another process (pid {os.getpid()}) is collecting" in done.stderr
        with pytest.raises(JournalError, match="another process"):
            Journal.open(tmp_path)
    Journal.open(tmp_path).close()


WRITER = """
import sys
from pathlib import Path
from eagle_assets.openrouter.journal import Journal
journal = Journal.open(Path(sys.argv[1]))
number = int(sys.argv[2])
while True:
    attempt = journal.ask(f"local-{number}", f"p{number}", "k", {"number": number})
    journal.begin(attempt, 200, [("x-generation-id", f"gen-{number}")])
    for i in range(number % 7):
        journal.receive(attempt, b"%d:%d;" % (number, i) * 50, i / 10)
    print(f"piece {number}", flush=True)
    journal.end(attempt)
    print(f"end {number}", flush=True)
    number += 1
"""


def check(record: JournalRecord, whole: bool) -> None:
    number = record.exchange.request["number"]
    expected = b"".join(b"%d:%d;" % (number, i) * 50 for i in range(number % 7))
    assert record.exchange.body == expected if whole else expected.startswith(record.exchange.body)
    assert record.prompt_id == f"p{number}"


def test_kill_9_at_any_instant_loses_nothing_that_had_come(tmp_path: Path) -> None:
    """A writer is killed over and over; all that it had said it wrote must be there, and the next goes on."""
    instants = random.Random(8)
    start = 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(start)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(instants.randrange(1, 900)):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            said = writer.stdout.read().splitlines()
        journal = Journal.open(tmp_path)
        records = list(journal.read())
        numbers = [r.exchange.request["number"] for r in records]
        recovered = [r.exchange.request["number"] for r in journal.recovered]
        journal.close()
        assert journal.damage == ()
        assert numbers == sorted(set(numbers))
        assert len(recovered) <= 1
        for record in records:
            interrupted = record.exchange.transport_error == INTERRUPTED
            check(record, whole=not interrupted)
        ended = [int(line.split()[1]) for line in said if line.startswith("end ") and line[4:].isdigit()]
        assert set(ended) <= set(numbers)
        start = numbers[-1] + 1


def test_a_damaged_tail_is_reported_and_its_attempt_recovered(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        attempt = journal.ask("local-1", "p1", "k1", REQUEST)
        journal.begin(attempt, 200, [])
        journal.receive(attempt, STREAM, 0.1)
        size = journal.size
        journal.end(attempt)
    path = tmp_path / "exchanges.records"
    path.write_bytes(path.read_bytes()[: size + 20])
    with Journal.open(tmp_path) as journal:
        (damage,) = journal.damage
        assert damage.size == 20
        (record,) = journal.recovered
    assert record.outcome == "answered"
    assert record.exchange.body == STREAM


READER = """
import resource, sys
from pathlib import Path
from eagle_assets.openrouter.journal_reader import JournalReader
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for record in JournalReader(Path(sys.argv[1])).read():
    print(len(record.exchange.body))
    del record
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_body_of_50_mb_comes_back_in_memory_for_one_body(tmp_path: Path) -> None:
    noise = os.urandom(1 << 20)
    with Journal.open(tmp_path) as journal:
        for number, megabytes in enumerate([50, 50]):
            attempt = journal.ask(f"local-{number}", f"p{number}", "k", REQUEST)
            journal.begin(attempt, 200, [])
            for i in range(megabytes):
                journal.receive(attempt, noise, float(i))
            journal.end(attempt)
    done = subprocess.run([sys.executable, "-c", READER, str(tmp_path)], capture_output=True, text=True, check=True)
    *sizes, peak_megabytes = map(int, done.stdout.split())
    assert sizes == [50 << 20] * 2
    assert peak_megabytes < 150


def test_what_is_settled_is_told_by_prompt_and_request(tmp_path: Path) -> None:
    body = b'{"id": "gen", "choices": [{"finish_reason": "stop", "message": {"content": "x"}}], "usage": {"cost": 0.5}}'
    with Journal.open(tmp_path) as journal:
        for prompt_id, key, answer in (("p", "k", body), ("p", "l", b""), ("q", "l", body), ("é ", "k", body)):
            attempt = journal.ask(f"local-{prompt_id}-{key}", prompt_id, key, {})
            journal.begin(attempt, 200, [])
            journal.receive(attempt, answer, 0.1)
            journal.end(attempt)
    asked = [("p", "k"), ("p", "l"), ("q", "l"), ("q", "k"), ("é ", "k"), ("é", "k"), ("r", "k")]
    prompt_ids, keys = [prompt_id for prompt_id, _ in asked], [key for _, key in asked]
    settled = [True, False, True, False, True, False, False]
    assert JournalReader(tmp_path).are_settled(prompt_ids, keys).tolist() == settled
    with Journal.open(tmp_path) as journal:
        assert journal.are_settled(prompt_ids, keys).tolist() == settled
        assert [journal.is_settled(*pair) for pair in asked] == settled
        assert [journal.ask("local", *pair, {}).ordinal for pair in asked] == [2, 2, 2, 1, 2, 1, 1]
        assert [journal.ask("local", *pair, {}).ordinal for pair in asked[1::2]] == [3, 2, 2]
