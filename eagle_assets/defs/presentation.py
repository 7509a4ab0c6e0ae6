"""How the lineage presents itself: whose it is, where its code lies, when it is out of date, what its pages show."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from eagle_assets.lake.code import digest_of_code
from eagle_assets.openrouter.names import UNNAMED

if TYPE_CHECKING:
    import pyarrow as pa

    from eagle_assets.openrouter.totals import Totals
    from eagle_assets.report.figures import Figures

PICTURES = "pictures, larger"
ENDED_EARLY = "ended early"
LOOKED_AT = ("exchange_id", "provider", "verdict", "reasons")
LIKELIHOODS = ("provider", "surprise", "log_likelihood", "output_ids")
MOST_TO_LOOK_AT = 10
OWNERS = ["team:training-data"]

# Whose code decides what an asset holds: where it changes, what was made before shows as out of date.
ROOMS: dict[str, tuple[str, ...]] = {
    "tokenizer_report": ("targets",),
    "provider_calibration": ("defs/standing.py", "openrouter", "reconstruction", "serving", "targets"),
    "prompts": (
        *("defs/prompt_parts.py", "lake/columns.py", "openrouter/endpoints.py", "openrouter/requests.py"),
        *("reconstruction/own", "targets"),
    ),
    "raw_responses": ("defs/response_parts.py", "openrouter", "reconstruction/own", "reconstruction/stored.py"),
    "token_sequences": ("reconstruction", "serving", "targets", "openrouter"),
    "judged_sequences": ("judge", "reconstruction", "serving", "targets", "openrouter"),
    "training_shards": tuple(f"training/{name}.py" for name in ("shards", "shard_checks", "shard_parts", "ragged")),
    "draft_vocabulary": (
        *("training/draft_vocabulary.py", "training/part_counts.py", "training/ragged.py"),
        *("training/exports/torch_file.py", "export_options.py"),
    ),
    "exports": ("training/exports", "training/draft_vocabulary.py", "training/ragged.py", "export_options.py"),
    "run_statistics": ("lake", "report"),
}

# The view of eagle.duckdb that shows the asset.
VIEWS = {
    "provider_calibration": "calibration",
    "prompts": "prompts",
    "raw_responses": "raw_responses",
    "token_sequences": "token_sequences",
    "judged_sequences": "judged_sequences",
    "training_shards": "training_shards",
    "draft_vocabulary": "token_frequencies",
    "run_statistics": "audits",
}


def presented(assets: Sequence[dg.AssetsDefinition]) -> Sequence[dg.AssetsDefinition]:
    """The assets with owners, versions and links to their code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return list(dg.map_asset_specs(_presented, assets))


def sequences_metadata(figures: Figures, name: str) -> dict[str, Any]:
    """What the page of `token_sequences` shows: verdicts in a table and in pictures, dollars, tokens, rates."""
    from eagle_assets.reconstruction.verdict import TRUSTED
    from eagle_assets.report import glances, pictures
    from eagle_assets.report.lengths import Lengths

    counts = figures.by_verdict
    shown: dict[str, Any] = {
        "at a glance": dg.MetadataValue.md(glances.verdicts(counts)),
        "verdicts": dg.MetadataValue.md(figures.verdict_table()),
        "providers": dg.MetadataValue.md(glances.providers(figures.sorted_verdicts(), TRUSTED)),
        PICTURES: _pictures(
            pictures.verdicts_by(figures.sorted_verdicts(), f"{name}: verdicts by provider"),
            pictures.count_differences(figures.differences(), f"{name}: do the servers' token counts close?"),
            pictures.lengths(Lengths.of(figures.lengths), f"{name}: lengths of the outputs"),
        ),
        "trusted_percent": round(100 * figures.trusted_share, 1),
        "contradicted_percent": round(100 * counts["contradicted"] / max(1, counts.total()), 1),
        "cost_usd": round(figures.cost_usd, 6),
    }
    if figures.usd_per_million_trusted is not None:
        shown["usd_per_million_trusted_tokens"] = round(figures.usd_per_million_trusted, 4)
    if proved := figures.canonical.total():
        shown["non_canonical_percent"] = round(100 * figures.canonical[False] / proved, 2)
    return shown


