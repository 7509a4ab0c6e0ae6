"""The checks of `raw_responses`: nothing is lost, nothing was overspent, nobody answered who was not asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eagle_assets.lake.audit import Check
from eagle_assets.openrouter.client import CollectionSummary
from eagle_assets.openrouter.endpoints import Endpoint
from eagle_assets.openrouter.origin import MAX_SHARE_OF_STRAYS, Origin
from eagle_assets.openrouter.totals import in_dollars
from eagle_assets.reconstruction.own.local import response_in

WORST = 10
NANODOLLAR = 1e-9  # the ledger counts in them
ASKED_OF = ("exchange_id", "outcome", "stray", "model", "provider", "request")
_SEEN = pa.schema([("prompt_id", pa.string()), ("outcome", pa.string())])


def every_prompt_is_explained(
    prompt_ids: pa.ChunkedArray, rows: Iterable[pa.RecordBatch], summary: CollectionSummary | None
) -> Check:
    """Whether each prompt has an answer, or a failed attempt with its reason, or was knowingly not asked yet. The rows
    are `prompt_id` and `outcome` of RAW_RESPONSES."""
    seen = pa.Table.from_batches(rows, _SEEN)
    with_answer = seen.filter(pc.equal(seen["outcome"], "answered"))
    answered = pc.sum(pc.is_in(prompt_ids, with_answer["prompt_id"]), min_count=0).as_py()
    unseen = prompt_ids.filter(pc.invert(pc.is_in(prompt_ids, seen["prompt_id"])))
    beyond = min(len(unseen), summary.beyond_budget) if summary is not None else 0
    not_asked = min(len(unseen) - beyond, summary.left) if summary is not None else 0
    without_answer = len(prompt_ids) - answered - len(unseen)
    lost = len(unseen) - not_asked - beyond
    return Check(
        "nothing_lost",
        lost == 0,
        f"of {len(prompt_ids)} prompts {answered} have an answer, {without_answer} a reason why not, "
        f"{not_asked} were not asked yet"
        + (f", {beyond} were not because the budget ended" if beyond else "")
        + (f", and {lost} are lost" if lost else ""),
        {
            "prompts": len(prompt_ids),
            "answered": answered,
            "not_asked_yet": not_asked,
            "beyond_budget": beyond,
            "lost": lost,
        },
        tuple({"prompt_id": prompt_id} for prompt_id in unseen[:WORST].to_pylist()) if lost else (),
    )


def fingerprint(exchange_id: str, body: bytes) -> tuple[str, bytes]:
    """What stands for an exchange where its body is too much to keep."""
    return exchange_id, hashlib.sha256(body).digest()


def differing_rows(read: Iterable[tuple[str, bytes]], written: Iterable[tuple[str, bytes]]) -> list[str]:
    """Exchanges that the written rows do not hold as the journal does; both by their fingerprints, in order."""
    return [(of_journal or of_row)[0] for of_journal, of_row in zip_longest(read, written) if of_journal != of_row]


def nothing_lost(explained: Check, differing: Sequence[str]) -> Check:
    """`explained` holds as far as prompts go; and the rows must be the journal's exchanges, byte for byte."""
    if not differing:
        return explained
    return Check(
        explained.name,
        False,
        f"{len(differing)} exchanges are not here as the journal has them; {explained.sentence}",
        {**explained.numbers, "differing": len(differing)},
        tuple({"exchange_id": exchange_id} for exchange_id in differing[:WORST]),
    )


def spend_within_budget(spent_and_cap: Mapping[str, tuple[float, float]], spent_since_usd: float) -> Check:
    """Whether what was spent is within the caps; or whether they were lowered since, where nothing was spent on this
    dataset since its last good version."""
    over = any(spent > cap for spent, cap in spent_and_cap.values())
    lowered = over and spent_since_usd < NANODOLLAR
    return Check(
        "spend_within_budget",
        not over or lowered,
        "; ".join(f"{name}: ${spent:.4f} of {in_dollars(cap)}" for name, (spent, cap) in spent_and_cap.items())
        + ("; it was spent before the cap was lowered, and nothing was since" if lowered else ""),
        {f"spent_usd_{name.replace(' ', '_')}": spent for name, (spent, _) in spent_and_cap.items()},
    )


def providers_allowed(rows: Iterable[pa.RecordBatch], target: str, endpoints: Sequence[Endpoint] = ()) -> Check:
    """Whether the answers are from whom they were asked, but for few. One by a provider that routing excludes since is
    as one that strays, but no sign that routing does not hold. The rows have the columns ASKED_OF."""
    answers = excluded_since = 0
    strays: list[Mapping[str, Any]] = []
    for batch in rows:
        answers += pc.sum(pc.equal(batch["outcome"], "answered"), min_count=0).as_py()
        for row in batch.filter(pc.is_valid(batch["stray"])).to_pylist():
            asked = Origin.of_request(target, msgspec.json.decode(row["request"]), endpoints)
            if asked.stray(row["model"], row["provider"]) is None:
                excluded_since += 1
            else:
                strays.append(row)
    share = len(strays) / answers if answers else 0.0
    return Check(
        "providers_allowed",
        share <= MAX_SHARE_OF_STRAYS,
        f"{len(strays)} of {answers} answers are not from whom they were asked"
        + (f", such as {strays[0]['stray']}; they are kept, and never trained on" if strays else "")
        + (f"; {excluded_since} are by providers excluded since, and no longer trained on" if excluded_since else ""),
        {"answers": answers, "strays": len(strays), "excluded_since": excluded_since, "share": share},
        tuple({"exchange_id": row["exchange_id"], "reason": row["stray"]} for row in strays[:WORST]),
    )


def ids_are_given(rows: Iterable[dict[str, Any]], base_url: str) -> Check:
    """Whether the team's own server gives the ids of its answers; `rows` are all exchanges with it."""
    reasons = [_why_no_ids(row) for row in rows if row["outcome"] == "answered"]
    without = [reason for reason in reasons if reason is not None]
    share = len(without) / len(reasons) if reasons else 0.0
    given = share <= MAX_SHARE_OF_STRAYS
    named = f" ({without[0]})" if without else ""
    wanted = (
        ""
        if given
        else ": a server is needed that knows `return_token_ids`, such as vLLM from 0.10.2 on or SGLang 0.5.23"
    )
    return Check(
        "providers_allowed",
        given,
        f"{len(without)} of {len(reasons)} answers of {base_url} have no ids{named}{wanted}",
        {"answers": len(reasons), "without_ids": len(without), "share": share},
    )


def _why_no_ids(row: dict[str, Any]) -> str | None:
    try:
        response_in(row)
    except ValueError as error:
        return str(error)
    return None
