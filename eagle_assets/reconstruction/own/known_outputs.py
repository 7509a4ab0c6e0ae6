"""The team's own outputs, whose true ids are known: which to take, and the request that each answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from eagle_assets.lake.parquet import rows_at
from eagle_assets.serving.convention import name_in
from eagle_assets.serving.output import Ids, NotInGrammar, Output, parse_output
from eagle_assets.serving.served import Situation
from eagle_assets.targets.target import Target

Row = TypeVar("Row")

MOST_OUTPUTS = 500
"""Outputs of a dataset that are tried, evenly spread over it."""


@dataclass(frozen=True, slots=True)
class KnownOutput:
    """An output with its true ids, and the prompt that it answers."""

    prompt_ids: Sequence[int]
    output_ids: list[int]


def known_outputs(sequences: Iterable[Mapping[str, Any]]) -> list[KnownOutput]:
    """The `exact` ones of these rows of TOKEN_SEQUENCES of a local dataset."""
    return [KnownOutput(row["prompt_ids"], row["output_ids"]) for row in sequences if row["verdict"] == "exact"]


def some_of(rows: Iterable[Row], total: int, most: int = MOST_OUTPUTS) -> Iterator[Row]:
    """At most `most` of the `total` rows, evenly spread over them."""
    wanted = set(evenly_spread(total, most))
    return (row for position, row in enumerate(rows) if position in wanted)


def rows_to_try(batches: Iterable[pa.RecordBatch], total: int) -> Iterator[dict[str, Any]]:
    """The rows of the outputs to try, of `total` in order.

    They are taken from the first of them, up to a number of three binary digits: as long as the dataset grows by little
    they stay the same, and what was made of them need not be made again.
    """
    settled = total - total % (1 << max(0, total.bit_length() - 3))
    return rows_at(batches, np.fromiter(evenly_spread(settled, MOST_OUTPUTS), np.int64))


def evenly_spread(total: int, most: int) -> Iterator[int]:
    """At most `most` positions among `total`."""
    number = min(total, most)
    return (i * total // number for i in range(number))


def request_of(known: KnownOutput, target: Target) -> dict[str, Any]:
    """What of the request the ids still show. The schemas of tools are not read back, so none is declared."""
    markers = target.markers
    request: dict[str, Any] = {"model": target.name}
    if not _thinks(known, target):
        request["reasoning"] = {"enabled": False}
    calls = list(known.prompt_ids).count(markers.call_begin)
    if calls:
        request["messages"] = [{"role": "assistant", "tool_calls": [{}] * calls}]
    names = _called(known, target)
    if names or calls or _declares_tools(known.prompt_ids, target):
        named = names or ["declared"]
        request["tools"] = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in named]
    return request


def _thinks(known: KnownOutput, target: Target) -> bool:
    if target.thinking != "switchable":
        return target.thinking == "always"
    return target.markers.think_begin in (*known.prompt_ids[-1:], *known.output_ids[:1])


def _declares_tools(prompt_ids: Sequence[int], target: Target) -> bool:
    head = [target.vocabulary.special_id("<|im_system|>"), *target.vocabulary.encode("tool_declare")]
    return any(list(prompt_ids[i : i + len(head)]) == head for i, token in enumerate(prompt_ids) if token == head[0])


def _called(known: KnownOutput, target: Target) -> list[str]:
    output = parsed(known, target)
    calls = () if output is None else output.calls
    headers = (target.vocabulary.decode(call.header).decode("utf-8", "replace") for call in calls)
    return list(dict.fromkeys(name_in(header.strip()) for header in headers))


def parsed(known: KnownOutput, target: Target) -> Output[Ids] | None:
    """The output by the grammar; None where it is none of it."""
    try:
        return parse_output(known.output_ids, Situation(target, _thinks(known, target)))
    except NotInGrammar:
        return None
