"""What two conventions can differ in, rule by rule, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from eagle_assets.reconstruction.calibrating.survivor import EDGES, Hypothesis
from eagle_assets.reconstruction.places import Place
from eagle_assets.serving.convention import Edge

Rule = Edge | Literal["think_generated", "stop_counted", "think_end", "section_end", "arguments_rewritten"]
"""An edge stands for whether the server puts a blank in there."""


def rules_between(one: Hypothesis, other: Hypothesis) -> tuple[Rule, ...]:
    """The rules in which two conventions differ, in a fixed order; empty for the same convention twice."""
    return tuple(_differing(one, other))


def _differing(one: Hypothesis, other: Hypothesis) -> Iterator[Rule]:
    for edge in EDGES:
        if (edge in one.inserted) != (edge in other.inserted):
            yield edge
    if one.counting.think_generated != other.counting.think_generated:
        yield "think_generated"
    if one.counting.stop_counted != other.counting.stop_counted:
        yield "stop_counted"
    if one.counting.think_end_counted != other.counting.think_end_counted:
        yield "think_end"
    if one.counting.section_end_open != other.counting.section_end_open:
        yield "section_end"
    if one.rewrites_arguments != other.rewrites_arguments:
        yield "arguments_rewritten"


def as_supposed(rule: Rule, hypothesis: Hypothesis) -> str:
    """What a convention supposes in this rule."""
    if rule == "think_generated":
        return "<think> is generated" if hypothesis.counting.think_generated else "<think> is part of the prompt"
    if rule == "stop_counted":
        return "the stop token is counted" if hypothesis.counting.stop_counted else "the stop token is not counted"
    if rule == "think_end":
        return "</think> is counted" if hypothesis.counting.think_end_counted else "</think> is not counted"
    if rule == "section_end":
        counted = {True: "not counted", False: "not generated", None: "not counted or not generated"}
        generated = hypothesis.counting.section_end_generated
        said = counted[generated] if hypothesis.counting.section_end_open else "counted"
        return f"the token that closes a tool section is {said}"
    if rule == "arguments_rewritten":
        return "arguments are written anew, compactly" if hypothesis.rewrites_arguments else "arguments are kept"
    return f"the server puts {'a' if rule in hypothesis.inserted else 'no'} blank in at the {in_words(rule)}"


def question(rule: Rule) -> str:
    """What is open where conventions that differ in this rule still stand."""
    if rule == "think_generated":
        return "whether <think> is generated or part of the prompt"
    if rule == "stop_counted":
        return "whether the stop token is counted"
    if rule == "think_end":
        return "whether </think> is counted"
    if rule == "section_end":
        return "whether the token that closes a tool section is counted"
    if rule == "arguments_rewritten":
        return "whether arguments are written anew, compactly"
    return f"whether the blank at the {in_words(rule)} is the server's"


def what_would_settle(rule: Rule) -> str:
    """What a response must show to tell apart conventions that differ in this rule."""
    if rule == "think_generated":
        return "a short answer with thinking whose texts have one reading, and its prompt_tokens"
    if rule == "stop_counted":
        return "a short answer without tools whose texts have one reading"
    if rule == "think_end":
        return "a short answer with thinking beside one without"
    if rule == "section_end":
        return "an answer with a tool call beside one without"
    if rule == "arguments_rewritten":
        return "a call with arguments whose count changes with their spacing"
    side = "begin" if rule.endswith("_start") else "end"
    text = {"reasoning": "a reasoning", "content": "a content", "answer": "a content", "arguments": "arguments"}[
        rule.partition("_")[0]
    ]
    verb = side if text == "arguments" else f"{side}s"
    return f"{text} that {verb} in a word whose count changes with a blank, or without a blank at all"


def in_words(edge: Place) -> str:
    if edge == "blank_reasoning":
        return "place of a reasoning without text"
    if edge == "blank_content":
        return "place of a content before calls"
    if edge == "message_end":
        return "end of the message"
    if edge == "answer_start":
        return "start of an answer that does not think"
    text, _, side = edge.partition("_")
    return f"{side} of the {text}"
