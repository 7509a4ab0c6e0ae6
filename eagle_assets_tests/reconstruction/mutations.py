r"""Damages exchanges at random and looks at what reconstruction makes of them.

    python -m eagle_assets_tests.reconstruction.mutations 100000 --seed 1 [--truth FOLDER] [--exchanges FILE...]

The cases are the suite's own, those of a known-truth folder where one is given, and the lines of files of exchanges
whose ids nobody knows: those are looked at for crashes and for time alone. An exchange is damaged as a
line of a file: bytes flipped, frames cut, doubled, moved or fused, fields dropped or retyped, numbers changed, deep
nesting. Nothing may raise, nothing may take long, and no `exact` may carry ids that its own evidence denies.
"""

from __future__ import annotations

import argparse
import base64
import copy
import json
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.tolerant_json import parse_json
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import exchange_of_line
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, STOP_NOT_COUNTED, THINK_GENERATED, VERBATIM
from eagle_assets.serving.output import NotInGrammar, parse_output
from eagle_assets_tests.reconstruction.served_exchanges import MARKERS, Truth, document, some_outputs

SLOW_SECONDS = 1.0


@dataclass(frozen=True)
class Case:
    """An undamaged line of a file of exchanges, with the ids that were generated, where they are known."""

    document: dict[str, Any]
    true_ids: list[int] | None


@dataclass(frozen=True)
class Finding:
    """One damaged line and what was wrong with its reconstruction."""

    kind: str
    damage: str
    line: bytes
    details: str


@dataclass
class Report:
    """`forged`: exact with other ids than the true ones, where the damage left a whole answer that says just that."""

    lines: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    wrong_but_consistent: int = 0
    findings: list[Finding] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]


def own_cases(of_each: int = 60, seed: int = 0) -> list[Case]:
    """Canonical outputs as several servers return them, streamed and not, with ids given and without."""
    servers = (
        ("Lakeside", VERBATIM, False),
        ("Meridian", VERBATIM, True),
        ("Harbour", BLANKS_ROUND_ADDED_TOKENS, False),
        ("Copperline", STOP_NOT_COUNTED, False),
        ("Quarry", STOP_NOT_COUNTED, True),
        ("Tundra", THINK_GENERATED, False),
    )
    cases = []
    for provider, convention, gives_token_ids in servers:
        for streamed in (False, True):
            for number, truth in enumerate(some_outputs(of_each, seed, streamed)):
                if convention.think_generated and truth.situation.thinking:
                    truth = Truth([MARKERS.think_begin, *truth.ids], truth.situation)
                name = f"{provider}-{streamed}-{number}"
                line = document(truth, convention, name, provider, gives_token_ids=gives_token_ids)
                cases.append(Case(line, truth.ids))
    return cases


def cases_of_truth(folder: Path) -> list[Case]:
    """Every exchange of a known-truth folder."""
    true_ids = {}
    for line in (folder / "truth.jsonl").read_bytes().splitlines():
        record = json.loads(line)
        true_ids.update(dict.fromkeys(record["exchanges"], record["true_ids"]))
    documents = (json.loads(line) for file in sorted(folder.glob("exchanges_*.jsonl")) for line in file.open("rb"))
    return [Case(document, true_ids[document["exchange_id"]]) for document in documents]


# ---- damages: each takes a document that it may change, and says what it did, or None where it can do nothing

Damage = Callable[[dict[str, Any], Random], str | None]

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    10**400,
    float("inf"),
    "",
    " ",
    "x",
    "²",
    "\ud800",
    "\x00\x1b[/red]",
    "length",
    "stop",
    [],
    {},
    [None],
    [[]],
    {"text": 5},
)


DEEP = re.compile(r'"deep (\d+)"')
"""A value that stands for a deeply nested one, which `with_nesting` puts in its place in the text."""


NESTED = '{"a":[{"a":['


def with_nesting(text: str) -> str:
    return DEEP.sub(lambda mark: '{"a":[' * int(mark[1]) + "0" + "]}" * int(mark[1]), text)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    stack = [value]
    while stack:
        container = stack.pop()
        keys = container.keys() if isinstance(container, dict) else range(len(container))
        for key in keys:
            yield container, key
            if isinstance(container[key], dict | list):
                stack.append(container[key])


