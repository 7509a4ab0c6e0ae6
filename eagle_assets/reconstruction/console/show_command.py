"""`eagle-assets show`: one response with its tokens, its evidence and its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eagle_assets.lake.audit import Published, read_record
from eagle_assets.lake.home import Home
from eagle_assets.lake.version import last_good
from eagle_assets.openrouter.journal_reader import journaled_datasets, open_journal
from eagle_assets.reconstruction.console.reasons_in_words import VERDICT_IN_WORDS, reason_in_words
from eagle_assets.reconstruction.console.tokens_view import difference_in_words, differences, tokens_text
from eagle_assets.reconstruction.files.exchanges import exchanges_in
from eagle_assets.reconstruction.own.local import OWN, sequence_row
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.sequences import calibrate_rows, sequence_rows
from eagle_assets.reconstruction.stored import row_of_record
from eagle_assets.reconstruction.verdict import Candidate, Verdict
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.vocabulary import Vocabulary, kimi_vocabulary

_MOST_DIFFERENCES = 8
_STYLES: dict[Verdict, str] = {
    "exact": "bold green",
    "consistent": "green",
    "unverified": "yellow",
    "contradicted": "red",
    "unusable": "dim",
}


class NotFound(LookupError):
    """There is no such exchange; one sentence that says where it was looked for and how to list what there is."""


@dataclass(frozen=True)
class Shown:
    """A judged response, wherever it comes from. `facts` are what is said of it ahead of its tokens, by name;
    `surprising` are the places where the target model would rather have other ids."""

    exchange_id: str
    verdict: Verdict
    reasons: Sequence[str]
    output_ids: Sequence[int] | None
    candidates: Sequence[Candidate]
    evidence: Mapping[str, Any]
    facts: Mapping[str, Any]
    surprising: Sequence[int] = ()


def show(shown: Shown, with_ids: bool, console: Console) -> None:
    """Print one response as the console can."""
    coloured = console.is_terminal and console.color_system is not None and not console.no_color
    print_shown(shown, with_ids, coloured, console)


def find_in_file(exchange_id: str, file: Path) -> Shown:
    """The exchange of a file, judged under what the whole file says of its provider, the first where several have one
    id; raises NotFound."""
    so_called = [exchange for exchange in exchanges_in([file]) if exchange.exchange_id == exchange_id]
    if not so_called:
        raise NotFound(f"{file} holds no exchange {exchange_id}; to list its ids: jq -r .exchange_id {file}")
    first, *others = so_called
    (found,) = reconstruct([first], calibrate(exchanges_in([file])))
    facts = {
        "from": file,
        "of lines with this id": f"the first of {len(so_called)}; `reconstruct` has a verdict for each"
        if others
        else None,
        "model": found.model,
        "provider": found.provider,
        "HTTP status": first.status,
    }
    return Shown(exchange_id, found.verdict, found.reasons, found.output_ids, found.candidates, found.evidence, facts)


def find_in_home(exchange_id: str, home: Home, verdict_stage: str) -> Shown:
    """The exchange in the last good versions of the home, or judged now where what was judged last was refused, or
    never came so far because its responses were. `verdict_stage` is the stage whose verdicts the shards go by.

    Raises NotFound.
    """
    raw = _find_row(exchange_id, home, "raw_responses") or _find_in_journals(exchange_id, home)
    row = _find_row(exchange_id, home, "token_sequences")
    refused = _refused_stage(home, raw["dataset"], row is None) if raw is not None else None
    if raw is not None and refused is not None:
        row = _judged_now(raw, home)
    if row is None and raw is not None:
        raise NotFound(
            f"exchange {exchange_id} of {raw['dataset']} is collected but not judged yet; "
            f"run: eagle-assets run {raw['dataset']} --until token_sequences"
        )
    if row is None:
        datasets = home.audited_datasets("token_sequences")
        where = (
            f"token_sequences of {', '.join(datasets)}" if datasets else "token_sequences, of which there is none yet,"
        )
        raise NotFound(
            f"no exchange {exchange_id} in {where} under {home.root}; to list ids: eagle-assets query exchanges"
        )
    before_target = row["verdict"]
    by_target = None
    if verdict_stage == "judged_sequences" and not refused:
        by_target = _find_row(exchange_id, home, verdict_stage)
    # Of another verdict than stands now it says nothing.
    if by_target is not None and by_target["verdict_before"] == before_target:
        row = by_target
    else:
        by_target = None
    facts = {
        "from": f"{row['dataset']}, prompt {row['prompt_id']}",
        "judged": f"just now, because {refused} did not pass its audit" if refused else None,
        "before the target": f"{before_target}; {_liking(by_target)}" if by_target is not None else None,
        "model": row["model"],
        "provider": row["provider"],
        "HTTP status": raw and raw["status"],
        "attempt": raw and raw["attempt"],
        "cost": None if row["cost_usd"] is None else f"${row['cost_usd']:.6f}",
    }
    candidates = [Candidate(**candidate) for candidate in msgspec.json.decode(row["candidates"])]
    evidence = msgspec.json.decode(row["evidence"])
    surprising = by_target["surprising"] if by_target is not None else ()
    return Shown(
        exchange_id, row["verdict"], row["reasons"], row["output_ids"], candidates, evidence, facts, surprising
    )


def _liking(judged: Mapping[str, Any]) -> str:
    """How the target model likes the ids, by a row of JUDGED_SEQUENCES."""
    if judged["surprise"] is None:
        return "it was not asked"
    if not judged["surprise"]:
        return f"it finds them likely ({judged['log_likelihood']:.1f} nats)"
    return f"it would rather have other ids ({judged['surprise_kind']}, {judged['surprise']:.1f} nats)"


def _judged_now(raw: dict[str, Any], home: Home) -> dict[str, Any]:
    """The row of TOKEN_SEQUENCES that a row of RAW_RESPONSES leads to; what an audit refused is not kept."""
    if raw["provider"] == OWN:
        return sequence_row(raw, target_named(raw["model"]))
    (row,) = sequence_rows([raw], calibrate_rows(_bought_rows(raw["dataset"], home)))
    return row


def _refused_stage(home: Home, dataset: str, never_judged: bool) -> str | None:
    """The stage whose refusal keeps a judgement from being the current one."""
    stages = ("raw_responses", "token_sequences") if never_judged else ("token_sequences",)
    return next((stage for stage in stages if read_record(home, stage, dataset).failed is not None), None)


def _bought_rows(dataset: str, home: Home) -> Iterator[dict[str, Any]]:
    """What calibration may learn from: the last good versions, and where this dataset has none its journal."""
    published = list(_last_good_versions(home, "raw_responses"))
    for version in published:
        yield from (row for row in version.rows() if row["provider"] != OWN)
    if dataset not in {version.audit.dataset for version in published}:
        yield from (row_of_record(record, dataset) for record in open_journal(home.root, dataset).read())


def _find_in_journals(exchange_id: str, home: Home) -> dict[str, Any] | None:
    """The row of RAW_RESPONSES of an exchange that was bought, whether its dataset was ever published or not."""
    for dataset in journaled_datasets(home.root):
        record = open_journal(home.root, dataset).find(exchange_id)
        if record is not None:
            return row_of_record(record, dataset)
    return None


def _find_row(exchange_id: str, home: Home, stage: str) -> dict[str, Any] | None:
    for published in _last_good_versions(home, stage):
        for path in published.paths:
            table = pq.read_table(path, filters=[("exchange_id", "=", exchange_id)])
            if table.num_rows:
                return table.slice(0, 1).to_pylist()[0]
    return None


def _last_good_versions(home: Home, stage: str) -> Iterator[Published]:
    """Also those behind a closed gate: to look at what is wrong is what `show` is for."""
    for dataset in home.audited_datasets(stage):
        audit = last_good(home, stage, dataset)
        if audit is not None:
            yield Published(home, audit)


def print_shown(shown: Shown, with_ids: bool, coloured: bool, console: Console) -> None:
    """Print the facts, the tokens, the evidence, the verdict with its reasons, and the other candidates."""
    vocabulary = kimi_vocabulary()
    _print_pairs(f"Exchange {shown.exchange_id}", shown.facts, console)
    if shown.output_ids:
        places = [place for other in shown.candidates for place in differences(shown.output_ids, other.output_ids)]
        marked = tokens_text(shown.output_ids, vocabulary, with_ids, coloured, places, shown.surprising)
        console.print(marked, soft_wrap=True)
        console.print(Text(_legend(len(shown.output_ids), coloured, bool(places), bool(shown.surprising)), "dim"))
    else:
        console.print("There are no ids to show.\n")
    _print_pairs("Evidence", {name.replace("_", " "): value for name, value in shown.evidence.items()}, console)
    verdict = Text.assemble((shown.verdict, _STYLES[shown.verdict]), f": {VERDICT_IN_WORDS[shown.verdict]}")
    console.print(verdict, soft_wrap=True)
    for reason in shown.reasons:
        code = reason.partition(":")[0]
        console.print(Text.assemble(f"  - {reason_in_words(reason)} ", (f"({code})", "dim")), soft_wrap=True)
    for number, candidate in enumerate(shown.candidates, 2):
        console.print(_candidate(number, candidate, shown.output_ids or (), vocabulary), soft_wrap=True)


def _candidate(number: int, candidate: Candidate, ids: Sequence[int], vocabulary: Vocabulary) -> Text:
    closes = candidate.count_difference
    counted = "no count" if closes is None else "its count closes" if closes == 0 else f"its count is {closes:+d} off"
    page = Text.assemble((f"\nCandidate {number}", "bold"), f": {candidate.convention}; {counted}")
    places = differences(ids, candidate.output_ids)
    for place in places[:_MOST_DIFFERENCES]:
        page.append(f"\n  {difference_in_words(place, ids, vocabulary)}")
    if len(places) > _MOST_DIFFERENCES:
        page.append(f"\n  … and at {len(places) - _MOST_DIFFERENCES} more places")
    return page


def _legend(tokens: int, coloured: bool, differing: bool, surprising: bool) -> str:
    boundaries = "the shades change" if coloured else "dots stand"
    marked = f" Candidates differ where tokens are {'highlighted' if coloured else 'in [ ]'}, or at ▲."
    disliked = f" The target would rather have others where tokens are {'red' if coloured else 'between ! and !'}."
    return (
        f"{tokens:,} output tokens; {boundaries} at their boundaries; ⏎ is a line break, ⇥ a tab.{marked * differing}"
        f"{disliked * surprising}\n"
    )


def _print_pairs(title: str, pairs: Mapping[str, Any], console: Console) -> None:
    known = {name: value for name, value in pairs.items() if value is not None}
    if not known:
        return
    table = Table(box=SIMPLE, show_header=False, show_edge=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in known.items():
        table.add_row(name, Text(f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)))
    console.print(Text(title, "bold"), soft_wrap=True)
    console.print(table)
    console.print()
