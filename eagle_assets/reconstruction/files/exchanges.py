"""Files of exchanges in, files of verdicts out, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from eagle_assets.durability import write_atomically
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import read_exchange_line
from eagle_assets.openrouter.tolerant_json import parse_json
from eagle_assets.openrouter.values import as_dict, as_text
from eagle_assets.reconstruction.calibrating.calibration import Calibration, GroupCalibration
from eagle_assets.reconstruction.calibrating.losses import Departed, Rate, Rates
from eagle_assets.reconstruction.files.errors import CalibrationError
from eagle_assets.reconstruction.files.lines import lines_of
from eagle_assets.reconstruction.places import IndexRisk, Place
from eagle_assets.reconstruction.prompts import PromptCalibration, PromptGroup

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some editors put ahead of a file


class _CalibrationFile(msgspec.Struct):
    groups: tuple[GroupCalibration, ...]
    prompts: tuple[PromptGroup, ...]
    index_shifts: dict[IndexRisk, Rate]
    written: dict[str, dict[Place, Rates]]
    departed: dict[str, Departed]


def exchanges_in(paths: Iterable[Path]) -> Iterator[Exchange]:
    """The exchange of each line of the files, in order; blank lines are none.

    A malformed line is an exchange without an answer; one that does not say its name is called after its place."""
    for place, order, line in lines_of(paths):
        yield exchange_of_line(line, place, order)


def exchange_of_line(line: bytes, place: str, order: int = 0) -> Exchange:
    """The exchange that a line holds; what is malformed becomes one that says what is wrong.

    `order` is the line's number among all lines.
    """
    line = line.removeprefix(_BYTE_ORDER_MARK)
    try:
        return read_exchange_line(line, order, place)
    except ValueError as error:
        return Exchange(_named(line) or place, "", None, None, {}, b"", malformed=f"malformed line {place}: {error}")


def _named(line: bytes) -> str | None:
    """The id that a malformed line has all the same."""
    try:
        return as_text(as_dict(parse_json(line)).get("exchange_id"))
    except ValueError:
        return None


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Keep a calibration as JSON, for `read_calibration`: of a provider that changed, what holds at the end."""
    written = {model: dict(edges) for model, edges in calibration.written.items()}
    prompts = tuple(calibration.prompts.groups.values())
    file = _CalibrationFile(
        tuple(calibration.groups.values()),
        prompts,
        dict(calibration.index_shifts),
        written,
        dict(calibration.departed),
    )
    write_atomically(path, msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")


def read_calibration(path: Path) -> Calibration:
    """A calibration that was kept; raises CalibrationError."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_CalibrationFile)
    except (OSError, msgspec.DecodeError) as error:
        raise CalibrationError(f"{path} is no calibration file: {error}") from None
    return Calibration(
        groups={(g.model, g.provider, g.streamed): g for g in file.groups},
        prompts=PromptCalibration({(g.model, g.provider): g for g in file.prompts}),
        index_shifts=file.index_shifts,
        written=file.written,
        departed=file.departed,
    )
