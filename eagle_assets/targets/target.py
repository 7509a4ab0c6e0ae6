"""A target model: what it is called, its vocabulary, and the markers of its output grammar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from eagle_assets.targets.vocabulary import Vocabulary

Thinking = Literal["always", "switchable", "never"]


class UnknownTarget(ValueError):
    """No target model of this name is known."""


@dataclass(frozen=True)
class Markers:
    """Ids of the special tokens that structure an output, each looked up by its text.

    Output grammar: `{reasoning}</think>{content}[section_begin (call_begin ID argument_begin ARGUMENTS
    call_end)+ section_end]<|im_end|>`; without thinking, from `{content}` on.
    """

    stop: int
    think_begin: int
    think_end: int
    section_begin: int
    section_end: int
    call_begin: int
    argument_begin: int
    call_end: int

    @classmethod
    def look_up(cls, vocabulary: Vocabulary) -> Markers:
        """Raises VocabularyError where a marker is not in the vocabulary."""
        return cls(
            stop=vocabulary.special_id("<|im_end|>"),
            think_begin=vocabulary.special_id("<think>"),
            think_end=vocabulary.special_id("</think>"),
            section_begin=vocabulary.special_id("<|tool_calls_section_begin|>"),
            section_end=vocabulary.special_id("<|tool_calls_section_end|>"),
            call_begin=vocabulary.special_id("<|tool_call_begin|>"),
            argument_begin=vocabulary.special_id("<|tool_call_argument_begin|>"),
            call_end=vocabulary.special_id("<|tool_call_end|>"),
        )


@dataclass(frozen=True)
class Target:
    """A target model. `name` is OpenRouter's slug without a date; `thinking` says whether a prompt may ask for it."""

    name: str
    vocabulary: Vocabulary
    thinking: Thinking

    def __hash__(self) -> int:
        return hash(self.name)  # targets are looked up by for every response

    @cached_property
    def markers(self) -> Markers:
        return Markers.look_up(self.vocabulary)

    def is_named(self, model: str) -> bool:
        """Whether a response's `model` names this target: its slug, dated or not, with any variant (`:free`)."""
        slug = model.partition(":")[0]
        return slug == self.name or slug.removeprefix(f"{self.name}-").isdigit()

    def thinks(self, request: dict[str, object]) -> bool:
        """Whether this request makes the model think: the prompt then ends inside `<think>`. OpenRouter's switches
        (`reasoning`, `reasoning_effort`) and the chat template's own count."""
        if self.thinking != "switchable":
            return self.thinking == "always"
        reasoning, template = request.get("reasoning"), request.get("chat_template_kwargs")
        asked = reasoning if isinstance(reasoning, dict) else {}
        if asked.get("enabled") is False or "none" in (asked.get("effort"), request.get("reasoning_effort")):
            return False
        return not (isinstance(template, dict) and template.get("thinking") is False)
