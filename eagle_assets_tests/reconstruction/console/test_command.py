"""`eagle-assets reconstruct` as a process: a line for each line, in order, whatever the lines hold."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eagle_assets.reconstruction.console import command
from eagle_assets.reconstruction.console.command import reconstruct_files
from eagle_assets.reconstruction.files import sampling
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, VERBATIM
from eagle_assets_tests.reconstruction.served_exchanges import document, some_outputs

KEYS = {"exchange_id", "verdict", "output_ids", "prompt_ids", "reasons", "evidence", "candidates"}


def reconstruct(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("eagle-assets")), "reconstruct", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def written(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def said(result: dict[str, Any]) -> tuple[Any, ...]:
    return result["exchange_id"], result["verdict"], result["output_ids"], result["reasons"], len(result["candidates"])


def answers(count: int, seed: int = 1) -> list[bytes]:
    lines = []
    for provider, convention in (("Lakeside", VERBATIM), ("Harbour", BLANKS_ROUND_ADDED_TOKENS)):
        for streamed in (False, True):
            for number, truth in enumerate(some_outputs(count, seed, streamed)):
                name = f"{provider}-{streamed}-{number}"
                lines.append(json.dumps(document(truth, convention, name, provider)).encode())
    return lines


def test_a_line_for_each_line_in_order_with_malformed_ones_among_them(tmp_path: Path) -> None:
    malformed = [
        b"{",
        b"[]",
        b"\xff\xfe",
        b"7",
        b'{"exchange_id": 5, "request": "{"}',
        b'{"exchange_id": "odd", "body": 5}',
        b'{"a":' * 5000,
    ]
    lines = answers(6)
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    mixed = [line for pair in zip(malformed, lines, strict=False) for line in pair] + lines[len(malformed) :]
    file.write_bytes(b"\n".join(mixed))
    run = reconstruct(file, "-o", out)
    assert run.returncode == 0, run.stderr
    results = written(out)
    assert len(results) == len(mixed)
    assert all(result.keys() == KEYS for result in results)
    for line, result in zip(mixed, results, strict=True):
        if line in malformed:
            assert (result["verdict"], result["output_ids"]) == ("unusable", None)
            assert "malformed line" in " ".join(result["reasons"])
        else:
            assert result["exchange_id"] == json.loads(line)["exchange_id"]
            assert result["verdict"] != "unusable"
    assert results[10]["exchange_id"] == "odd"
    assert "Traceback" not in run.stderr


def test_a_whole_answer_is_judged_without_its_name_its_status_or_its_request_as_an_object(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in answers(12)]
    bare = [{**line, "request": json.dumps(line["request"])} for line in lines]
    for line in bare:
        del line["exchange_id"], line["status"]
    verdicts = []
    for name, rows in (("whole", lines), ("bare", bare)):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        assert reconstruct(file, "-o", tmp_path / "out.jsonl").returncode == 0
        verdicts.append(written(tmp_path / "out.jsonl"))
    for number, (whole, without) in enumerate(zip(*verdicts, strict=True), 1):
        assert without["exchange_id"] == f"bare.jsonl:{number}"
        assert "no_http_status" in without["reasons"]
        reasons = [reason for reason in without["reasons"] if reason != "no_http_status"]
        assert {**without, "reasons": reasons, "exchange_id": whole["exchange_id"]} == whole
    assert {"exact", "consistent"} & {verdict["verdict"] for verdict in verdicts[1]}


def test_a_file_in_which_no_line_can_be_read_is_said_to_be_one(tmp_path: Path) -> None:
    line, file = answers(1)[0], tmp_path / "in.jsonl"
    for data, told in ((gzip.compress(line), True), (b"[" + line + b"]", True), (b"", True), (b"{\n" + line, False)):
        file.write_bytes(data)
        run = reconstruct(file, "-o", tmp_path / "out.jsonl")
        assert run.returncode == 0
        assert ("No line could be read" in run.stderr) == told


def test_where_verdicts_go_is_looked_at_before_the_work(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(answers(1)[0])
    nowhere = reconstruct(file, "-o", tmp_path / "nowhere" / "out.jsonl")
    assert nowhere.returncode == 1
    assert "nowhere does not exist; make it first" in " ".join(nowhere.stderr.split())
    itself = reconstruct(file, "-o", file)
    assert (itself.returncode, file.read_bytes()) == (1, answers(1)[0])
    assert "is an input too" in itself.stderr
    kept = reconstruct(file, "-o", tmp_path / "out.jsonl", "--save-calibration", file)
    assert (kept.returncode, file.read_bytes()) == (1, answers(1)[0])
    twice = reconstruct(file, "-o", tmp_path / "out.jsonl", "--save-calibration", tmp_path / "out.jsonl")
    assert (twice.returncode, "is another output too" in twice.stderr) == (1, True)
    device = reconstruct(file, "-o", "/dev/null")
    assert (device.returncode, "/dev/null is no file" in device.stderr) == (1, True)
    printed = reconstruct(file, "-o", "-")
    assert (printed.returncode, "do not go to standard output" in " ".join(printed.stderr.split())) == (1, True)


def test_a_link_is_written_through(tmp_path: Path) -> None:
    file, out, link = (tmp_path / name for name in ("in.jsonl", "out.jsonl", "link.jsonl"))
    file.write_bytes(answers(1)[0])
    link.symlink_to(out)
    assert reconstruct(file, "-o", link).returncode == 0
    assert link.is_symlink()
    assert len(written(out)) == 1


def test_an_interruption_is_said_in_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    file, pipe, out = (tmp_path / name for name in ("in.jsonl", "calibration.json", "out.jsonl"))
    file.write_bytes(answers(1)[0])
    os.mkfifo(pipe)
    command = [str(Path(sys.executable).with_name("eagle-assets")), "reconstruct", str(file), "-o", str(out)]
    process = subprocess.Popen([*command, "--calibration", str(pipe)], stderr=subprocess.PIPE, text=True)
    with pipe.open("wb"):  # opened when the command opens it, and nothing ever comes
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.strip().endswith("interrupted; run the same command again to go on: nothing is bought twice")
    assert not out.exists()


def test_a_pipe_is_refused_since_it_cannot_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.jsonl")
    run = reconstruct(tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl")
    assert run.returncode == 2
    assert "write it into a file first" in " ".join(run.stderr.split())


def test_a_kept_calibration_gives_the_same_verdicts(tmp_path: Path) -> None:
    file, first, again, alone = (tmp_path / f"{name}.jsonl" for name in ("in", "first", "again", "alone"))
    calibration = tmp_path / "calibration.json"
    lines = answers(14)
    file.write_bytes(b"\n".join(lines))
    assert reconstruct(file, "-o", first, "--save-calibration", calibration).returncode == 0
    assert reconstruct(file, "-o", again, "--calibration", calibration).returncode == 0
    assert [said(result) for result in written(first)] == [said(result) for result in written(again)]
    # With it, a single answer is judged as it was among the others.
    file.write_bytes(lines[0])
    assert reconstruct(file, "-o", alone, "--calibration", calibration).returncode == 0
    assert said(written(alone)[0]) == said(written(first)[0])
    assert written(alone)[0]["verdict"] == "consistent"


def test_several_files_are_one_input(tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    out = tmp_path / "out.jsonl"
    lines = answers(4)
    files[0].write_bytes(b"\n".join(lines[:5]) + b"\n\n")
    files[1].write_bytes(b"\n".join(lines[5:]) + b"\n")
    assert reconstruct(*files, "-o", out).returncode == 0
    assert [result["exchange_id"] for result in written(out)] == [json.loads(line)["exchange_id"] for line in lines]


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file_gives_an_empty_one(tmp_path: Path, content: bytes) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(content)
    assert reconstruct(file, "-o", out).returncode == 0
    assert out.read_bytes() == b""


def test_mistakes_of_the_user_are_a_sentence(tmp_path: Path) -> None:
    file, out, wrong = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "calibration.json"
    file.write_bytes(answers(1)[0])
    wrong.write_text('{"groups": 5}')
    for arguments in ((tmp_path / "none.jsonl", "-o", out), (file, "-o", out, "--calibration", wrong)):
        run = reconstruct(*arguments)
        assert run.returncode != 0
        assert "Traceback" not in run.stderr
        assert run.stderr.strip()
        assert not out.exists()


def test_workers_say_what_one_process_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, alone, shared = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "alone", tmp_path / "shared"
    lines = answers(12)
    deep = json.loads(lines[0])
    deep["request"]["metadata"] = json.loads("[" * 490 + "]" * 490)  # deeper than a process can hand to another
    lines[0] = json.dumps(deep).encode()
    files[0].write_bytes(b"\n\n".join([b"{", *lines[:30]]))
    files[1].write_bytes(b"\n".join([*lines[30:], b"malformed"]))
    reconstruct_files(files, alone, None, None)
    monkeypatch.setattr(command, "_WORTH_WORKERS", 0)
    monkeypatch.setattr(sampling, "_LINES_OF_A_PIECE", 7)
    reconstruct_files(files, shared, None, None)
    assert shared.read_bytes() == alone.read_bytes()
    assert len(written(shared)) == len(lines) + 2
    assert written(shared)[-1]["exchange_id"] == "b.jsonl:19"


def test_a_file_that_is_named_twice_gives_a_line_for_each_of_its_lines_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(b"\n".join(lines := answers(5)))
    monkeypatch.setattr(sampling, "_LINES_OF_A_PIECE", 30)
    reconstruct_files([file, file, file], out, None, None)
    assert [result["exchange_id"] for result in written(out)] == [json.loads(line)["exchange_id"] for line in lines] * 3


@pytest.mark.parametrize("renamed", [False, True])
def test_an_exchange_that_is_repeated_is_no_evidence_of_its_own(tmp_path: Path, renamed: bool) -> None:
    file, again, out = tmp_path / "once.jsonl", tmp_path / "again.jsonl", tmp_path / "out.jsonl"
    lines = [json.loads(line) for line in answers(4)]
    copies = [dict(line) for _ in range(8) for line in lines]
    for number, copy in enumerate(copies):
        if renamed:
            copy["exchange_id"] += f"-{number}"
    for place, content in ((file, lines), (again, [*lines, *copies])):
        place.write_text("".join(json.dumps(line) + "\n" for line in content), encoding="utf-8")
    reconstruct_files([file], out, None, None)
    once = written(out)
    reconstruct_files([again], out, None, None)
    assert [result["verdict"] for result in written(out)] == [result["verdict"] for result in once] * 9
    assert {result["verdict"] for result in once} != {"consistent"}


def test_a_byte_order_mark_ahead_of_a_file_is_no_part_of_its_first_line(tmp_path: Path) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b"\n".join(answers(3)))
    reconstruct_files([file], out, None, None)
    assert not [result for result in written(out) if result["verdict"] == "unusable"]
