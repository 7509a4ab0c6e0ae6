"""The demo's closing page, for somebody who has not read anything yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from eagle_assets.demo.judge import DATASETS_FILE
from eagle_assets.demo.score import VerdictScore, false_exact
from eagle_assets.reconstruction.console.reasons_in_words import VERDICT_IN_WORDS, reason_in_words
from eagle_assets.reconstruction.verdict import TRUSTED, VERDICTS


def closing_page(
    overview: Sequence[Mapping[str, Any]],
    providers: Sequence[Mapping[str, Any]],
    scores: Mapping[str, VerdictScore],
    naive: tuple[int, int],
    blind: Sequence[Mapping[str, Any]],
    doubtful: Sequence[Mapping[str, Any]],
    met: Iterable[str],
    judged: Iterable[RenderableType],
    home: Path,
    truth_file: Path,
) -> Iterator[RenderableType]:
    """The parts of the page in order. `overview` and `providers` are the rows of the ready queries of these names, as
    `blind` of `blind_error`, `doubtful` of `may_be_wrong`; `naive` are the answers that come out right when their text
    is encoded as it stands, and all answers; `met` are the sentences of `incidents`, `judged` the parts
    of the judge's section.
    """
    of_judge = list(judged)
    yield Rule("What came of each dataset")
    yield _overview(overview)
    yield _note(_of_datasets(overview))
    yield Rule("What it met on the way")
    for sentence in met:
        yield Padding(Text(f"• {sentence}"), (0, 0, 0, 2))
    yield Text()
    yield Rule("The verdicts against the truth")
    yield _note(_of_scores(overview, scores))
    yield _scores(scores)
    yield _judgement(scores)
    yield _note(
        f"For comparison: encoding the same {naive[1]:,} texts as they stand gives the true ids for {naive[0]:,} of "
        f"them ({naive[0] / max(naive[1], 1):.1%}), and does not say for which."
    )
    if blind:
        yield Rule("And where nobody knows the truth")
        yield _note(_what_may_be_wrong(blind, doubtful, by_evidence_alone=not of_judge))
    yield from of_judge
    yield Rule("The providers")
    yield _providers(providers)
    yield _note(_not_trusted(scores))
    yield Rule("Where everything lies")
    yield _aligned(
        {
            f"{home}/training_shards/": "what a trainer reads: input_ids and loss_mask",
            f"{home}/exports/": "the shards as the trainer speculators takes them",
            f"{home}/token_sequences/": "ids, verdict, reasons and evidence of every response",
            f"{home}/raw_responses/": "every response as it came, byte for byte",
            f"{home}/draft_vocabulary/": "token frequencies, d2t and t2d",
            f"{home}/report.html": "all of this on one page, with responses token by token",
            f"{home}/eagle.duckdb": "all of it as tables, for any DuckDB client",
            str(truth_file): "the true ids, which the pipeline never read",
        }
    )
    yield Rule("Try next")
    here = f"EAGLE_ASSETS_HOME={home}" + (f" EAGLE_ASSETS_DATASETS={home}/{DATASETS_FILE}" if of_judge else "")
    yield _on_lines_of_their_own(
        {
            f"{here} .venv/bin/eagle-assets query reasons_of_distrust": "why the others were kept out",
            f"{here} make ui": "the lineage in a browser, with every check",
            "OPENROUTER_API_KEY=… make run": "the same for real, within the budget of the datasets file",
        }
    )


def _of_datasets(overview: Sequence[Mapping[str, Any]]) -> str:
    answers, failed = (sum(row[column] or 0 for row in overview) for column in ("answers", "failed_attempts"))
    return (
        "B1 and B2 are from the team's own server, which gave the ids. The others were bought as text from the "
        f"sandbox's providers, and turned back into ids. Each of the {answers:,} answers has a verdict, and so has "
        f"each of the {failed:,} attempts that failed and were asked again. What is exact or consistent is trained on. "
        "Dollars are the sandbox's: nothing was spent."
    )


def _of_scores(overview: Sequence[Mapping[str, Any]], scores: Mapping[str, VerdictScore]) -> str:
    bought = sum(found.responses for found in scores.values())
    given = sum(row["answers"] or 0 for row in overview) - bought
    others = f"; the other {given:,} came with their ids" if given > 0 else ""
    return (
        f"The sandbox knew the ids behind the {bought:,} answers that were bought, and kept them to itself{others}. "
        "Were the verdicts right?"
    )


def _overview(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("dataset", right=("prompts", "answers", *VERDICTS, "tokens to learn", "dollars"))
    columns = ("prompts", "answers", *VERDICTS, "tokens_to_learn", "spent_usd")
    for row in rows:
        table.add_row(row["dataset"], *(_number(row[column], column) for column in columns))
    table.add_section()
    sums = {column: sum(row[column] or 0 for row in rows) for column in columns}
    table.add_row("all", *(_number(sums[column], column) for column in columns), style="bold")
    return table


def _scores(scores: Mapping[str, VerdictScore]) -> Table:
    table = _table("verdict", "which means that", "trained on", right=("responses", "right", "wrong"))
    for verdict, meaning in VERDICT_IN_WORDS.items():
        found = scores.get(verdict, VerdictScore(verdict, 0, 0, 0))
        table.add_row(
            verdict,
            meaning,
            "yes" if verdict in TRUSTED else "no",
            f"{found.responses:,}",
            f"{found.right:,}",
            Text(f"{found.wrong:,}", style="bold red" if verdict == "exact" and found.wrong else ""),
        )
    table.add_section()
    responses, right, wrong = (sum(column) for column in zip((0, 0, 0), *map(_counts, scores.values()), strict=True))
    table.add_row("all", "", "", f"{responses:,}", f"{right:,}", f"{wrong:,}", style="bold")
    return table


def _counts(found: VerdictScore) -> tuple[int, int, int]:
    return found.responses, found.right, found.wrong


def _judgement(scores: Mapping[str, VerdictScore]) -> Text:
    if not scores:
        return Text("No response could be held against the truth: the demo proves nothing.", style="bold red")
    if wrong := false_exact(scores):
        return Text(f"{wrong} responses are called exact and are not: this must never happen.", style="bold red")
    trusted = [scores[verdict] for verdict in TRUSTED if verdict in scores]
    responses, right = sum(s.responses for s in trusted), sum(s.right for s in trusted)
    return Text(
        f"No response is called exact and is not. Of the {responses:,} bought answers that went into the shards, "
        f"{right:,} hold the true ids ({right / max(responses, 1):.1%}).",
        style="bold green",
    )


def _what_may_be_wrong(
    blind: Sequence[Mapping[str, Any]], doubtful: Sequence[Mapping[str, Any]], by_evidence_alone: bool
) -> str:
    """The two measures that a real run has too, and how they belong together."""
    outputs, trusted, right, false = (
        sum(row[column] for row in blind) for column in ("outputs", "trusted", "right", "false_exact")
    )
    measured = (
        "A run for real has two measures in the place of the table above. Tried blind: the outputs of B1 and B2, "
        f"whose ids are known, were turned into {outputs:,} texts, in {len(blind)} ways that servers have, and turned "
        f"back from these alone. Of {trusted:,} that were trusted {right:,} came back right "
        f"({right / max(trusted, 1):.1%}); of those called exact {false or 'none'} was wrong."
    )
    stated = [row for row in doubtful if row["most"] is not None]
    if not stated:
        return measured
    least, most, bought, expected = (
        sum(row[column] for row in stated) for column in ("least", "most", "trusted", "expected")
    )
    ahead = "" if by_evidence_alone else " before the target was asked"
    number = f"between {least:,} and {most:,}" if least else f"at most {most:,}"
    return (
        f"{measured} By evidence: the verdicts of the {bought:,} bought answers that were trusted{ahead} state errors "
        f"that add up to {expected:,.1f} wrong ones; {number} may be, which is a bound for each dataset at 95 %, added "
        "up, and so wide because a few answers of a provider exclude little. It narrows with each answer more."
    )


def _not_trusted(scores: Mapping[str, VerdictScore]) -> str:
    doubted = [found for verdict, found in scores.items() if verdict not in TRUSTED]
    right, responses = sum(found.right for found in doubted), sum(found.responses for found in doubted)
    return (
        f"What is not trusted is not lost: {right:,} of the {responses:,} answers that are kept out are right, and "
        "nothing in them shows which. More answers of a provider settle how it serves, and lower the errors that are "
        "stated; a higher `max_residual_error` in the datasets file lets those in that are held back; the target model "
        "itself as a judge (`make demo JUDGE=1`) settles others."
    )


def _providers(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("provider", right=("responses", "trusted", "share"))
    table.add_column("what speaks most often against the others", overflow="fold")
    for row in rows:
        table.add_row(
            row["provider"],
            f"{row['sequences']:,}",
            f"{row['trusted']:,}",
            f"{row['trusted_percent']:.0f} %",
            Text(reason_in_words(reason) if (reason := row["most_frequent_reason"]) else ""),
        )
    return table


def _table(*left: str, right: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in left:
        table.add_column(name, no_wrap=name in ("dataset", "verdict", "provider"))
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _aligned(meanings: Mapping[str, str]) -> RenderableType:
    grid = Table.grid(padding=(0, 3, 0, 0))
    for thing, meaning in meanings.items():
        grid.add_row(Text(thing, style="bold"), Text(meaning, style="dim"))
    return Padding(grid, (1, 0, 1, 2))


def _on_lines_of_their_own(meanings: Mapping[str, str]) -> RenderableType:
    """Commands, so that they can be copied."""
    lines = Text()
    for command, meaning in meanings.items():
        lines.append(f"{command}\n", style="bold")
        lines.append(f"    {meaning}\n", style="dim")
    return Padding(lines, (1, 0, 0, 2))


def _note(text: str) -> RenderableType:
    return Padding(Text(text, style="dim"), (0, 0, 1, 0))


def _number(value: float | None, column: str) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if column == "spent_usd" else f"{value:,}"
