"""What a run met on its way: who was refused, what was asked again, whose budget ended; a sentence for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def incidents(
    calibration: Sequence[Mapping[str, Any]],
    retries: Sequence[Mapping[str, Any]],
    overview: Sequence[Mapping[str, Any]],
    caps: Mapping[str, float],
) -> Iterator[str]:
    """The sentences, from the rows of the ready queries of these names; `caps` are dollars by dataset."""
    refused = [f"{row['provider']} ({row['refused']})" for row in calibration if row["refused"]]
    if refused:
        yield f"Calibration refused {len(refused)} of {len(calibration)} providers, which were never asked: " + (
            f"{' and '.join(refused)}."
        )
    if retries:
        yield _asked_again(retries)
    for row in overview:
        if row["beyond_budget"]:
            yield (
                f"{row['dataset']} may cost ${caps[row['dataset']]:g}, and its buying ended there: {row['answers']} of "
                f"{row['prompts']} prompts were answered for ${row['spent_usd']:.4f}, {row['beyond_budget']} found no "
                "room for their worst case, and what was bought went on into the shards."
            )


def _asked_again(retries: Sequence[Mapping[str, Any]]) -> str:
    causes: Counter[str] = Counter()
    for row in retries:
        causes[_cause(row["status"])] += row["attempts"]
    said = ", ".join(f"{number} × {cause}" for cause, number in causes.most_common())
    without = sum(row["prompts_without_answer"] for row in retries)
    ended = f"all but {without} of these prompts" if without else "each of these prompts"
    return f"{causes.total()} attempts failed on the way ({said}); asked again, {ended} got an answer."


def _cause(status: int | None) -> str:
    if status is None:
        return "no connection"
    return "an error or a cut inside 200" if status == 200 else f"HTTP {status}"