def change_somewhere(value: Any, rng: Random) -> str | None:
    """Drop, retype or edit one node of a JSON value."""
    found = list(places(value))
    if not found:
        return None
    # Lists of ids have many places; a field's name is as good a target as its content.
    names = sorted({str(key) if isinstance(key, str) else "[]" for _, key in found})
    name = rng.choice(names)
    container, key = rng.choice([p for p in found if (str(p[1]) if isinstance(p[1], str) else "[]") == name])
    old = container[key]
    action = rng.choice(("drop", "retype", "edit", "edit", "edit", "nest", "copy"))
    if action == "drop":
        del container[key]
    elif action == "nest":
        container[key] = f"deep {rng.choice((5, 60, 240, 470, 480, 490, 495, 5000))}"
    elif action == "copy":
        other, other_key = rng.choice(found)
        container[key] = copy.deepcopy(other[other_key]) if other is not container else old
    elif action == "edit":
        container[key] = edited(old, rng)
    else:
        container[key] = rng.choice(ODD_VALUES)
    return f"{action} {name}"


def edited(value: Any, rng: Random) -> Any:
    """A value of the same type that differs a little."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + rng.choice((-2, -1, 1, 2, 100))
    if isinstance(value, str):
        at = rng.randint(0, len(value))
        return rng.choice(
            (
                " " + value,
                value + "\n",
                value.strip(),
                value[:at] + value[at + 1 :],
                value[:at] + rng.choice(" \n<[a'\ufffdé") + value[at:],
                value + value,
                value[:at] + "</think>" + value[at:],
            )
        )
    if isinstance(value, list) and value:
        items = list(value)
        at = rng.randrange(len(items))
        return rng.choice(
            (items[:at] + items[at + 1 :], [*items, items[at]], items[::-1], items[: at + 1] + items[at:])
        )
    return [value]


def json_changed(line: dict[str, Any], rng: Random) -> str | None:
    """Change the JSON body, or one frame of an event stream."""
    body = line.get("body")
    if not isinstance(body, str) or NESTED in body:
        return None
    frames = list(re.finditer(r"^data: (\{.*)$", body, re.MULTILINE))
    if frames:
        # The last frames hold the count and the finish reason.
        frame = rng.choice(frames[-2:]) if rng.random() < 0.4 else rng.choice(frames)
        start, end = frame.span(1)
    else:
        start, end = 0, len(body)
    try:
        value = json.loads(body[start:end])
    except (ValueError, RecursionError):
        return None
    what = change_somewhere(value, rng) if isinstance(value, dict | list) else None
    line["body"] = body[:start] + with_nesting(json.dumps(value, ensure_ascii=rng.random() < 0.1)) + body[end:]
    return what and f"body: {what}"


def beside_the_body(line: dict[str, Any], rng: Random) -> str | None:
    body = line.pop("body", None)
    line.setdefault("generation", {"data": {"native_tokens_completion": 12}})
    line.setdefault("arrivals", [[0, 0.5], [10, 0.6]])
    what = change_somewhere(line, rng)
    line["body"] = body
    return what and f"line: {what}"


def frames_moved(line: dict[str, Any], rng: Random) -> str | None:
    """Drop, double, swap or fuse frames of an event stream."""
    body = line.get("body")
    if not isinstance(body, str) or "data: " not in body:
        return None
    frames = body.split("\n\n")
    at, other = rng.randrange(len(frames)), rng.randrange(len(frames))
    action = rng.choice(("drop", "double", "swap", "fuse", "line end", "turn"))
    if action == "drop":
        del frames[at]
    elif action == "double":
        frames.insert(other if rng.random() < 0.5 else at, frames[at])
    elif action == "swap":
        frames[at], frames[other] = frames[other], frames[at]
    elif action == "turn" and at + 1 < len(frames):
        frames[at], frames[at + 1] = frames[at + 1], frames[at]
    elif action == "fuse":
        frames[at : at + 2] = [rng.choice(("", "\n", " ")).join(frames[at : at + 2])]
    else:
        line["body"] = rng.choice(("\r\n\r\n", "\r\r", "\n\r\n")).join(frames)
        return "frames: line end"
    line["body"] = "\n\n".join(frames)
    return f"frames: {action}"


def bytes_flipped(line: dict[str, Any], rng: Random) -> str | None:
    """Flip bytes of the body, or cut it short."""
    body = line.get("body")
    if not isinstance(body, str) or not body:
        return None
    data = bytearray(body.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.3:
        what = "bytes: cut"
        del data[rng.randrange(len(data)) :]
    else:
        what = "bytes: flipped"
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.randrange(len(data))] = rng.choice((rng.randrange(256), 0, 10, 13, 0xFF, 0xEF, 34, 123))
    try:
        line["body"] = data.decode()
    except UnicodeDecodeError:
        del line["body"]
        line["body_base64"] = base64.b64encode(bytes(data)).decode()
    return what


DAMAGES: tuple[Damage, ...] = (json_changed, json_changed, json_changed, beside_the_body, frames_moved, bytes_flipped)


def damaged(case: Case, rng: Random) -> tuple[bytes, str]:
    """The line of a case after one damage or a few, and what they were."""
    line = copy.deepcopy(case.document)
    done: list[str] = []
    while not done or rng.random() < 0.3:
        what = rng.choice(DAMAGES)(line, rng)
        if what:
            done.append(what)
    data = with_nesting(json.dumps(line, ensure_ascii=rng.random() < 0.5)).encode("utf-8", "surrogatepass")
    if rng.random() < 0.03:
        at = rng.randrange(len(data))
        data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        done.append("line: byte")
    return data.replace(b"\n", b" "), " + ".join(done)


# ---- what is wrong with a reconstruction


def wrong_exact(reconstruction: Reconstruction, exchange: Exchange, case: Case) -> str | None:
    """`false exact`, or `forged` where the damaged answer is whole and says what the ids say; None if all is well."""
    ids = reconstruction.output_ids
    if case.true_ids is None or reconstruction.verdict != "exact" or ids == case.true_ids:
        return None
    before, after = exchange_of(case.document), exchange
    same_request = before.request == after.request and before.model == after.model
    same = same_request and _shown(read_response(before)) == _shown(read_response(after))
    return "forged" if not same and ids and _says(ids, after) else "false exact"


def _shown(response: Response) -> tuple[Any, ...]:
    return (
        response.reasoning,
        response.content,
        response.tool_calls,
        response.finish_reason,
        response.native_finish_reason,
        response.completion_tokens,
        tuple((delta.field, delta.text) for delta in response.deltas),
        response.token_ids,
    )


def _says(ids: Sequence[int], exchange: Exchange) -> bool:
    """Whether ids decode to the texts of an answer, but for white space at the ends, and are as many as counted."""
    reading = read(exchange)
    if reading.situation is None:
        return False
    try:
        output = parse_output(ids, reading.situation)
    except NotInGrammar:
        return False
    vocabulary = reading.situation.target.vocabulary
    said = output.over(lambda segment: vocabulary.decode(segment).decode("utf-8", "replace"))
    response = reading.response
    shown = ((response.reasoning or "").strip(), (response.content or "").strip())
    if said.reasoning is None:  # servers show instant answers in either field
        shown = ("", "".join(shown))
    return ((said.reasoning or "").strip(), said.content.strip()) == shown and (response.completion_tokens or 0) in (
        len(ids),
        len(ids) - 1,
    )


def run(cases: Sequence[Case], count: int, seed: int, progress: Callable[[int], object] | None = None) -> Report:
    """Damage `count` cases and reconstruct each, under the calibration of the undamaged and of their own batch."""
    rng = Random(seed)
    calibration = calibrate(exchange_of(case.document) for case in cases)
    report = Report()
    while report.lines < count:
        chosen = [rng.choice(cases) for _ in range(min(128, count - report.lines))]
        lines = [damaged(case, rng) for case in chosen]
        _run_batch(chosen, lines, calibration, report)
        report.lines += len(lines)
        if progress is not None:
            progress(report.lines)
    return report


def _run_batch(
    cases: Sequence[Case], lines: Sequence[tuple[bytes, str]], calibration: Calibration, report: Report
) -> None:
    started = time.process_time()
    try:
        results = [_reconstructed([line for line, _ in lines], calibration)]
        results.append(_reconstructed([line for line, _ in lines], None))
        crashed = None
    except Exception as error:
        crashed = repr(error)
    slow = time.process_time() - started > SLOW_SECONDS
    if crashed or slow:
        results = []
        found = len(report.of_kind("crash"))
        for case, (line, damage) in zip(cases, lines, strict=True):
            started = time.process_time()
            try:
                result = _reconstructed([line], calibration)
                _reconstructed([line], None)
                _note(cases=[case], lines=[(line, damage)], result=result, report=report)
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                where = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames[-4:]))
                report.findings.append(Finding("crash", damage, line, f"{type(error).__name__}: {error} at {where}"))
            seconds = time.process_time() - started
            if seconds > SLOW_SECONDS:
                report.findings.append(Finding("slow", damage, line, f"{seconds:.1f} s"))
        if crashed and len(report.of_kind("crash")) == found:  # only all of them together do it
            report.findings.append(Finding("crash", "a whole batch", b"\n".join(line for line, _ in lines), crashed))
    for result in results:
        _note(cases, lines, result, report)


def _reconstructed(lines: Sequence[bytes], calibration: Calibration | None) -> list[tuple[Exchange, Reconstruction]]:
    exchanges = [exchange_of_line(line, f"file:{number}") for number, line in enumerate(lines, 1)]
    calibration = calibrate(exchanges) if calibration is None else calibration
    verdicts = list(reconstruct(exchanges, calibration))
    assert all(isinstance(parse_json(msgspec.json.encode(verdict.to_dict())), dict) for verdict in verdicts)
    return list(zip(exchanges, verdicts, strict=True))


def _note(
    cases: Sequence[Case],
    lines: Sequence[tuple[bytes, str]],
    result: Sequence[tuple[Exchange, Reconstruction]],
    report: Report,
) -> None:
    for case, (line, damage), (exchange, verdict) in zip(cases, lines, result, strict=True):
        report.verdicts[verdict.verdict] += 1
        known_wrong = case.true_ids is not None and verdict.output_ids != case.true_ids
        report.wrong_but_consistent += verdict.verdict == "consistent" and known_wrong
        kind = wrong_exact(verdict, exchange, case)
        if kind is not None:
            report.findings.append(Finding(kind, damage, line, "; ".join(verdict.reasons)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--truth", type=Path, help="a folder of known-truth exchanges")
    parser.add_argument("--exchanges", type=Path, nargs="*", default=[], help="files of exchanges, of unknown ids")
    parser.add_argument("--keep", type=Path, help="write the damaged lines of all findings to this file")
    arguments = parser.parse_args()
    cases = own_cases()
    if arguments.truth:
        cases += cases_of_truth(arguments.truth)
    cases += [Case(json.loads(line), None) for file in arguments.exchanges for line in file.open("rb")]

    def progress(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} of {arguments.count:,}", end="", file=sys.stderr)

    report = run(cases, arguments.count, arguments.seed, progress)
    print(f"{report.lines:,} damaged lines of {len(cases):,} cases, verdicts {dict(report.verdicts)}")
    print(f"wrong ids as consistent: {report.wrong_but_consistent}")
    for kind in ("crash", "slow", "false exact", "forged"):
        found = report.of_kind(kind)
        print(f"{kind}: {len(found)}")
        causes = Counter((finding.details if kind != "slow" else finding.damage)[:240] for finding in found)
        for cause, times in causes.most_common(25):
            example = next(f for f in found if (f.details if kind != "slow" else f.damage)[:240] == cause)
            print(f"  {times:5d} × {cause}\n          e.g. after {example.damage[:200]}")
    if arguments.keep:
        with arguments.keep.open("wb") as kept:
            for finding in report.findings:
                kept.write(
                    json.dumps(
                        {"kind": finding.kind, "damage": finding.damage, "details": finding.details}
                        | {"line_base64": base64.b64encode(finding.line).decode()}
                    ).encode()
                    + b"\n"
                )
    return 1 if report.of_kind("crash") or report.of_kind("false exact") else 0


if __name__ == "__main__":
    sys.exit(main())
