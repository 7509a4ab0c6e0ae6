"""`eagle-assets calibrate`: files into a calibration, shown as a table, explained for a provider on request."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import track

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.names import plain_name
from eagle_assets.reconstruction.console.calibration_page import (
    SeenAt,
    calibration_table,
    edges_to_show,
    explanation_page,
    row_of,
    words_at_edges,
)
from eagle_assets.reconstruction.console.conclusion import NO_LINES
from eagle_assets.reconstruction.console.explain import GroupExplanation, explain
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import exchanges_in, read_calibration, write_calibration
from eagle_assets.reconstruction.reconstruct import calibrate_seen, seen_in


class NothingToShow(ValueError):
    """The files hold nothing of what was asked for; one sentence that says what they hold."""


def calibrate_files(
    files: Sequence[Path], output: Path | None, provider: str | None, as_json: bool, judged: Path | None
) -> None:
    """Learn a calibration from `files`, keep it in `output`, and print it. What the target model decided is taken from
    the calibration in `judged`. Raises NothingToShow, CalibrationError and OSError."""
    seen = list(seen_in(_exchanges(files, "calibrating")))
    observed = [of_one.observation for of_one in seen if of_one.observation is not None]
    if not observed:
        if all(exchange.malformed is not None for exchange in exchanges_in(files)):
            raise NothingToShow(NO_LINES)
        raise NothingToShow(
            f"no response in {_named(files)} has a text with a count of its tokens, so nothing can be learnt from it"
        )
    calibration = calibrate_seen(seen, {} if judged is None else read_calibration(judged).decided)
    if output is not None:
        write_calibration(calibration, output)
    explanations = explain(calibration, observed)
    explained = [] if provider is None else _of_provider(explanations, provider, files)
    words = _words(explained, files)
    if as_json:
        rows = [row_of(explanation, explanation in explained, words) for explanation in explanations]
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(calibration_table(explained or explanations))
    for explanation in explained:
        console.print(explanation_page(explanation, words), highlight=False, soft_wrap=True)
    if output is not None:
        use = f"eagle-assets reconstruct IN -o OUT --calibration {output}"
        console.print(f"The calibration is kept. To use it: {use}", highlight=False, soft_wrap=True)


def _of_provider(
    explanations: Sequence[GroupExplanation], provider: str, files: Sequence[Path]
) -> list[GroupExplanation]:
    found = [e for e in explanations if plain_name(e.group.provider) == plain_name(provider)]
    if not found:
        names = ", ".join(dict.fromkeys(e.group.provider for e in explanations))
        raise NothingToShow(f"{_named(files)} has no counted response of {provider}; there are some of {names}")
    return found


def _words(explained: Sequence[GroupExplanation], files: Sequence[Path]) -> SeenAt:
    """The words at the edges that the explanations name, read from the files once more."""
    wanted = edges_to_show(explained)
    if not wanted:
        return {}
    return {
        (exchange.exchange_id, edge): word
        for exchange in _exchanges(files, "explaining")
        if exchange.exchange_id in wanted
        for reading in [read(exchange)]
        if not reading.unusable and reading.situation is not None
        for edge, word in words_at_edges(reading, wanted[exchange.exchange_id])
    }


def _exchanges(files: Sequence[Path], title: str) -> Iterator[Exchange]:
    errors = Console(stderr=True)
    return iter(track(exchanges_in(files), title, console=errors, transient=True, disable=not errors.is_terminal))


def _named(files: Sequence[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"these {len(files)} files"
