"""What can be wrong with a file: apart, since commands must know it before they load what reads files."""

from __future__ import annotations


class CalibrationError(ValueError):
    """A file is no calibration; one sentence that says which and why."""
