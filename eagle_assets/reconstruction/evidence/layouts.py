"""From a message to outputs: where the markers stood that the server took out.

A layout is an output in the shown texts, before any convention is undone. Most messages have one; a cut output or
a marker that was left in a text has several, which differ in length, so that the count tells them apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from eagle_assets.openrouter.response import ReceivedCall, Response
from eagle_assets.serving.output import Call, NotInGrammar, Output
from eagle_assets.serving.served import Situation

CUT_REASONS = frozenset(("length", "max_tokens", "max_output_tokens", "MAX_TOKENS"))
STOP_REASONS = frozenset(("stop", "tool_calls", "end_turn", "eos"))


@dataclass(frozen=True, slots=True)
class Layout:
    """`codes` name what this layout supposes beyond what the server showed."""

    output: Output[str]
    codes: tuple[str, ...] = ()


def layouts(response: Response, situation: Situation) -> list[Layout]:
    """Every layout of a usable response, the plainest first."""
    found = _with_markers_as_tokens(response, situation)
    plain = _plain(response, situation)
    if response.finish_reason == "length":
        open_end, *at_markers = _cut(plain.output)
        # One token more may as well be white space or part of a character that the server left out.
        codes = (*plain.codes, "cut_at_marker")
        return [Layout(open_end, plain.codes), *(Layout(output, codes) for output in at_markers), *found]
    return [plain, *found]


def texts_shown(response: Response, situation: Situation) -> tuple[str | None, str]:
    """The reasoning and the content that a response shows; no reasoning where the prompt asked for none: a server that
    takes an instant answer for reasoning has shown its content in the wrong field."""
    reasoning, content = response.reasoning or "", response.content or ""
    return (reasoning, content) if situation.thinking else (None, reasoning + content)


def layout_notes(response: Response, situation: Situation | None, request: Mapping[str, Any]) -> tuple[str, ...]:
    """Codes for what makes the place of a marker unknown, whichever layout is right."""
    notes, tool_choice = [], request.get("tool_choice")
    if response.finish_reason == "length":
        notes.append("finish_length")
    elif response.finish_reason not in STOP_REASONS:
        notes.append("finish_missing" if response.finish_reason is None else f"finish_{response.finish_reason}")
    elif situation is not None and situation.thinking and not response.content and not response.tool_calls:
        notes.append("think_position_unknown")
    if response.finish_reason != "length" and (request.get("stop") or request.get("stop_token_ids")):
        # It ends a text like the model's own stop token, is counted, and as a rule not shown.
        notes.append("stop_string_possible")
    native = response.native_finish_reason
    cut, natively_cut = response.finish_reason in CUT_REASONS, native in CUT_REASONS
    if (response.finish_reason == "tool_calls" and native == "stop") or (native is not None and cut != natively_cut):
        notes.append("finish_reasons_differ")
    if response.tool_calls and (isinstance(tool_choice, dict) or tool_choice == "required"):
        notes.append("forced_tool_choice")
    return tuple(notes)


def _plain(response: Response, situation: Situation) -> Layout:
    codes: list[str] = []
    calls = []
    for position, received in enumerate(response.tool_calls):
        header, code = _header(received, position, situation)
        codes += [code] if code else []
        codes += [] if received.arguments is not None else ["args_missing"]
        arguments = "{}" if received.arguments is None else received.arguments
        codes += [] if _is_json(arguments) else ["args_not_json"]
        calls.append(Call(header, arguments, closed=True))
    reasoning, content = texts_shown(response, situation)
    if response.reasoning is not None and not situation.thinking:
        codes.append("content_in_reasoning")
    output = Output(
        think_begun=False,
        reasoning=reasoning,
        reasoning_closed=reasoning is not None,
        content=content,
        section_begun=bool(calls),
        calls=tuple(calls),
        section_closed=bool(calls),
        stopped=True,
    )
    return Layout(output, tuple(dict.fromkeys(codes)))


def _header(call: ReceivedCall, position: int, situation: Situation) -> tuple[str, str | None]:
    """The call's header as the model may have written it, and what that supposes."""
    name = call.name or ""
    native = re.fullmatch(rf"(functions\.)?{re.escape(name)}:[0-9]{{1,9}}", call.id or "")
    if native is None:
        return f"functions.{name}:{situation.calls_in_history + position}", "tool_id_not_native"
    return (call.id or "", None) if native[1] else (f"functions.{call.id}", "tool_id_bare")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _cut(output: Output[str]) -> Iterator[Output[str]]:
    """Where an output may have ended that the token limit cut: it never has a stop token."""
    cut = replace(output, stopped=False)
    if output.calls:
        open_section = replace(cut, section_closed=False)
        yield replace(open_section, calls=(*output.calls[:-1], replace(output.calls[-1], closed=False)))
        yield open_section
        yield cut
    elif output.reasoning is not None and not output.content:
        yield replace(cut, reasoning_closed=False)
        yield cut
    else:
        yield cut
        yield replace(cut, section_begun=True)


