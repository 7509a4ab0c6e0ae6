"""The manifest of an export: what is in each file, what it was made from, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from eagle_assets import __version__
from eagle_assets.lake.audit import Audit, Published, read_record, sha256_of
from eagle_assets.targets.target import Target
from eagle_assets.training.exports.aside import FinishedFile
from eagle_assets.training.exports.planned_files import PlannedFile
from eagle_assets.training.exports.request import ExportRequest
from eagle_assets.training.exports.selection import Selection
from eagle_assets.training.exports.vocabulary_files import ExportVocabulary

MANIFEST = "manifest.json"


def manifest_of(
    request: ExportRequest,
    plan: str,
    target: Target,
    selections: Sequence[Selection],
    planned: Sequence[PlannedFile],
    files: Mapping[str, FinishedFile],
    vocabulary: ExportVocabulary,
) -> dict[str, Any]:
    """Everything but the manifest's own hash; nothing in it depends on when or where the export was made."""
    of_name = {file.name: file for file in planned}
    return {
        "format": request.format,
        "plan": plan,
        "made_by": f"eagle-assets {__version__}",
        "target": {
            "model": target.name,
            "vocabulary_size": target.vocabulary.size,
            "vocabulary_sha256": target.vocabulary.sha256,
        },
        "options": request.options(),
        "rows": sum(file.rows for file in planned),
        "tokens": sum(file.tokens for file in planned),
        "generated_tokens": sum(file.generated_tokens for file in planned),
        "longest": max(int(s.lengths[s.copies > 0].max(initial=0)) for s in selections),
        "loss_mask": "1 exactly on generated tokens, 0 on the prompt; not shifted",
        "input_ids_sha256": "SHA-256 of the ids of a row as little-endian 32-bit integers, end to end",
        "datasets": {s.dataset: _dataset(s) for s in selections},
        "draft_vocabulary": vocabulary.summary(),
        "files": [
            {"name": name, "sha256": file.sha256, "bytes": file.bytes}
            | (_contents(of_name[name]) if name in of_name else {})
            for name, file in sorted(files.items())
        ],
    }


def is_complete(folder: Path, plan: str) -> bool:
    """Whether `folder` holds just the export of this plan, every file as it was written."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes())
        files = {file["name"]: file["sha256"] for file in manifest["files"]}
        there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        return (
            manifest["plan"] == plan
            and there == {*files, MANIFEST}
            and all(sha256_of(folder / name) == digest for name, digest in files.items())
        )
    except (FileNotFoundError, msgspec.DecodeError, KeyError, TypeError):
        return False


def _contents(file: PlannedFile) -> dict[str, Any]:
    return {
        "split": file.split,
        "datasets": file.datasets,
        "rows": file.rows,
        "tokens": file.tokens,
        "generated_tokens": file.generated_tokens,
    }


def _dataset(selection: Selection) -> dict[str, Any]:
    taken = selection.copies > 0
    exact = int((taken & selection.exact).sum())
    consistent = int(taken.sum()) - exact
    sequences = _audit_behind(selection.published, "token_sequences")
    made_from = (made.stage for made in selection.published.audit.inputs)
    verdicts = _audit_behind(selection.published, next(made_from, "token_sequences"))
    responses = _audit_behind(selection.published, "raw_responses")
    error = _number(sequences, "residual_error_below_limit", "residual_error")
    return {
        "rows": int(selection.copies.sum()),
        "sequences": int(taken.sum()),
        "tokens": int((selection.copies * selection.lengths).sum()),
        "generated_tokens": int((selection.copies * selection.generated).sum()),
        "evaluation_rows": int((taken & selection.evaluation).sum()),
        "verdicts": {"exact": exact, "consistent": consistent},
        "left_out": dict(sorted(selection.left_out.items())),
        "expected_error": {
            "of_a_consistent_sequence": error,
            "sequences_wrong_at_most_about": None if error is None else error * consistent,
        },
        "spent_usd": responses.counts.get("spent_usd") if responses else None,
        "responses": _counts(verdicts, ("exact", "consistent", "unverified", "contradicted", "unusable")),
        "shards": {
            "identity": selection.published.audit.identity,
            "made_by": f"eagle-assets {selection.published.audit.code_version}",
            "vocabulary_sha256": selection.published.audit.vocabulary,
            "files": {file.name: file.sha256 for file in selection.published.audit.files},
        },
    }


def _audit_behind(published: Published, stage: str) -> Audit | None:
    return read_record(published.home, stage, published.audit.dataset).published


def _number(audit: Audit | None, check: str, name: str) -> float | None:
    found = [c.numbers.get(name) for c in audit.checks if c.name == check] if audit else []
    return found[0] if found else None


def _counts(audit: Audit | None, names: Sequence[str]) -> dict[str, int]:
    return {name: int(audit.counts[name]) for name in names if name in audit.counts} if audit else {}
