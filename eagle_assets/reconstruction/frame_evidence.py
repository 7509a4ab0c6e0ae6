"""What the frames of a stream say of one way to read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from eagle_assets.reconstruction.calibrating.inversion import Inversion
from eagle_assets.reconstruction.encoding import EncodedTexts
from eagle_assets.reconstruction.evidence.frames import FieldFrames, agreement, field_frames, ids_between_walls
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.evidence.steps import Solution, one_token_steps
from eagle_assets.serving.output import Call, Ids, Output, join_output
from eagle_assets.serving.served import Situation


class FrameEvidence:
    """The deltas of a stream, beside one inversion of it."""

    def __init__(self, reading: Reading, inversion: Inversion, texts: EncodedTexts) -> None:
        assert reading.situation is not None
        self._situation: Situation = reading.situation
        self._vocabulary = reading.situation.target.vocabulary
        self._inversion = inversion
        self._texts = texts
        self._fields = _fields(reading, inversion)

    @property
    def readable(self) -> bool:
        """Whether the deltas are those of the texts of this inversion."""
        return self._fields is not None

    def agrees(self) -> bool:
        """Whether the canonical ids can have made the deltas, whatever the number of tokens in a step."""
        return all(agreement(frames, ids, self._vocabulary) for frames, ids in self._with_canonical_ids())

    def one_token_steps(self) -> tuple[list[int], Solution, bool] | None:
        """Ids when each step made one token, and whether every delta is a whole step; None where they cannot be.

        Of several solutions that stray as little from the canonical ids, it is the first.
        """
        if self._inversion.difference is None or self._fields is None:
            return None
        fields = list(self._with_canonical_ids())
        tokens = sum(len(ids) for _, ids in fields) + self._inversion.difference
        solution = one_token_steps(fields, tokens, self._vocabulary)
        if solution is None:
            return None
        whole = tokens == sum(len(frames.deltas) for frames, _ in fields)
        return self._output_ids(solution.ids), solution, whole

    def between_walls(self) -> list[int] | None:
        """Ids when the model left the canonical path at the deltas' ends only; None where the count says no."""
        fields = list(self._with_canonical_ids())
        between = [ids_between_walls(frames, self._vocabulary) for frames, _ in fields]
        surplus = sum(map(len, between)) - sum(len(ids) for _, ids in fields)
        return self._output_ids(tuple(between)) if surplus == self._inversion.difference else None

    def _with_canonical_ids(self) -> Iterator[tuple[FieldFrames, Ids]]:
        for text, frames in self._fields or ():
            yield frames, self._texts.ids(text)

    def _output_ids(self, segments: tuple[Ids, ...]) -> list[int]:
        """The output with these ids in the place of its texts."""
        output = self._inversion.begun(self._situation).over(self._texts.ids)
        ids = iter(segments)
        reasoning = next(ids) if output.reasoning is not None else None
        content = next(ids)
        calls = tuple(
            call if call.arguments is None else Call(call.header, next(ids), call.closed) for call in output.calls
        )
        changed: Output[Ids] = replace(output, reasoning=reasoning, content=content, calls=calls)
        return join_output(changed, self._situation.target.markers)


def _fields(reading: Reading, inversion: Inversion) -> list[tuple[str, FieldFrames]] | None:
    """Each text of the inversion, in order, with its frames; None where the deltas are not those of its texts."""
    shown, output = inversion.shown, inversion.output
    deltas: dict[tuple[str, int | None], list[str]] = defaultdict(list)
    for run in reading.response.deltas.runs:
        deltas[run.field, run.call] += run.texts
    answer_field = "reasoning" if "content_in_reasoning" in inversion.codes else "content"
    wanted: list[tuple[tuple[str, int | None], str | None, str | None]] = []
    if shown.reasoning is not None:
        wanted.append((("reasoning", None), shown.reasoning, output.reasoning))
    wanted.append(((answer_field, None), shown.content, output.content))
    for position, (received, made) in enumerate(zip(shown.calls, output.calls, strict=True)):
        wanted.append((("tool_calls", position), received.arguments, made.arguments))
    found = []
    for key, received_text, text in wanted:
        frames = field_frames(deltas.get(key, []), received_text or "", text or "", is_json=key[0] == "tool_calls")
        if frames is None:
            return None
        found.append((text or "", frames))
    return found
