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
from typing import Literal

from eagle_assets.serving.frames import Piece, cut_into_frames
from eagle_assets.serving.output import Call, Output, parse_output
from eagle_assets.serving.served import Frame, Message, Served, Situation, ToolCall

Strip = Literal["none", "left", "right", "both"]

_HEADER = re.compile(r"(?:functions\.)?(?P<name>.+):(?P<index>\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Convention:
    """What a server does to ids; the defaults are the server that changes nothing.

    - `blanks`: a blank on both sides of every added token that the detokeniser meets, the prompt's last one and
      those that are cut off later included (slow tokenizers: `spaces_between_special_tokens`).
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
    - `section_end_counted`: whether it includes the token that closes a tool section.
    - `reasoning_count`: what `reasoning_tokens` counts; None where its figure follows no rule.
    """

    name: str
    blanks: bool = False
    reasoning_strip: Strip = "none"
    content_strip: Strip = "none"
    blank_content_is_null: bool = False
    arguments: Literal["kept", "stripped", "compact"] = "kept"
    tool_ids: Literal["kept", "bare", "renumbered", "opaque"] = "kept"
    incomplete: Literal["replaced", "dropped"] = "replaced"
    nfc: bool = False
    think_generated: bool = False
    stop_counted: bool = True
    section_end_counted: bool = True
    reasoning_count: Literal["with_end", "without_end", "zero"] | None = None

    def render(self, ids: Sequence[int], situation: Situation, steps: Sequence[int] | None = None) -> Served:
        """What the server shows of `ids`; `steps` are the tokens of each decoding step of a stream (default: one).

        Raises NotInGrammar for ids that are no output.
        """
        output = parse_output(ids, situation)
        pieces = self._pieces(output, situation)
        frames = cut_into_frames(pieces, self, situation, steps) if situation.streamed else ()
        return Served(
            message=_message(pieces),
            frames=tuple(frames),
            finish_reason="length" if not output.stopped else "tool_calls" if output.calls else "stop",
            completion_tokens=self.count(output, len(ids)),
            reasoning_tokens=self._reasoning_tokens(output),
            prompt_offset=-1 if self.think_generated and situation.thinking else 0,
        )

    def count(self, output: Output, length: int) -> int:
        """`completion_tokens` of an output of `length` ids."""
        length -= output.stopped and not self.stop_counted
        return length - (output.section_closed and not self.section_end_counted)

    def blank_before_text(self, situation: Situation) -> bool:
        """Whether the server's blank precedes the first text of the output.

        The prompt's last token is an added one. `<think>` and `</think>` are always printed, `<|im_middle|>` only
        where special tokens are not skipped, which is so where tools are declared.
        """
        return self.blanks and (situation.target.thinking != "never" or bool(situation.tools))

    def tool_id(self, header: str, position: int, situation: Situation) -> str:
        """The id that the server reports for the call with this header, the `position`-th of the answer."""
        name = name_in(header)
        if self.tool_ids == "bare":
            return header.removeprefix("functions.")
        if self.tool_ids == "renumbered":
            return f"functions.{name}:{situation.calls_in_history + position}"
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

    def _pieces(self, output: Output, situation: Situation) -> list[Piece]:
        pieces = []
        blank_first = self.blank_before_text(situation)
        if output.reasoning is not None:
            piece = self._piece("reasoning", output.reasoning, situation, self.reasoning_strip)
            # A text that is cut by the token limit has no added token after it.
            after = self.blanks and (output.reasoning_closed or output.section_begun)
            pieces.append(piece.surrounded(before=blank_first, after=after))
        content_first = output.reasoning is None
        if content_first or output.reasoning_closed:
            piece = self._piece("content", output.content, situation, self.content_strip)
            before = blank_first if content_first else self.blanks
            piece = piece.surrounded(before=before and bool(output.content), after=self.blanks and output.section_begun)
            if self.blank_content_is_null and output.section_begun and not piece.text.strip():
                piece = piece.without_text()
            pieces.append(piece)
        for position, call in enumerate(output.calls):
            pieces.append(self._call_piece(call, position, situation))
        return pieces

    def _piece(self, field: Literal["reasoning", "content"], ids: Sequence[int], at: Situation, strip: Strip) -> Piece:
        texts = at.target.vocabulary.texts_of(ids, drop_incomplete=self.incomplete == "dropped")
        if self.nfc:
            texts = tuple(unicodedata.normalize("NFC", text) for text in texts)
        return Piece(field, texts, strip=strip)

    def _call_piece(self, call: Call, position: int, situation: Situation) -> Piece:
        vocabulary = situation.target.vocabulary
        header = "".join(vocabulary.texts_of(call.header)).strip()
        texts = vocabulary.texts_of(call.arguments or (), drop_incomplete=self.incomplete == "dropped")
        written = self.written_arguments("".join(texts), situation.streamed)
        piece = Piece(
            "tool_calls",
            texts if written == "".join(texts) else (written,),
            call=position,
            id=self.tool_id(header, position, situation),
            name=name_in(header),
        )
        # A parser that keeps the blanks of a stream keeps those that the detokeniser put in.
        padded = self.blanks and situation.streamed
        return piece.surrounded(before=padded and call.arguments is not None, after=padded and call.closed)

    def _reasoning_tokens(self, output: Output) -> int | None:
        if self.reasoning_count is None or output.reasoning is None:
            return None
        if self.reasoning_count == "zero":
            return 0
        return len(output.reasoning) + (output.reasoning_closed and self.reasoning_count == "with_end")


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


def frames_text(frames: Sequence[Frame], field: str) -> str:
    """What a client that joins the deltas of one field reads."""
    return "".join(frame.text for frame in frames if frame.field == field)
