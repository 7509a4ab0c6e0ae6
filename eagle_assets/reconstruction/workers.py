"""Judging on all cores: lines of exchanges in, lines of verdicts out, in order, a bounded number under way."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice

import msgspec

from eagle_assets.reconstruction.calibration import Calibration
from eagle_assets.reconstruction.files import exchange_of_line
from eagle_assets.reconstruction.reconstruct import reconstruct
from eagle_assets.reconstruction.sampling import Line
from eagle_assets.reconstruction.summary import Summary

_LINES_A_PIECE = 256
_WORTH_WORKERS = 4  # pieces; fewer are done before a worker has started

_calibration = Calibration()  # of this process, when it is a worker


def judge_lines(lines: Iterable[Line], calibration: Calibration) -> Iterator[tuple[bytes, Summary, int]]:
    """For each piece of the lines, in order: the lines of its verdicts, their summary, the bytes that were read."""
    pieces = _pieces(lines)
    first = list(islice(pieces, _WORTH_WORKERS))
    if len(first) < _WORTH_WORKERS or cores() == 1:
        for piece in (*first, *pieces):
            yield judge_piece(piece, calibration)
        return
    context = multiprocessing.get_context("spawn")  # the encoder's threads do not survive a fork
    with ProcessPoolExecutor(cores(), context, _start_worker, (calibration,)) as workers:
        under_way: deque[Future[tuple[bytes, Summary, int]]] = deque()
        try:
            for piece in (*first, *pieces):
                under_way.append(workers.submit(_judge_in_worker, piece))
                if len(under_way) > 2 * cores():
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            workers.shutdown(wait=False, cancel_futures=True)


def cores() -> int:
    return len(os.sched_getaffinity(0))


def judge_piece(piece: list[Line], calibration: Calibration) -> tuple[bytes, Summary, int]:
    """The lines of the verdicts on a piece, their summary, the bytes that were read."""
    encode = msgspec.json.Encoder().encode
    summary = Summary()
    out = []
    for reconstruction in reconstruct(
        (exchange_of_line(text, place, order) for place, order, text in piece), calibration
    ):
        summary.add(reconstruction)
        out.append(encode(reconstruction.to_dict()))
    return b"\n".join((*out, b"")), summary, sum(len(line.text) for line in piece)


def _start_worker(calibration: Calibration) -> None:
    global _calibration
    _calibration = calibration


def _judge_in_worker(piece: list[Line]) -> tuple[bytes, Summary, int]:
    return judge_piece(piece, _calibration)


def _pieces(lines: Iterable[Line]) -> Iterator[list[Line]]:
    iterator = iter(lines)
    while piece := list(islice(iterator, _LINES_A_PIECE)):
        yield piece
