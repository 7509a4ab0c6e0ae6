"""Files of exchanges into a file of verdicts."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from eagle_assets.durability import written_whole
from eagle_assets.reconstruction.files.exchanges import read_calibration, write_calibration
from eagle_assets.reconstruction.files.pieces import Judged, judge_span, look_at
from eagle_assets.reconstruction.files.sampling import survey
from eagle_assets.reconstruction.files.summary import Summary
from eagle_assets.reconstruction.reconstruct import calibrate_seen
from eagle_assets.reconstruction.workers import Workers

_LINES_AT_ONCE = 32  # that a worker looks at for calibration


def write_verdicts(
    files: Sequence[Path],
    output: Path,
    calibration_file: Path | None,
    save_calibration: Path | None,
    at_work: Workers,
    on_stage: Callable[[str], None],
    on_bytes: Callable[[int], None],
) -> Summary:
    """Write a verdict for each line of `files` to `output`, which appears whole or not at all.

    `on_stage` is told what is done, `on_bytes` how much was judged. Raises CalibrationError and OSError.
    """
    found = survey(files)
    if calibration_file is not None:
        calibration = read_calibration(calibration_file)
    else:
        on_stage("calibrating")
        samples = (found.sample[i : i + _LINES_AT_ONCE] for i in range(0, len(found.sample), _LINES_AT_ONCE))
        calibration = calibrate_seen(seen for part in at_work.map(look_at, samples) for seen in part)
    if save_calibration is not None:
        write_calibration(calibration, save_calibration)
    on_stage("reconstructing")
    judged = at_work.map(partial(judge_span, pickled_calibration=pickle.dumps(calibration)), found.pieces)
    return _write(judged, output, on_bytes)


def _write(judged: Iterable[Judged], output: Path, on_bytes: Callable[[int], None]) -> Summary:
    summary = Summary()
    with written_whole(output) as out:
        for piece in judged:
            out.write(piece.verdicts)
            summary.add_all(piece.summary)
            on_bytes(piece.read)
    return summary