def to_look_at(batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Some of the responses that are contradicted, else unverified, with what speaks against them; from batches of
    TOKEN_SEQUENCES with LOOKED_AT."""
    import pyarrow.compute as pc

    from eagle_assets.reconstruction.console.reasons_in_words import SPEAK_FOR_THE_IDS, reason_in_words

    found: dict[str, list[dict[str, Any]]] = {"contradicted": [], "unverified": []}
    for batch in batches:
        for verdict, rows in found.items():
            if len(rows) < MOST_TO_LOOK_AT:
                rows += batch.filter(pc.equal(batch["verdict"], verdict)).slice(0, MOST_TO_LOOK_AT).to_pylist()
    records = [
        dg.TableRecord(
            {
                "eagle-assets show": row["exchange_id"],
                "why": f"{row['provider'] or UNNAMED}, {row['verdict']}: "
                + "; ".join(reason_in_words(reason) for reason in row["reasons"] if reason not in SPEAK_FOR_THE_IDS),
            }
        )
        for rows in found.values()
        for row in rows
    ]
    return {"look at these first": dg.MetadataValue.table(records[:MOST_TO_LOOK_AT])} if records else {}


def judged_metadata(batches: Iterable[pa.RecordBatch], name: str) -> dict[str, Any]:
    """What the page of `judged_sequences` shows: by provider, how likely the target finds what it was asked about, and
    by how much it prefers other ids. The batches have the columns LIKELIHOODS."""
    from pyarrow.compute import list_value_length

    from eagle_assets.report import pictures

    nats: dict[str, list[float]] = {}
    sums: dict[str, tuple[float, int]] = {}
    for batch in batches:
        lengths = list_value_length(batch["output_ids"]).to_pylist()
        for row, length in zip(batch.drop_columns(["output_ids"]).to_pylist(), lengths, strict=True):
            if row["surprise"] is not None:
                provider = row["provider"] or UNNAMED
                nats.setdefault(provider, []).append(row["surprise"])
                total, tokens = sums.get(provider, (0.0, 0))
                sums[provider] = total + row["log_likelihood"], tokens + length
    lines = ["| provider | judged | surprising in a place | most nats | nats a token |", "|---|---|---|---|---|"]
    for provider, values in sorted(nats.items()):
        total, tokens = sums[provider]
        surprising, per_token = sum(value > 0 for value in values), total / max(tokens, 1)
        lines.append(f"| {provider} | {len(values)} | {surprising} | {max(values):.1f} | {per_token:.3f} |")
    return {
        "likelihood by provider": dg.MetadataValue.md("\n".join(lines)),
        PICTURES: _pictures(
            pictures.surprises(dict(sorted(nats.items())), f"{name}: does the target prefer other ids?")
        ),
    }


def shards_metadata(row_tokens: Sequence[int], name: str) -> dict[str, Any]:
    """What the page of `training_shards` shows: how long its rows are."""
    from eagle_assets.report import glances, pictures
    from eagle_assets.report.lengths import Lengths

    found = Lengths.of(row_tokens)
    return {
        "at a glance": dg.MetadataValue.md(glances.lengths(found)),
        PICTURES: _pictures(pictures.lengths(found, f"{name}: lengths of the training rows, prompt and output")),
        "longest_row": found.longest,
    }


def vocabulary_metadata(
    counts: Sequence[int], size: int, of_dataset: Mapping[str, float], at_size: Mapping[int, float]
) -> dict[str, Any]:
    """What the page of `draft_vocabulary` shows; `counts` are of each id that was generated, in any order. The shares
    that it covers are of each dataset, and of all of them if it had so many ids."""
    from eagle_assets.report import glances, pictures

    ordered = sorted((int(count) for count in counts), reverse=True)
    share = sum(ordered[:size]) / (sum(ordered) or 1)
    words = f"{size:,} ids cover {share:.2%} of {sum(ordered):,} generated tokens"
    return {
        "at a glance": dg.MetadataValue.md(glances.shares([(words, share)])),
        PICTURES: _pictures(pictures.coverage(ordered, size, "What the draft vocabulary covers, most frequent first")),
        "covered_percent": round(100 * share, 2),
        "covered of each dataset": _shares("dataset", of_dataset),
        "covered if it had so many ids": _shares("ids", {f"{ids:,}": share for ids, share in at_size.items()}),
    }


def spend_metadata(totals: Totals, caps: Mapping[str, float | None], only: Sequence[str] = ()) -> dict[str, Any]:
    """What was spent of each dataset (or `only` these) and of all together, against its cap."""
    from eagle_assets.report import glances, pictures

    rows = [(name, totals.datasets[name], caps.get(name)) for name in only or totals.datasets]
    rows.append(("all datasets", totals.all, totals.budget_usd))
    svg = pictures.spend(
        [pictures.Spend(name, amounts.spent_usd, amounts.reserved_usd, cap) for name, amounts, cap in rows],
        "Dollars spent, against the cap",
    )
    glance = [
        (f"{name}: ${amounts.spent_usd:,.4f} of ${cap:,.2f}", amounts.spent_usd / cap)
        for name, amounts, cap in (rows if only else rows[-1:])
        if cap
    ]
    return {
        "spend at a glance": dg.MetadataValue.md(glances.shares(glance)),
        "picture of the spend": _pictures(svg),
        "left_of_the_whole_budget_usd": totals.all.left_usd,
    }


def _shares(heading: str, shares: Mapping[str, float]) -> dg.MetadataValue:
    lines = [f"| {heading} | covered |", "|---|--:|", *(f"| {name} | {share:.2%} |" for name, share in shares.items())]
    return dg.MetadataValue.md("\n".join(lines))


def _pictures(*svgs: str) -> dg.MetadataValue:
    """Behind a click, because Dagster shows only short Markdown at once."""
    from eagle_assets.report.svg import as_markdown

    return dg.MetadataValue.md("\n\n".join(as_markdown(svg) for svg in svgs))


def _presented(spec: dg.AssetSpec) -> dg.AssetSpec:
    name = spec.key.to_user_string()
    view = {"dagster/relation_identifier": f"eagle.main.{VIEWS[name]}"} if name in VIEWS else {}
    module = dg.LocalFileCodeReference(file_path=str(Path(__file__).with_name(f"{name}.py")), line_number=1)
    return spec.replace_attributes(
        owners=OWNERS,
        code_version=digest_of_code(ROOMS.get(name, ())),
        metadata={
            **spec.metadata,
            **view,
            "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[module]),
        },
    )
