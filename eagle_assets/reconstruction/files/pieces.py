"""What a worker does with lines of a file: say what calibration needs to know of them, and judge them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pickle import loads
from typing import NamedTuple

import msgspec

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.files.exchanges import exchange_of_line
from eagle_assets.reconstruction.files.lines import Line, Span, lines_in
from eagle_assets.reconstruction.files.summary import Summary
from eagle_assets.reconstruction.reconstruct import Seen, reconstruct_weighed, seen_in
from eagle_assets.reconstruction.weighing import Weights


class Judged(NamedTuple):
    """The lines of the verdicts on a span of lines, their summary, and the bytes that were read."""

    verdicts: bytes
    summary: Summary
    read: int


def look_at(spans: Sequence[Span]) -> list[Seen]:
    """What the lines of some spans, each of one line, say to calibration. A sample is read again where it is wanted."""
    places = {span.order: span for span in spans}
    found = []
    for seen in seen_in(map(_exchange_of, lines_in(spans))):
        if seen.sample is not None:
            kind, give = seen.sample
            seen = seen._replace(sample=(kind, partial(_exchange_at, places[int(give().order)])))
        found.append(seen)
    return found


def judge_span(span: Span, pickled_calibration: bytes) -> Judged:
    """The verdicts on the lines of a span, under a calibration that is the same for many of them."""
    encode = msgspec.json.Encoder().encode
    summary, verdicts, read = Summary(), [], 0

    def counted(lines: Iterable[Line]) -> Iterator[Exchange]:
        nonlocal read
        for line in lines:
            read += len(line.text)
            yield _exchange_of(line)

    for reconstruction in reconstruct_weighed(counted(lines_in([span])), _weights(pickled_calibration)):
        summary.add(reconstruction)
        verdicts.append(encode(reconstruction.to_dict()))
    return Judged(b"\n".join((*verdicts, b"")), summary, read)


def _exchange_at(span: Span) -> Exchange:
    return _exchange_of(next(lines_in([span])))


def _exchange_of(line: Line) -> Exchange:
    return exchange_of_line(line.text, line.place, line.order)


@lru_cache(maxsize=1)
def _weights(pickled_calibration: bytes) -> Weights:
    return Weights(loads(pickled_calibration))
