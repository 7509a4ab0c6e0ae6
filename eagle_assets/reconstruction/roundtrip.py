"""The forward check: ids of a verdict, served again, must give what was received.

It does not repeat how the ids were found: it runs the serving convention that the evidence names on them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eagle_assets.openrouter.response import ReceivedCall
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.calibrating.survivor import Hypothesis
from eagle_assets.reconstruction.evidence.layouts import texts_shown
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.given_ids import agrees_with_message
from eagle_assets.reconstruction.search.deployments import servers_named
from eagle_assets.reconstruction.search.served_by import sends
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.output import NotInGrammar, parse_output
from eagle_assets.serving.served import ToolCall


@dataclass(frozen=True, slots=True)
class Roundtrip:
    """`text_agrees`: reasoning, content and calls came out as received. `count_gap`: the server's `completion_tokens`
    minus what the convention counts; None where the server gave no count."""

    text_agrees: bool
    count_gap: int | None


NOTHING_AGREES = Roundtrip(False, None)


def hypotheses_by_name(calibration: Calibration) -> dict[str, Hypothesis]:
    """Every convention that survived for some provider, now or before it changed."""
    before = (group for eras in calibration.earlier.values() for _, group in eras)
    return {s.hypothesis.name: s.hypothesis for g in (*before, *calibration.groups.values()) for s in g.survivors}


def serve_again(
    reading: Reading,
    ids: Sequence[int],
    convention: str | None,
    hypotheses: Mapping[str, Hypothesis],
    servers: Sequence[str] = (),
) -> Roundtrip:
    """Serve `ids` in the reading's situation by one of the known servers of these names, or else under the convention
    of this name.

    Without a name the ids are the server's own: then they are only held against the message, whose texts the server
    may have trimmed.
    """
    counted = reading.completion_tokens
    if any(sends(server, ids, reading) for server in servers_named(tuple(servers))):
        return Roundtrip(True, None if counted is None else 0)
    if convention is None:
        return Roundtrip(agrees_with_message(ids, reading), None if counted is None else counted - len(ids))
    hypothesis = hypotheses.get(convention)
    if hypothesis is None or reading.situation is None:
        return NOTHING_AGREES
    served_by, vocabulary = convention_of(hypothesis), reading.situation.target.vocabulary
    try:
        output = parse_output(ids, reading.situation)
    except NotInGrammar:
        return NOTHING_AGREES
    texts = output.over(lambda segment: vocabulary.decode_ordinary(segment).decode("utf-8", "replace"))
    response, message = reading.response, served_by.message(texts, reading.situation)
    reasoning, content = texts_shown(response, reading.situation)
    same_texts = (message.reasoning or "", message.content or "") == (reasoning or "", content)
    agrees = same_texts and _same_calls(message.tool_calls, response.tool_calls)
    return Roundtrip(agrees, None if counted is None else counted - len(ids) - served_by.count_offset(output))


def convention_of(hypothesis: Hypothesis) -> Convention:
    """The serving convention that a hypothesis stands for."""
    return Convention(
        name=hypothesis.name,
        blanks=hypothesis.inserted,
        blank_content_is_null="content_end" in hypothesis.inserted,  # servers do not send nothing but their own blanks
        arguments="compact" if hypothesis.rewrites_arguments else "kept",
        tool_ids="bare",
        think_generated=hypothesis.counting.think_generated,
        stop_counted=hypothesis.counting.stop_counted,
        think_end_counted=hypothesis.counting.think_end_counted,
        section_end_counted=not hypothesis.counting.section_end_open,
    )


def _same_calls(served: Sequence[ToolCall], received: Sequence[ReceivedCall]) -> bool:
    """The same functions with the same arguments; a call's id is the server's own in most conventions."""
    return len(served) == len(received) and all(
        ours.name == theirs.name and _same_arguments(ours.arguments, theirs.arguments)
        for ours, theirs in zip(served, received, strict=True)
    )


def _same_arguments(ours: str, theirs: str | None) -> bool:
    if theirs is None or ours.strip() == theirs.strip():
        return theirs is not None or not ours.strip()
    try:
        return json.loads(ours) == json.loads(theirs)
    except (ValueError, RecursionError):
        return False