_BLANK_BETWEEN_MARKERS = re.compile(r"(?<=\|>) (?=<\|)")
_BLANKS_ROUND_MARKERS = re.compile(r" ?(<\|tool_call\w+\|>) ?")
_MARKERS = ("</think>", "<|tool_calls_section_begin|>")


def _with_markers_as_tokens(response: Response, situation: Situation) -> list[Layout]:
    """Layouts in which marker text inside a text is the marker itself, which the server failed to take out."""
    reasoning, content = response.reasoning or "", response.content or ""
    if response.tool_calls or not (_holds_marker(reasoning) or _holds_marker(content)):
        return []
    if situation.thinking and response.reasoning is not None and content:
        raw = f"{reasoning}</think>{content}"
    else:
        raw = reasoning + content
    stopped = response.finish_reason in STOP_REASONS
    codes = tuple(
        code
        for code, there in (
            ("think_tag_in_content", "</think>" in content),
            ("markers_in_content", _MARKERS[1] in content),
            ("markers_in_reasoning", _MARKERS[1] in reasoning),
        )
        if there
    )
    # A detokeniser that puts blanks round markers has put one between two of them, where no text can stand, and it
    # is not known whether the blanks beside the texts are its own too.
    spellings = dict.fromkeys((_BLANK_BETWEEN_MARKERS.sub("", raw), _BLANKS_ROUND_MARKERS.sub(r"\1", raw)))
    found = []
    for spelling in spellings:
        with suppress(NotInGrammar):
            found.append(Layout(read_raw_text(spelling, situation.thinking, stopped), codes))
    return found


def _holds_marker(text: str) -> bool:
    return "<" in text and any(marker in text for marker in _MARKERS)  # one character is found far sooner


def read_raw_text(raw: str, thinking: bool, stopped: bool) -> Output[str]:
    """An output from text in which markers stand as their text; raises NotInGrammar."""
    reasoning, closed, rest = None, False, raw
    if thinking:
        begin = raw.find("<|tool_calls_section_begin|>")
        end = raw.find("</think>")
        closed = end >= 0 and (begin < 0 or end < begin)
        cut = end if closed else begin if begin >= 0 else len(raw)
        reasoning, rest = raw[:cut], raw[cut + len("</think>") * closed :]
    content, begun, section = rest.partition("<|tool_calls_section_begin|>")
    body, ended, trailing = section.partition("<|tool_calls_section_end|>")
    parts = body.split("<|tool_call_begin|>")
    if parts[0] or trailing:
        raise NotInGrammar("text stands beside the calls of the section")
    calls = []
    for part in parts[1:]:
        header, argued, arguments = part.partition("<|tool_call_argument_begin|>")
        arguments, call_ended, beside = arguments.partition("<|tool_call_end|>")
        if beside or not argued:
            raise NotInGrammar("a call without arguments, or text beside one")
        calls.append(Call(header.strip(), arguments, bool(call_ended)))
    return Output(False, reasoning, closed, content, bool(begun), tuple(calls), bool(ended), stopped)
