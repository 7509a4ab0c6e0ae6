"""The inverse tried on the team's own outputs, whose ids are known: served as text, then judged by the text alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import msgspec

from eagle_assets.lake.audit import Check
from eagle_assets.reconstruction.calibrating.observation import observe
from eagle_assets.reconstruction.calibrating.refutation import calibrate_observations
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.judgement import judge
from eagle_assets.reconstruction.own.departures import Departures, departures
from eagle_assets.reconstruction.own.known_outputs import KnownOutput, request_of, some_of
from eagle_assets.reconstruction.own.served_again import Serves, read_as_served
from eagle_assets.reconstruction.own.share import Share
from eagle_assets.reconstruction.prompts import PromptVerdict
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.reconstruction.weighing import Weights
from eagle_assets.serving.conventions import BARE_TOOL_IDS, STOP_NOT_COUNTED
from eagle_assets.serving.gateway import rewrites_calls, trims
from eagle_assets.serving.servers import (
    KNOWN_SERVERS,
    SGLANG_0_5_8,
    SGLANG_0_5_12,
    SGLANG_0_5_23,
    VLLM_0_33,
    VLLM_0_33_WITHOUT_BLANKS,
)
from eagle_assets.targets.target import Target

MOST_STREAMED_TOKENS = 50_000
"""Tokens that are streamed under each server; a stream is judged token by token, an unstreamed text as a whole."""

LENGTHS = (("under 100", 100), ("100 to 999", 1_000), ("1,000 and more", 1 << 62))
"""Length classes of outputs, in tokens, each with the length that is no longer in it."""

_NOT_ASKED = PromptVerdict("unverified", "prompt_not_rendered", None)


WAYS: tuple[tuple[Serves, bool], ...] = (
    *((server, False) for server in KNOWN_SERVERS),
    *((server, True) for server in (VLLM_0_33, VLLM_0_33_WITHOUT_BLANKS, SGLANG_0_5_23, SGLANG_0_5_12, SGLANG_0_5_8)),
    (replace(SGLANG_0_5_23.behind(trims), name="SGLang 0.5.23, texts trimmed"), False),
    (replace(SGLANG_0_5_23.behind(rewrites_calls), name="SGLang 0.5.23, calls rewritten"), False),
    (BARE_TOOL_IDS, False),
    (STOP_NOT_COUNTED, False),
)
"""Every known way to serve. SGLang 0.5.9 streams nearly as 0.5.8, 0.5.10 as 0.5.12, and gateways change no stream."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Outputs served and judged: how many were `trusted` (exact or consistent), how many of these were `right`."""

    outputs: int = 0
    trusted: int = 0
    right: int = 0
    exact: int = 0
    false_exact: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.outputs + other.outputs,
            self.trusted + other.trusted,
            self.right + other.right,
            self.exact + other.exact,
            self.false_exact + other.false_exact,
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of the outputs of one length class under one server, streamed or not."""

    server: str
    streamed: bool
    length: str
    tally: Tally


@dataclass(frozen=True, slots=True)
class BlindReport:
    """What the inverse makes of outputs whose ids are known."""

    departures: Departures
    tried: tuple[Tried, ...]

    def tally(self, server: str | None = None, streamed: bool | None = None, length: str | None = None) -> Tally:
        """Of one server, way or length class, or of all. The same outputs come back under every server."""
        chosen = (
            tried.tally
            for tried in self.tried
            if server in (None, tried.server) and streamed in (None, tried.streamed) and length in (None, tried.length)
        )
        return sum(chosen, Tally())


def blind_error(
    outputs: Sequence[KnownOutput], target: Target, ways: Sequence[tuple[Serves, bool]] = WAYS
) -> BlindReport:
    """Serve outputs in each way, by a server, streamed or not, and hold the verdicts against the true ids.

    Outputs are taken evenly spread, within MOST_OUTPUTS and MOST_STREAMED_TOKENS. Each server is a provider of its
    own, and all are calibrated together, as those of a bought dataset are.
    """
    whole = list(some_of(outputs, len(outputs)))
    of_way = {False: whole, True: _within_tokens(whole)}
    inputs = [known for _, streamed in ways for known in of_way[streamed]]
    requests = {id(known): request_of(known, target) for known in whole}
    served = [
        read_as_served(known, requests[id(known)], target, server, streamed, place)
        for server, streamed in ways
        for place, known in enumerate(of_way[streamed])
    ]
    tallies: dict[tuple[str, bool, str], Tally] = {}
    for (reading, _), known, verdict in zip(served, inputs, _judged(served, target), strict=True):
        key = (reading.provider or "", reading.response.streamed, _length_class(len(known.output_ids)))
        tallies[key] = tallies.get(key, Tally()) + _tally(verdict, known.output_ids)
    return BlindReport(departures(whole, target), tuple(Tried(*key, tally) for key, tally in tallies.items()))


def with_blind_report(checks: Sequence[Check], report: BlindReport) -> list[Check]:
    """The checks of a local dataset, `residual_error_below_limit` with the report: in its numbers the whole, in `worst`
    every way and length, those with the most wrong first."""
    return [_reporting(check, report) if check.name == "residual_error_below_limit" else check for check in checks]


def _reporting(check: Check, report: BlindReport) -> Check:
    whole, left = report.tally(), report.departures
    numbers = {f"blind_{name}": float(number) for name, number in _numbers(whole).items()}
    for name, share in (("noncanonical", Share(left.differing, left.outputs)), ("silent", left.among_closing)):
        low, high = share.interval
        numbers |= {name: share.found, f"{name}_of": share.of, f"{name}_low": low, f"{name}_high": high}
    worst_first = sorted(report.tried, key=lambda t: (-t.tally.false_exact, t.tally.right - t.tally.trusted))
    rows = [{"server": t.server, "streamed": t.streamed, "length": t.length, **_numbers(t.tally)} for t in worst_first]
    ways = len({(tried.server, tried.streamed) for tried in report.tried})
    sentence = (
        f"{left.outputs} outputs with true ids, served as text in {ways} ways and judged blind: {whole.right} of "
        f"{whole.trusted} trusted are right, {whole.false_exact} are called exact and are not"
    )
    return msgspec.structs.replace(
        check, sentence=sentence, numbers={**check.numbers, **numbers}, worst=(*check.worst, *rows)
    )


def _numbers(tally: Tally) -> dict[str, int]:
    return {
        "outputs": tally.outputs,
        "trusted": tally.trusted,
        "right": tally.right,
        "exact": tally.exact,
        "false_exact": tally.false_exact,
    }


def _within_tokens(outputs: list[KnownOutput]) -> list[KnownOutput]:
    tokens = sum(len(known.output_ids) for known in outputs)
    most = ceil(len(outputs) * MOST_STREAMED_TOKENS / max(tokens, MOST_STREAMED_TOKENS))
    return list(some_of(outputs, len(outputs), most))


def _length_class(tokens: int) -> str:
    return next(name for name, end in LENGTHS if tokens < end)


def _judged(served: Sequence[tuple[Reading, int]], target: Target) -> Iterator[Reconstruction]:
    """The verdicts on readings, each given with `prompt_tokens` minus the length of the rendered prompt."""
    usable = [(reading, reading.layouts[0], offset) for reading, offset in served if reading.layouts]
    seen = (observe(r, layout, EncodedTexts(target.vocabulary), offset) for r, layout, offset in usable)
    weights = Weights(calibrate_observations(found for found in seen if found is not None))
    return (judge(reading, weights, EncodedTexts(target.vocabulary), _NOT_ASKED) for reading, _ in served)


def _tally(found: Reconstruction, true_ids: list[int]) -> Tally:
    right, exact = found.output_ids == true_ids, found.verdict == "exact"
    return Tally(1, int(found.trusted), int(found.trusted and right), int(exact), int(exact and not right))
