"""The draft vocabulary of an export, in the files that each trainer loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eagle_assets.export_options import Format
from eagle_assets.targets.target import Markers
from eagle_assets.training.draft_vocabulary import Counts, DraftVocabulary, choose_draft_vocabulary, coverage_curve
from eagle_assets.training.exports.torch_file import write_arrays, write_counts


@dataclass(frozen=True)
class ExportVocabulary:
    """The mapping for the training rows of an export, and how often each id was generated in each dataset's."""

    draft: DraftVocabulary
    counts: Mapping[str, Counts]
    markers: Markers

    @classmethod
    def choose(cls, counts: Mapping[str, Counts], markers: Markers, size: int) -> ExportVocabulary:
        """Raises as `choose_draft_vocabulary`."""
        return cls(choose_draft_vocabulary(_total(counts), markers, size), counts, markers)

    def writers(self, form: Format) -> dict[str, Callable[[Path], object]]:
        """The files of a format by name, each with what writes it."""
        draft, size = self.draft, self.draft.d2t.size
        writers: dict[str, Callable[[Path], object]] = {}
        if form != "specforge":
            writers[f"d2t-{size}.npy"] = lambda path: _save(path, draft.d2t)
            writers[f"t2d-{size}.npy"] = lambda path: _save(path, draft.t2d)
            writers["token_freq.pt"] = lambda path: write_counts(path, _as_dict(_total(self.counts)))
        if form != "speculators":
            writers["vocab_mapping.pt"] = lambda path: write_arrays(path, {"d2t": draft.d2t, "t2d": draft.t2d})
        return writers

    def summary(self) -> dict[str, Any]:
        """Coverage, over all and by dataset, and as it would be at other sizes."""
        return {
            "size": self.draft.d2t.size,
            "generated_tokens": int(_total(self.counts).sum()),
            "coverage": self.draft.coverage,
            "coverage_by_dataset": {
                dataset: float(counts[self.draft.t2d].sum() / max(counts.sum(), 1))
                for dataset, counts in self.counts.items()
            },
            "coverage_at_size": {
                str(n): share for n, share in coverage_curve(_total(self.counts), self.markers).items()
            },
        }


def _total(counts: Mapping[str, Counts]) -> Counts:
    return np.sum(list(counts.values()), axis=0, dtype=np.int64)


def _as_dict(counts: Counts) -> dict[int, int]:
    generated = np.flatnonzero(counts)
    return dict(zip(generated.tolist(), counts[generated].tolist(), strict=True))


def _save(path: Path, array: npt.NDArray[Any]) -> None:
    with path.open("wb") as file:  # np.save would add an ending to the name
        np.save(file, array)
