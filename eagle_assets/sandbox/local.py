"""The packaged local datasets, B1 and B2: prompts answered with ids, as the team's own SGLang server returns them.

`python -m eagle_assets.sandbox.local` writes `responses/B1.jsonl` and `B2.jsonl` anew from the prompts beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eagle_assets.sandbox.outputs import true_output
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import prompt_ids

RESPONSES = Path(__file__).parent.parent / "responses"
LOCAL_DATASETS = ("B1", "B2")
MODEL = "moonshotai/kimi-k2.5"


def local_rows(dataset: str) -> Iterator[dict[str, Any]]:
    """A row for each prompt of the dataset; `text` is what the server shows, without the stop token."""
    target = target_named(MODEL)
    for line in (RESPONSES / f"{dataset}_prompts.jsonl").read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)
        request = {"model": MODEL, "messages": prompt["messages"], **prompt.get("params", {})}
        if "tools" in prompt:
            request["tools"] = prompt["tools"]
        ids = true_output(request)
        stopped = ids[-1] == target.markers.stop
        yield {
            "prompt_id": prompt["prompt_id"],
            "prompt_ids": prompt_ids(target, request),
            "output_ids": ids,
            "finish_reason": "stop" if stopped else "length",
            "text": target.vocabulary.decode(ids[:-1] if stopped else ids).decode(errors="replace"),
        }


def write_local_responses() -> None:
    for dataset in LOCAL_DATASETS:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in local_rows(dataset))
        (RESPONSES / f"{dataset}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write_local_responses()
