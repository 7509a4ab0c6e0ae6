"""Which conventions the answers to probes refute: those under which no output gives the text and the count."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.values import as_dict, as_list
from eagle_assets.reconstruction.encoding import encodable
from eagle_assets.reconstruction.evidence.layouts import texts_shown
from eagle_assets.reconstruction.evidence.reading import Reading, read
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.output import Call, Output
from eagle_assets.serving.served import Message, Situation, ToolCall
from eagle_assets.targets.vocabulary import Vocabulary

REFUTATIONS_NEEDED = 2
"""Answers that must speak against a convention: one alone may be output that left the canonical path (2 in 64)."""

_LOST = ("", " ", "\n", "\n\n", "    ")
"""White space that may have stood at an end of a text, and been taken away or hidden in a server's blank."""

_NATIVE_ID = re.compile(r"(functions\.)?.+:\d+", re.DOTALL)

_Output = Output[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer without its envelope. `next_index` numbers the next call as the history goes on."""

    exchange_id: str
    message: Message
    completion_tokens: int
    situation: Situation
    next_index: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """`refuted` names each refuted convention with the exchanges that did it; `standing` are the others, by name.

    `unexplained` are exchanges that no rival explains: the truth may be none of them, or the model left the
    canonical path. `unread` are those without a whole, counted answer.
    """

    standing: tuple[str, ...]
    refuted: dict[str, tuple[str, ...]]
    unexplained: tuple[str, ...]
    unread: tuple[str, ...]


def decide(exchanges: Iterable[Exchange], rivals: Sequence[Convention]) -> Decision:
    """Hold the answers to probes against every rival convention; they may be any answers, the expected ones or not."""
    answers, unread = [], []
    for exchange in exchanges:
        answer = answer_of(read(exchange))
        if answer is None:
            unread.append(exchange.exchange_id)
        else:
            answers.append(answer)
    return replace(decide_answers(answers, rivals), unread=tuple(unread))


def decide_answers(answers: Iterable[Answer], rivals: Sequence[Convention]) -> Decision:
    """As `decide`, for answers that are read already.

    The ids of calls are held only against rivals that differ in what they make of them.
    """
    ids_matter = len({rival.tool_ids for rival in rivals}) > 1
    against: dict[str, list[str]] = {rival.name: [] for rival in rivals}
    unexplained = []
    for answer in answers:
        denying = [rival.name for rival in rivals if not explains(rival, answer, ids_matter)]
        if len(denying) == len(rivals):
            unexplained.append(answer.exchange_id)
            continue
        for name in denying:
            against[name].append(answer.exchange_id)
    refuted = {name: tuple(ids) for name, ids in against.items() if len(ids) >= REFUTATIONS_NEEDED}
    standing = tuple(rival.name for rival in rivals if rival.name not in refuted)
    return Decision(standing, refuted, tuple(unexplained), unread=())


def answer_of(reading: Reading) -> Answer | None:
    """The answer of a reading; None where it is not whole, or has no count."""
    situation, response, count = reading.situation, reading.response, reading.completion_tokens
    if reading.unusable or situation is None or count is None or reading.layout_notes:
        return None
    calls = tuple(ToolCall(call.id or "", call.name or "", call.arguments or "") for call in response.tool_calls)
    message = Message(*texts_shown(response, situation), calls)
    return Answer(reading.exchange.exchange_id, message, count, situation, next_index(reading.exchange.request))


def next_index(request: Mapping[str, Any]) -> int:
    """The number of the next call, as a model counts on that reads the ids of the history."""
    ids = [
        str(as_dict(call).get("id"))
        for message in map(as_dict, as_list(request.get("messages")))
        for call in as_list(message.get("tool_calls"))
    ]
    last = ids[-1].rpartition(":")[2] if ids else ""
    return int(last) + 1 if last.isdecimal() and len(last) < 9 else len(ids)


def explains(convention: Convention, answer: Answer, ids_matter: bool = True) -> bool:
    """Whether some output, in the canonical ids of its texts, makes a server of this convention answer so.

    Tried are the texts as shown with a blank less, or white space more, at each end; arguments in the usual
    spacings; and headers numbered as the shown id, as a renumbering server's, and as the history goes on.
    """
    plain, seen = _plain_output(answer), answer.message
    vocabulary = answer.situation.target.vocabulary
    begun = convention.think_generated and answer.situation.thinking
    length = _length(plain, vocabulary) + convention.count_offset(plain) + begun

    def changes(shows: Callable[[Message], bool], variants: Iterable[_Output]) -> set[int]:
        """By how much longer the outputs are, of these, that show as they were seen."""
        shown = (variant for variant in variants if shows(convention.message(variant, answer.situation)))
        return {_length(variant, vocabulary) - _length(plain, vocabulary) for variant in shown}

    # A convention treats each field by itself, so each is varied by itself.
    reasonings = changes(
        lambda made: (made.reasoning or "") == (seen.reasoning or ""),
        (replace(plain, reasoning=text) for text in _with_other_ends(plain.reasoning)),
    )
    contents = changes(
        lambda made: (made.content or "") == (seen.content or ""),
        (replace(plain, content=text or "") for text in _with_other_ends(plain.content)),
    )
    calls = changes(
        lambda made: _same_calls(made.tool_calls, seen.tool_calls, convention, ids_matter),
        (replace(plain, calls=calls) for calls in _calls_otherwise(plain.calls, answer)),
    )
    return any(sum(more) == answer.completion_tokens - length for more in product(reasonings, contents, calls))


def _plain_output(answer: Answer) -> _Output:
    """The output that shows as the answer where a server changes nothing."""
    message, thinking = answer.message, answer.situation.thinking
    calls = tuple(Call(_with_prefix(call.id), call.arguments, closed=True) for call in message.tool_calls)
    return Output(
        think_begun=False,
        reasoning=(message.reasoning or "") if thinking else None,
        reasoning_closed=thinking,
        content=message.content or "",
        section_begun=bool(calls),
        calls=calls,
        section_closed=bool(calls),
        stopped=True,
    )


def _length(output: _Output, vocabulary: Vocabulary) -> int:
    return output.count_of_markers() + sum(len(vocabulary.encode(encodable(text))) for text in output.segments())


def _with_other_ends(text: str | None) -> Iterator[str | None]:
    """A text with other white space at its ends, itself first; a text that is not there stays so."""
    if text is None:
        yield None
        return
    starts = dict.fromkeys((text, text.removeprefix(" "), *(lost + text for lost in _LOST)))
    for start in starts:
        yield from dict.fromkeys((start, start.removesuffix(" "), *(start + lost for lost in _LOST)))


def _calls_otherwise(calls: tuple[Call[str], ...], answer: Answer) -> Iterator[tuple[Call[str], ...]]:
    """The calls with other arguments that say the same, and with other numbers, all of them in the same way."""
    if not calls:
        yield calls
        return
    names = [call.name for call in answer.message.tool_calls]
    numberings = [
        [call.header for call in calls],
        *(
            [f"functions.{name}:{first + position}" for position, name in enumerate(names)]
            for first in dict.fromkeys((answer.situation.calls_in_history, answer.next_index))
        ),
    ]
    for headers in numberings:
        for spell in _SPELLINGS:
            yield tuple(
                Call(header, spell(call.arguments or ""), call.closed)
                for header, call in zip(headers, calls, strict=True)
            )


def _as_json(arguments: str, separators: tuple[str, str]) -> str:
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, separators=separators)
    except (ValueError, RecursionError):
        return arguments


_SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda arguments: arguments,
    lambda arguments: arguments.removeprefix(" "),
    lambda arguments: arguments.removesuffix(" "),
    lambda arguments: arguments.removeprefix(" ").removesuffix(" "),
    lambda arguments: _as_json(arguments, (", ", ": ")),
    lambda arguments: _as_json(arguments, (",", ":")),
)


def _same_calls(made: Sequence[ToolCall], seen: Sequence[ToolCall], convention: Convention, ids_matter: bool) -> bool:
    """The same calls; a server that gives ids of its own may give any that is not the model's."""

    def same_id(ours: str, theirs: str) -> bool:
        if convention.tool_ids == "opaque":
            return _NATIVE_ID.fullmatch(theirs) is None
        return ours == theirs

    return len(made) == len(seen) and all(
        (ours.name, ours.arguments) == (theirs.name, theirs.arguments)
        and (not ids_matter or same_id(ours.id, theirs.id))
        for ours, theirs in zip(made, seen, strict=True)
    )


def _with_prefix(tool_id: str) -> str:
    return f"functions.{tool_id.removeprefix('functions.')}"
