"""The tokenizer report: everything about a tokenizer that has to hold before its ids are trusted.

This module itself needs the standard library only, so that it can say which package is missing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eagle_assets.targets.environment import Environment, check_environment
from eagle_assets.targets.findings import Gate, Section

GATES = ("vocabulary_is_official", "special_tokens_roundtrip", "full_output_roundtrips", "encoders_agree")
ORIGIN = (
    "The article below is “The Tokenization Investigation That Failed: Reconstructing Exact Token IDs from OpenRouter "
    "Text Responses”, which this project answers: its own script never ran, so what it tried, supposed and warned of "
    "is tried here."
)
_NEEDED_TO_ENCODE = ("numpy", "splintr-rs", "tiktoken")


@dataclass(frozen=True, slots=True)
class TokenizerReport:
    """The gates in the order of `GATES`, the sections behind them, and the environment.

    There are no sections where a package that encodes is missing.
    """

    gates: tuple[Gate, ...]
    sections: tuple[Section, ...]
    environment: Environment

    @property
    def passed(self) -> bool:
        """Whether every gate is open and every package works: whether a run may start."""
        return self.environment.passed and all(gate.passed for gate in self.gates)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        return {
            "passed": self.passed,
            "gates": [asdict(gate) for gate in self.gates],
            "environment": {"passed": self.environment.passed, **asdict(self.environment)},
            "sections": [
                {"title": s.title, "passed": s.passed, "answer": s.answer, "trials": [asdict(t) for t in s.trials]}
                for s in self.sections
            ],
        }

    def to_markdown(self) -> str:
        """The whole report as Markdown tables."""
        lines = ["## Gates", "", "| gate | result | |", "|---|---|---|"]
        lines += [
            f"| `{g.name}` | {'passed' if g.passed else '**FAILED**'} | {_cell(g.sentence)} |" for g in self.gates
        ]
        packages = self.environment.packages
        lines += ["", f"## Environment (Python {self.environment.python})", ""]
        if self.environment.passed:
            lines.append(f"All {len(packages)} packages work: {', '.join(f'{p.name} {p.version}' for p in packages)}.")
        lines += [f"- **{_cell(p.problem or '')}**: `{p.remedy}`" for p in self.environment.problems]
        lines += ["", ORIGIN] if self.sections else []
        for section in self.sections:
            lines += ["", f"## {section.title}", "", section.answer, "", "| tried | result | |", "|---|---|---|"]
            lines += [f"| {_cell(t.tried)} | {_cell(t.result)} | {MARKS[t.as_expected]} |" for t in section.trials]
        return "\n".join(lines) + "\n"


MARKS = {True: "✓", False: "✗", None: ""}


def tokenizer_report(model_dir: Path | None = None, trust_remote_code: bool = False) -> TokenizerReport:
    """Try everything. A model folder's own code runs only with `trust_remote_code`.

    Raises ModelFolderError where `model_dir` holds no tokenizer. Where a package that encodes is missing, no gate
    passes and there are no sections.
    """
    environment = check_environment()
    if not environment.works(*_NEEDED_TO_ENCODE) or (model_dir is not None and not environment.works("transformers")):
        missing = "; ".join(package.problem or "" for package in environment.problems)
        return TokenizerReport(
            tuple(Gate(name, False, f"Not tried: {missing}.", {}) for name in GATES), (), environment
        )

    from eagle_assets.targets import article, assumptions, gates, risks
    from eagle_assets.targets.hard_texts import hard_texts
    from eagle_assets.targets.kimi import kimi_vocabulary
    from eagle_assets.targets.model_folder import agreement_with, folder_section, read_model_folder

    vocabulary = kimi_vocabulary()
    folder = read_model_folder(model_dir, trust_remote_code) if model_dir is not None else None
    agreement = agreement_with(folder, vocabulary, hard_texts()) if folder is not None else None
    return TokenizerReport(
        gates=(
            gates.vocabulary_is_official(vocabulary, folder),
            gates.special_tokens_roundtrip(vocabulary, folder),
            gates.full_output_roundtrips(vocabulary),
            gates.encoders_agree(vocabulary, folder, agreement),
        ),
        sections=(
            article.special_token_roundtrip(vocabulary),
            article.full_output_roundtrip(vocabulary),
            article.boundary_effects(vocabulary),
            risks.blank_normalisation(vocabulary),
            risks.unicode_normalisation(vocabulary),
            risks.escape_sequences(vocabulary),
            risks.very_long_sequences(vocabulary),
            assumptions.tokenizer_is_available(vocabulary, folder.how if folder is not None else None),
            assumptions.reencoding_is_valid(vocabulary),
            assumptions.boundaries_are_the_primary_risk(vocabulary),
            assumptions.special_ids_are_correct(vocabulary),
            *((folder_section(folder, vocabulary, agreement),) if folder is not None else ()),
        ),
        environment=environment,
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
