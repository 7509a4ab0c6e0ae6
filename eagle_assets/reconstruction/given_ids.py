"""Ids that the server itself gives: lists of token ids, or the tokens of logprobs."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence

from eagle_assets.openrouter.response import ReceivedCall, Response
from eagle_assets.openrouter.values import as_count
from eagle_assets.reconstruction.canonical import is_canonical
from eagle_assets.reconstruction.encoding import encodable
from eagle_assets.reconstruction.evidence.layouts import texts_shown
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.serving.convention import name_in
from eagle_assets.serving.output import Call, NotInGrammar, parse_output
from eagle_assets.targets.target import Target
from eagle_assets.targets.vocabulary import Vocabulary


def given_ids(reading: Reading) -> tuple[list[int] | None, str]:
    """The output ids that the response gives, with the name of the field that holds them; None where it gives none."""
    response = reading.response
    if response.token_ids is not None:
        return list(response.token_ids), "token_ids"
    if response.logprobs and reading.situation is not None:
        return _ids_of_logprobs(response, reading.situation.target), "logprobs"
    return None, ""


def _ids_of_logprobs(response: Response, target: Target) -> list[int] | None:
    """Ids from the true bytes of each token, or its id; None where an entry has neither.

    vLLM's bytes are those of the token's text, which is U+FFFD where a token holds part of a character, so bytes
    that hold one prove nothing.
    """
    vocabulary = target.vocabulary
    ids = []
    for entry in response.logprobs or ():
        token = as_count(entry.get("token_id"))
        raw = entry.get("bytes")
        if token is None and isinstance(raw, list) and all(isinstance(b, int) and 0 <= b < 256 for b in raw):
            data = bytes(raw)
            token = vocabulary.id_of_bytes.get(data)
            if token is None and b"\xef\xbf\xbd" not in data:
                token = vocabulary.special.get(data.decode("utf-8", "replace"))
        if token is None:
            return None
        ids.append(token)
    return ids or None


def asked_for(reading: Reading, source: str) -> bool:
    """Whether the request asked for these ids, in the words of the servers that have them to give."""
    request = reading.exchange.request
    return bool(request.get("return_token_ids") if source == "token_ids" else request.get("logprobs"))


def off_the_path(ids: Sequence[int], reading: Reading) -> bool:
    """Whether an encoder that was handed the shown text, whole or delta by delta, would have given other ids: only then
    do ids show by themselves that they were generated."""
    if reading.situation is None:
        return False
    vocabulary = reading.situation.target.vocabulary
    if is_canonical(ids, vocabulary) is not False:
        return False
    ordinary = [token for token in ids if token < vocabulary.ordinary_size]
    pieces = (vocabulary.encode(encodable(delta.text)) for delta in reading.response.deltas)
    return ordinary != [token for piece in pieces for token in piece]


def agrees_with_message(ids: Sequence[int], reading: Reading, kept: Container[str] = ()) -> bool:
    """Whether the ids say what the message shows; at the `kept` edges the provider takes no white space away.

    Left aside is what servers are known to take out or put in: white space at the ends of texts, marker text that a
    parser swallowed, incomplete characters, calls that a parser dropped, and how arguments are spelt.
    """
    situation, response = reading.situation, reading.response
    if situation is None:
        return False
    vocabulary = situation.target.vocabulary
    if not all(0 <= token < vocabulary.ordinary_size or token in vocabulary.special_text for token in ids):
        return False
    try:
        output = parse_output(ids, situation)
    except NotInGrammar:
        return False
    said = output.over(lambda segment: vocabulary.decode(segment).decode("utf-8", "replace"))
    reasoning, content = texts_shown(response, situation)
    texts, shown = (said.reasoning or "", said.content), (reasoning or "", content)
    # What is kept at a message's end stands for that before calls too: ids that say more are not what is shown.
    ends = (("reasoning_start", "reasoning_end"), ("content_start", "message_end"))
    for (start, end), made, seen in zip(ends, texts, shown, strict=True):
        keeps = (start in kept, end in kept)
        if not _same_text(made, seen, keeps, vocabulary):
            return False
    generated = iter(said.calls)
    return all(
        any(name_in(made.header.strip()) == call.name and _same_arguments(made, call) for made in generated)
        for call in response.tool_calls
    )


def _same_text(said: str, shown: str, keeps: tuple[bool, bool], vocabulary: Vocabulary) -> bool:
    if "\ufffd" in shown and "\ufffd" not in said:  # of what it stands for, the ids have lost the bytes
        return False
    if "\ufffd" not in shown and "\ufffd" in said.rstrip("\ufffd"):  # servers drop a part of a character at a cut alone
        return False
    said, shown = (vocabulary.without_marker_text(text).replace("\ufffd", "") for text in (said, shown))
    core = said.strip()
    if core != shown.strip():
        return False
    if not core:  # nothing but white space is sent as it is, with blanks round it, or not at all
        return not shown or shown.strip(" ") == said.strip(" ")
    before, after = _white_round(said, core)
    before_shown, after_shown = _white_round(shown, core)
    starts_alike = before_shown in (before, " " + before) or (not keeps[0] and before_shown in ("", " "))
    return starts_alike and (after_shown in (after, after + " ") or (not keeps[1] and after_shown in ("", " ")))


def _white_round(text: str, core: str) -> tuple[str, str]:
    start = text.index(core)
    return text[:start], text[start + len(core) :]


def _same_arguments(made: Call[str], shown: ReceivedCall) -> bool:
    one, other = (made.arguments or "").strip(), (shown.arguments or "").strip()
    if one == other or not made.closed:
        return one.startswith(other)
    try:
        return _loosely_equal(json.loads(one), json.loads(other))
    except (ValueError, RecursionError):
        return False


def _loosely_equal(one: object, other: object) -> bool:
    """Equal as a server sees it that coerces arguments to the tool's schema: 3 is "3"."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_loosely_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_loosely_equal, one, other))
    return one == other or str(one) == str(other)
