"""A response to be shown: looked for in a file or in the home, with its verdict and what else is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from eagle_assets.lake.audit import Published, read_record
from eagle_assets.lake.home import Home
from eagle_assets.lake.version import last_good
from eagle_assets.openrouter.journal_reader import journaled_datasets, open_journal
from eagle_assets.reconstruction.files.exchanges import exchanges_in
from eagle_assets.reconstruction.own.local import OWN, sequence_row
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.sequences import calibrate_rows, sequence_rows
from eagle_assets.reconstruction.stored import row_of_record
from eagle_assets.reconstruction.verdict import Candidate, Verdict
from eagle_assets.targets.kimi import target_named


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
    if row is None:
        raise _not_found(exchange_id, raw, home)
    by_target = None if refused else _by_target(row, home, verdict_stage)
    return _shown(row, raw, refused, by_target)


def _not_found(exchange_id: str, raw: Mapping[str, Any] | None, home: Home) -> NotFound:
    if raw is not None:
        return NotFound(
            f"exchange {exchange_id} of {raw['dataset']} is collected but not judged yet; "
            f"run: eagle-assets run {raw['dataset']} --until token_sequences"
        )
    datasets = home.audited_datasets("token_sequences")
    where = f"token_sequences of {', '.join(datasets)}" if datasets else "token_sequences, of which there is none yet,"
    return NotFound(
        f"no exchange {exchange_id} in {where} under {home.root}; to list ids: eagle-assets query exchanges"
    )


def _by_target(row: Mapping[str, Any], home: Home, verdict_stage: str) -> dict[str, Any] | None:
    """The row of JUDGED_SEQUENCES about a row of TOKEN_SEQUENCES; it says nothing of another verdict."""
    if verdict_stage != "judged_sequences":
        return None
    judged = _find_row(row["exchange_id"], home, verdict_stage)
    return judged if judged is not None and judged["verdict_before"] == row["verdict"] else None


def _shown(
    row: Mapping[str, Any], raw: Mapping[str, Any] | None, refused: str | None, by_target: Mapping[str, Any] | None
) -> Shown:
    """Of a row of TOKEN_SEQUENCES, and where there are any of RAW_RESPONSES and of JUDGED_SEQUENCES; `refused` is the
    stage because of which it was judged just now."""
    last = row if by_target is None else by_target
    facts = {
        "from": f"{last['dataset']}, prompt {last['prompt_id']}",
        "judged": f"just now, because {refused} did not pass its audit" if refused else None,
        "before the target": None if by_target is None else f"{row['verdict']}; {_liking(by_target)}",
        "model": last["model"],
        "provider": last["provider"],
        "HTTP status": raw and raw["status"],
        "attempt": raw and raw["attempt"],
        "cost": None if last["cost_usd"] is None else f"${last['cost_usd']:.6f}",
    }
    return Shown(
        last["exchange_id"],
        last["verdict"],
        last["reasons"],
        last["output_ids"],
        [Candidate(**candidate) for candidate in msgspec.json.decode(last["candidates"])],
        msgspec.json.decode(last["evidence"]),
        facts,
        () if by_target is None else by_target["surprising"],
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
