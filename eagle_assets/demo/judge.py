"""The demo with a judge: a small target model beside the sandbox, and what it changed, held against the truth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from eagle_assets.configuration import PACKAGED_DATASETS_FILE, load_configuration
from eagle_assets.demo.score import TRUTH
from eagle_assets.lake.home import Home
from eagle_assets.reconstruction.verdict import VERDICTS

DATASETS_FILE = "datasets_with_judge.yaml"
"""The packaged datasets file with a judge in it, in the demo's home."""

_CHANGED = f"""
SELECT
    verdict_before,
    j.verdict,
    count(*),
    count(*) FILTER (t.output_ids = true_ids),
    count(*) FILTER (j.output_ids = true_ids)
FROM judged_sequences j
JOIN token_sequences t USING (exchange_id)
JOIN {TRUTH} USING (exchange_id)
GROUP BY ALL
"""

_JUDGED = """
SELECT any_value(counts['proven']), any_value(counts['false_alarms']), any_value(counts['planted']),
    any_value(counts['found_of_planted']), sum(counts['scanned']), sum(counts['repaired']),
    sum(counts['contradicted_by_the_target']), sum(counts['settled']), any_value(counts['false_alarms_expected'])
FROM audits WHERE stage = 'judged_sequences' AND is_current
"""

_FOUND = """
SELECT replace(key, 'found_of_planted ', ''), any_value(value)
FROM (
    SELECT unnest(map_keys(counts)) AS key, unnest(map_values(counts)) AS value
    FROM audits WHERE stage = 'judged_sequences' AND is_current
)
WHERE key LIKE 'found_of_planted %'
GROUP BY ALL
ORDER BY 2 DESC, 1
"""


@contextmanager
def judged_datasets(home: Home) -> Iterator[Path]:
    """The packaged datasets file with a judge in it, who is there for as long as the block."""
    from eagle_assets.sandbox.judge_process import running_judge
    from eagle_assets.sandbox.local import LOCAL_DATASETS, RESPONSES

    configuration = load_configuration(PACKAGED_DATASETS_FILE)
    prompts = [dataset.prompts for dataset in configuration.bought.values()]
    prompts += [RESPONSES / f"{name}_prompts.jsonl" for name in LOCAL_DATASETS]
    with running_judge(prompts) as base_url:
        judge = {"kind": "sglang", "base_url": base_url}
        content = {**configuration.model_dump(mode="json", exclude_defaults=True), "judge": judge}
        file = home.root / DATASETS_FILE
        file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        yield file


def judge_section(home: Home, truth_file: Path) -> Iterator[RenderableType]:
    """The parts of the section on the judge; none where nothing was judged."""
    with duckdb.connect(home.catalogue, read_only=True) as connection:
        changed = connection.execute(_CHANGED, {"truth": str(truth_file)}).fetchall()
        measured = connection.execute(_JUDGED).fetchone()
        kinds = connection.execute(_FOUND).fetchall()
    if not changed or measured is None:
        return
    yield Rule("What the target model changed")
    yield Padding(Text(_INTRODUCTION, style="dim"), (0, 0, 1, 0))
    yield _table(changed)
    proven, false_alarms, planted, found, scanned, repaired, contradicted, settled, expected = measured
    found_of_each = ", ".join(f"{kind} {share:.0%}" for kind, share in kinds)
    yield Padding(
        Text(
            f"Of {int(scanned):,} consistent responses {int(repaired)} were repaired and {int(contradicted)} "
            f"contradicted, and {int(settled)} that were unverified are settled. How far to believe that: of "
            f"{int(proven):,} proven responses {int(false_alarms)} surprise the target, and no more than "
            f"{expected:.1%} of right ones are expected to; of {int(planted):,} errors planted in them {found:.0%} are "
            f"found, each kind weighing alike ({found_of_each}). A single blank ahead of a text, or line break behind "
            "a reasoning, is no surprise to a model that now and then writes one; a provider that puts blanks in is "
            "found out by all of its responses together.",
            style="dim",
        ),
        (0, 0, 1, 0),
    )


_INTRODUCTION = (
    "A small target was trained on what the sandbox's model says to the same questions under other seeds, none of it "
    "an answer that was bought. It was asked how likely it finds the ids of each response. Verdicts before and after, "
    "and how many of them hold the true ids:"
)


def _table(changed: list[tuple[str, str, int, int, int]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("verdict")
    for name in ("before", "right", "wrong", "after", "right", "wrong"):
        table.add_column(name, justify="right")
    for verdict in VERDICTS[:-1]:
        before = [(number, right) for was, _, number, right, _ in changed if was == verdict]
        after = [(number, right) for _, becomes, number, _, right in changed if becomes == verdict]
        cells = []
        for found in (before, after):
            number, right = sum(n for n, _ in found), sum(r for _, r in found)
            cells += [f"{number:,}", f"{right:,}", f"{number - right:,}"]
        table.add_row(verdict, *cells)
    return table
