"""What everybody does: encode the text as it stands. Kept here only to be compared with."""

from __future__ import annotations

from pathlib import Path

import duckdb

from eagle_assets.demo.score import TRUTH
from eagle_assets.lake.home import Home
from eagle_assets.openrouter.response import Response
from eagle_assets.openrouter.wire import read_response
from eagle_assets.reconstruction.stored import exchange_of_row
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.target import Target

_ANSWERED = f"""
SELECT raw_responses.*, true_ids
FROM raw_responses
JOIN {TRUTH} USING (exchange_id)
WHERE outcome = 'answered'
"""


def naively_right(home: Home, truth_file: Path) -> tuple[int, int]:
    """How many answers come out right when their text is encoded as it stands, and how many answers there are."""
    with duckdb.connect(home.catalogue, read_only=True) as connection:
        rows = connection.sql(_ANSWERED, params={"truth": str(truth_file)}).to_arrow_table().to_pylist()
    right = 0
    for row in rows:
        exchange = exchange_of_row(row)
        target = target_named(exchange.model)
        ids = encoded_as_it_stands(read_response(exchange), target, target.thinks(exchange.request))
        right += ids == row["true_ids"]
    return right, len(rows)


def encoded_as_it_stands(response: Response, target: Target, thinks: bool) -> list[int]:
    """Reasoning, `</think>`, content, tool section and stop token, each text encoded as it was received."""
    encode, markers = target.vocabulary.encode, target.markers
    ids = [*encode(response.reasoning or ""), markers.think_end] if thinks else []
    ids += encode(response.content or "")
    if response.tool_calls:
        ids.append(markers.section_begin)
        for call in response.tool_calls:
            ids += [markers.call_begin, *encode(call.id or ""), markers.argument_begin]
            ids += [*encode(call.arguments or ""), markers.call_end]
        ids.append(markers.section_end)
    return ids if response.finish_reason == "length" else [*ids, markers.stop]
