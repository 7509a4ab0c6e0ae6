"""What the sandbox's model says: a reply that fits the packaged prompts, and some reply to any other.

The texts lie in `replies.yaml`: passages that are given where the question holds one of their words, and the
sentences of which thoughts and essays are put together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from eagle_assets.sandbox.calls import Call, calls_for, next_index
from eagle_assets.sandbox.maths import worked_answer

WORDS_OF_A_TOPIC = 6


@dataclass(frozen=True)
class Reply:
    """`reasoning` is None where the model does not think."""

    reasoning: str | None
    content: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Passage:
    """`text` answers a question that holds one of the words of `when`, lower case."""

    when: tuple[str, ...]
    text: str
    thoughts: str = ""


@dataclass(frozen=True)
class Texts:
    """The contents of `replies.yaml`. `thoughts` (by language) and `essay` are sentences by their place."""

    passages: tuple[Passage, ...]
    thoughts: Mapping[str, Mapping[str, list[str]]]
    essay: Mapping[str, list[str]]


@cache
def texts() -> Texts:
    raw = yaml.load(Path(__file__).with_name("replies.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    passages = tuple(Passage(tuple(p["when"]), p["text"], p.get("thoughts", "")) for p in raw["passages"])
    return Texts(passages, raw["thoughts"], raw["essay"])


def reply_to(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], thinking: bool, rng: Random
) -> Reply:
    """The model's reply; the same for the same arguments and state of `rng`."""
    question = _last_question(messages)
    sentences = texts().thoughts["zh" if _is_chinese(question) else "en"]
    calls: tuple[Call, ...] = ()
    if messages[-1].get("role") == "tool":
        content, steps = _report(messages, rng), sentences["reports"]
    elif tools and (calls := calls_for(question, tools, next_index(messages), rng)):
        names = ", ".join(dict.fromkeys(call.id.removeprefix("functions.").partition(":")[0] for call in calls))
        content = rng.choice(["", "", f"I'll look that up with {names}.", "Let me check that for you."])
        steps = [step.replace("{names}", names) for step in sentences["calls"]]
    else:
        content, steps = _answer(question, rng)
    return Reply(_thoughts(question, sentences, steps, rng) if thinking else None, content, calls)


def _answer(question: str, rng: Random) -> tuple[str, list[str]]:
    worked = worked_answer(question)
    if worked:
        return worked.content, worked.thoughts
    lowered = question.lower()
    for passage in texts().passages:
        if any(word in lowered for word in passage.when):
            return passage.text, passage.thoughts.splitlines()
    return _essay(question, rng), []


def _thoughts(question: str, sentences: Mapping[str, list[str]], steps: Sequence[str], rng: Random) -> str:
    """An opening, the steps of the matter itself, some second thoughts, and a decision."""
    topic = _topic(question)
    parts = [rng.choice(sentences["openings"]), *steps]
    parts += rng.sample(sentences["middles"], rng.randint(1, 5))
    parts.append(rng.choice(sentences["closings"]))
    gap = rng.choice([" ", "\n", "\n\n"])
    return gap.join(part.replace("{topic}", topic) for part in parts)


def _essay(question: str, rng: Random) -> str:
    """Prose on the question's own words: a few paragraphs, or many sections where length is asked for."""
    essay, topic = texts().essay, _topic(question)

    def paragraph(sentences: int) -> str:
        chosen = rng.sample(essay["sentences"], sentences)
        return " ".join(s.replace("{topic}", topic).replace("{aspect}", rng.choice(essay["aspects"])) for s in chosen)

    opening = rng.choice(essay["openings"]).replace("{topic}", topic)
    asked = re.search(r"(\d+) (?:sections|chapters|parts)", question)
    sections = min(int(asked[1]), 40) if asked else 0
    if not sections:
        return "\n\n".join([opening, *(paragraph(rng.randint(2, 5)) for _ in range(rng.randint(1, 3)))])
    aspects = rng.sample(essay["aspects"], min(sections, len(essay["aspects"])))
    aspects += rng.choices(essay["aspects"], k=sections - len(aspects))
    bodies = ("\n\n".join(paragraph(rng.randint(3, 6)) for _ in range(2)) for _ in aspects)
    headed = (f"## {i}. {a.capitalize()}\n\n{body}" for i, (a, body) in enumerate(zip(aspects, bodies, strict=True), 1))
    return "\n\n".join([opening, *headed])


def _report(messages: Sequence[Mapping[str, Any]], rng: Random) -> str:
    """What the tools' results since the last call say."""
    results: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        results.insert(0, _text_of(message).strip())
    opening = rng.choice(["Here is what I found:", "The results are in.", "Done.", "Both the question and the data:"])
    return "\n".join([opening, "", *(f"- {result}" for result in results)])


def _last_question(messages: Sequence[Mapping[str, Any]]) -> str:
    return next((_text_of(m) for m in reversed(messages) if m.get("role") == "user"), "")


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _topic(question: str) -> str:
    """The question's first words, shortened: what a thought refers back to."""
    words = question.split()
    topic = " ".join(words[:WORDS_OF_A_TOPIC])[:60]
    return topic.rstrip(" .,:;?!。？、") or "this"


def _is_chinese(text: str) -> bool:
    """More Han characters than Latin letters, and no kana or Hangul."""
    han, latin = re.findall(r"[\u4e00-\u9fff]", text), re.findall(r"[A-Za-z]", text)
    return len(han) > len(latin) and not re.search(r"[\u3040-\u30ff\uac00-\ud7af]", text)
