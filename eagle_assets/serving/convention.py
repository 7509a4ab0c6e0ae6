"""A serving convention: what a server makes of generated ids, as executable rules.

A server detokenises (with or without blanks round added tokens), parses (strips, rewrites tool ids,
re-serialises arguments) and counts (stop token, `<think>`). Each rule is one field; `render` runs them.
Sources of the rules: FACTS 4, checked against vLLM 0.33 and SGLang 0.5.8 to 0.5.23 in the tests.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from eagle_assets.serving.frames import Piece, Strip, cut_into_frames
from eagle_assets.serving.output import Call, Ids, Output, parse_output
from eagle_assets.serving.served import Message, Served, Situation, ToolCall

Edge = Literal[
    "reasoning_start",
    "reasoning_end",
    "content_start",
    "content_end",
    "answer_start",
    "arguments_start",
    "arguments_end",
]
"""Where a text meets an added token. `content_start` follows a `</think>`, `content_end` precedes a tool section.

`answer_start` is the content's start after a prompt that ends with a *special* token (`<|im_middle|>`): detokenisers
print it, and put a blank after it, only where special tokens are not skipped, which is so where tools are declared
(vLLM, `adjust_request` of its tool parsers)."""

EDGES: tuple[Edge, ...] = get_args(Edge)
EVERY_EDGE = frozenset(EDGES)

_HEADER = re.compile(r"(?:functions\.)?(?P<name>.+):(?P<index>\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Convention:
    """What a server does to ids; the defaults are the server that changes nothing.

    - `blanks`: the edges of texts at which a blank of the detokeniser's shows. It puts one on both sides of every
      added token that it meets, the prompt's last one and those that are cut off later included
      (slow tokenizers: `spaces_between_special_tokens`).
    - `reasoning_strip`, `content_strip`: white space removed from the ends, after the blanks were put in.
    - `blank_content_is_null`: a content of nothing but white space before tool calls is not sent.
    - `arguments`: kept, stripped of outer white space (`stripped`: only in unstreamed answers), or parsed and
      written anew as compact JSON.
    - `tool_ids`: kept, `bare` (without `functions.`), `renumbered` (calls in the history plus position), or
      `opaque` (replaced by the server's own).
    - `incomplete`: an incomplete character at a cut is dropped or shown as U+FFFD.
    - `nfc`: texts are Unicode-normalised.
    - `think_generated`: `<think>` is not in the prompt, so it is generated, and counted, first.
    - `stop_counted`: whether `completion_tokens` includes the stop token.
    - `think_end_counted`: whether it includes `</think>`.
    - `section_end_counted`: whether it includes the token that closes a tool section.
    - `reasoning_count`: what `reasoning_tokens` counts; None where its figure follows no rule.
    """

    name: str
    blanks: frozenset[Edge] = frozenset()
    reasoning_strip: Strip = "none"
    content_strip: Strip = "none"
    blank_content_is_null: bool = False
    arguments: Literal["kept", "stripped", "compact"] = "kept"
    tool_ids: Literal["kept", "bare", "renumbered", "opaque"] = "kept"
    incomplete: Literal["replaced", "dropped"] = "replaced"
    nfc: bool = False
    think_generated: bool = False
    stop_counted: bool = True
    think_end_counted: bool = True
    section_end_counted: bool = True
    reasoning_count: Literal["with_end", "without_end", "zero"] | None = None

    def render(self, ids: Sequence[int], situation: Situation, steps: Sequence[int] | None = None) -> Served:
        """What the server shows of `ids`; `steps` are the tokens of each decoding step of a stream (default: one).

        Raises NotInGrammar for ids that are no output.
        """
        output = parse_output(ids, situation)
        pieces = self._pieces(output.over(partial(self._texts, situation=situation)), situation)
        frames = cut_into_frames(pieces, steps) if situation.streamed else ()
        return Served(
            message=_message(pieces),
            frames=tuple(frames),
            finish_reason="length" if not output.stopped else "tool_calls" if output.calls else "stop",
            completion_tokens=len(ids) + self.count_offset(output),
            reasoning_tokens=self._reasoning_tokens(output),
            prompt_offset=-1 if self.think_generated and situation.thinking else 0,
        )

    def message(self, output: Output[str], situation: Situation) -> Message:
        """The message that the server makes of an output given as texts: `render` without ids and frames."""
        return _message(self._pieces(output.over(lambda text: (text,)), situation))

    def count_offset(self, output: Output[Any]) -> int:
        """What `completion_tokens` adds to the number of generated ids."""
        uncounted_stop = output.stopped and not self.stop_counted
        uncounted_end = output.reasoning_closed and not self.think_end_counted
        return -uncounted_stop - uncounted_end - (output.section_closed and not self.section_end_counted)

    def tool_id(self, header: str, position: int, situation: Situation) -> str:
        """The id that the server reports for the call with this header, the `position`-th of the answer."""
        if self.tool_ids == "bare":
            return header.removeprefix("functions.")
        if self.tool_ids == "renumbered":
            return f"functions.{name_in(header)}:{situation.calls_in_history + position}"
        if self.tool_ids == "opaque":
            return "call_" + hashlib.sha256(f"{header}/{position}".encode()).hexdigest()[:24]
        return header

    def written_arguments(self, arguments: str, streamed: bool) -> str:
        """The arguments as the server sends them."""
        if self.arguments == "compact":
            try:
                return json.dumps(json.loads(arguments), ensure_ascii=False, separators=(",", ":"))
            except ValueError:
                return arguments
        return arguments.strip() if self.arguments == "stripped" and not streamed else arguments

    def _texts(self, ids: Ids, situation: Situation) -> tuple[str, ...]:
        texts = situation.target.vocabulary.texts_of(ids, drop_incomplete=self.incomplete == "dropped")
        if not self.nfc:
            return texts
        # A stream is normalised delta by delta, for lack of the rest; an unstreamed text as a whole.
        normalised = texts if situation.streamed else ("".join(texts),)
        return tuple(unicodedata.normalize("NFC", text) for text in normalised)

    def _pieces(self, output: Output[tuple[str, ...]], situation: Situation) -> list[Piece]:
        pieces = []
        if output.reasoning is not None:
            # A text that is cut by the token limit has no added token after it.
            ended = output.reasoning_closed or output.section_begun
            before = "reasoning_start" in self.blanks
            after = "reasoning_end" in self.blanks and ended
            piece = Piece("reasoning", output.reasoning, strip=self.reasoning_strip)
            pieces.append(piece.surrounded(before, after))
        if output.reasoning is None or output.reasoning_closed:
            start = content_start(output.reasoning is not None, situation)
            before = start in self.blanks and any(output.content)
            after = "content_end" in self.blanks and output.section_begun
            piece = Piece("content", output.content, strip=self.content_strip).surrounded(before, after)
            if self.blank_content_is_null and output.section_begun and not piece.text.strip():
                piece = piece.without_text()
            pieces.append(piece)
        for position, call in enumerate(output.calls):
            pieces.append(self._call_piece(call, position, situation))
        return pieces

    def _call_piece(self, call: Call[tuple[str, ...]], position: int, situation: Situation) -> Piece:
        header = "".join(call.header).strip()
        tokens = call.arguments or ()
        written = self.written_arguments("".join(tokens), situation.streamed)
        piece = Piece(
            "tool_calls",
            tokens if written == "".join(tokens) else (written,),
            call=position,
            id=self.tool_id(header, position, situation),
            name=name_in(header),
        )
        # A parser that keeps the blanks of a stream keeps those that the detokeniser put in.
        before = "arguments_start" in self.blanks and call.arguments is not None
        after = "arguments_end" in self.blanks and call.closed
        return piece.surrounded(before and situation.streamed, after and situation.streamed)

    def _reasoning_tokens(self, output: Output[Ids]) -> int | None:
        if self.reasoning_count is None or output.reasoning is None:
            return None
        if self.reasoning_count == "zero":
            return 0
        return len(output.reasoning) + (output.reasoning_closed and self.reasoning_count == "with_end")


def content_start(follows_reasoning: bool, situation: Situation) -> Edge | None:
    """The edge at which the content starts; None where no added token is printed before it."""
    if follows_reasoning or situation.target.thinking != "never":
        return "content_start"
    return "answer_start" if situation.tools else None


def name_in(header: str) -> str:
    """The function's name in a call's header `functions.NAME:INDEX`."""
    match = _HEADER.fullmatch(header)
    return match["name"] if match else header


def _message(pieces: Sequence[Piece]) -> Message:
    texts = {piece.field: piece.text for piece in pieces if piece.call is None}
    return Message(
        reasoning=texts.get("reasoning") or None,
        content=texts.get("content") or None,
        tool_calls=tuple(ToolCall(p.id or "", p.name or "", p.text) for p in pieces if p.call is not None),
    )
