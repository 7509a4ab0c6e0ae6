"""The page in an export folder: for a trainer how to go on from here, for a hub the dataset card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagle_assets.export_options import Format
from eagle_assets.openrouter.totals import in_dollars
from eagle_assets.training.exports.planned_files import PlannedFile
from eagle_assets.training.exports.request import SPLITS


def page(form: Format, manifest: Mapping[str, Any], planned: Sequence[PlannedFile]) -> str:
    """`README.md` of an export."""
    lines = [*_front_matter(manifest, planned)] if form == "huggingface" else []
    lines += [f"# Exact output tokens of {manifest['target']['model']}", "", *_what_it_is(manifest), ""]
    lines += [*_datasets(manifest), "", *_draft_vocabulary(manifest), "", *_how_to_train(form, manifest, planned), ""]
    return "\n".join(lines)


def _front_matter(manifest: Mapping[str, Any], planned: Sequence[PlannedFile]) -> list[str]:
    splits = [split for split in SPLITS if any(file.split == split for file in planned)]
    names = [name for name in manifest["datasets"] if any(name in file.datasets for file in planned)]
    lines = ["---", "configs:"]
    for config, folder in [("default", "dataset=*"), *((name, f"dataset={name}") for name in names)]:
        there = [s for s in splits if any(p.split == s and (config in ("default", *p.datasets)) for p in planned)]
        lines += [f"- config_name: {config}", "  data_files:"]
        for split in there:
            lines += [f"  - split: {split}", f'    path: "{folder}/{split}-*.parquet"']
    return [*lines, "---", ""]


def _what_it_is(manifest: Mapping[str, Any]) -> list[str]:
    options = manifest["options"]
    verdicts = "`exact` alone" if options["min_verdict"] == "exact" else "`exact` and `consistent`"
    return [
        f"{manifest['rows']:,} rows, {manifest['tokens']:,} tokens, of which {manifest['generated_tokens']:,} were "
        f"generated; the longest row has {manifest['longest']:,}. Made by {manifest['made_by']}.",
        "",
        "Each row is a prompt and what the model generated for it, as token ids of the model's own vocabulary "
        f"({manifest['target']['vocabulary_size']:,} ids, SHA-256 `{manifest['target']['vocabulary_sha256']}`). "
        "`loss_mask` is 1 exactly on generated tokens and is not shifted. "
        "An output that was cut off has no stop token.",
        "",
        f"Verdicts in it: {verdicts}. `exact`: the server itself proved the ids, token by token. `consistent`: they "
        "explain everything that was observed, the token count included, and every systematic rival is refuted; the "
        "error that this leaves is stated below.",
    ]


def _datasets(manifest: Mapping[str, Any]) -> list[str]:
    lines = [
        "| dataset | rows | generated tokens | exact | consistent | expected error of a consistent one | spent "
        "| left out |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, dataset in manifest["datasets"].items():
        error, spent = dataset["expected_error"]["of_a_consistent_sequence"], dataset["spent_usd"]
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in dataset["left_out"].items())
        lines.append(
            f"| {name} | {dataset['rows']:,} | {dataset['generated_tokens']:,} | {dataset['verdicts']['exact']:,} "
            f"| {dataset['verdicts']['consistent']:,} | {'not known' if error is None else f'{error:.2%}'} "
            f"| {'nothing' if spent is None else in_dollars(spent)} | {left_out or 'nothing'} |"
        )
    return lines


def _draft_vocabulary(manifest: Mapping[str, Any]) -> list[str]:
    vocabulary = manifest["draft_vocabulary"]
    curve = ", ".join(f"{int(n):,}: {share:.2%}" for n, share in vocabulary["coverage_at_size"].items())
    return [
        f"The draft vocabulary has {vocabulary['size']:,} ids, which cover {vocabulary['coverage']:.2%} of the "
        f"{vocabulary['generated_tokens']:,} generated tokens of the training rows. By size: {curve}.",
    ]


def _how_to_train(form: Format, manifest: Mapping[str, Any], planned: Sequence[PlannedFile]) -> list[str]:
    size, longest = manifest["draft_vocabulary"]["size"], manifest["longest"]
    speculators_end = [
        f"        --output PREPARED --seq-length {longest} --no-skip-token-freq",
        "    speculators train --verifier-name-or-path MODEL --speculator-type eagle3 --data-path PREPARED \\",
        f"        --draft-vocab-size {size} --d2t-path d2t-{size}.npy --t2d-path t2d-{size}.npy …",
        "",
        f"A `--seq-length` below {longest} cuts rows. PREPARED must be a new folder: an old one keeps its rows and its "
        "`token_freq.pt`.",
    ]
    match form:
        case "speculators":
            data = " ".join(f"--data {file.name}" for file in planned if file.split == "train")
            return [
                "In this folder, with speculators installed:",
                "",
                f"    speculators prepare-data --model MODEL {data} \\",
                *speculators_end,
                "",
                "Shuffled rows are joined with `provenance.parquet` by `input_ids_sha256`: " + _digest_in_python(),
            ]
        case "specforge":
            return [
                "In the YAML of `specforge train`, with paths to this folder:",
                "",
                f"    data: {{prompts_path: train.jsonl, max_length: {longest}}}",
                "    model: {vocab_mapping_path: vocab_mapping.pt}",
                "",
                f"A `max_length` below {longest} cuts rows, and drops those without a generated token, without a word. "
                f"The draft model's `draft_vocab_size` is {size}. SpecForge 0.2.0 evaluates offline only, so it does "
                "not read `evaluation.jsonl`.",
                "",
                "Rows are joined with `provenance.parquet` by `input_ids_sha256`: " + _digest_in_python(),
            ]
        case "huggingface":
            return [
                '`datasets.load_dataset(FOLDER)` gives all rows, `load_dataset(FOLDER, "DATASET")` those of one '
                "dataset. speculators reads the folder too:",
                "",
                "    speculators prepare-data --model MODEL --data hf:FOLDER \\",
                *speculators_end,
                "",
                "Shuffled rows are joined by `input_ids_sha256`: " + _digest_in_python(),
            ]


def _digest_in_python() -> str:
    return '`hashlib.sha256(numpy.asarray(input_ids, "<i4").tobytes()).hexdigest()`.'
