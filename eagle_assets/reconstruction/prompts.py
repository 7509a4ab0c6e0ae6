"""The prompt side: which rendering of tools and history a provider used, as far as its `prompt_tokens` tell.

A rendering is believed where it has the length that the provider counted, but for a constant that is explained, in
nearly all of its prompts of that kind. Renderings of the same length cannot be told apart, and stay open.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from eagle_assets.openrouter.values import as_dict, as_list
from eagle_assets.reconstruction.evidence.reading import Reading
from eagle_assets.reconstruction.once import once
from eagle_assets.reconstruction.verdict import Verdict
from eagle_assets.targets.prompt import PromptError, prompt_ids
from eagle_assets.targets.target import Target

Kind = Literal["text", "tools", "history", "tools and history"]
"""What in a prompt servers render differently: nothing, declared tools, answers and results of earlier turns."""

Offset = Literal[0, 1, -1]
"""`prompt_tokens` minus the rendering's length: +1 is `[BOS]` ahead of it; −1 is a `<think>` at the end that is
generated and not part of the prompt."""

MIN_CLOSING_SHARE = 0.75
"""Share of a provider's prompts of a kind whose count a form must meet: 7 of 8 do at one that renders the template."""

MIN_CLOSED = 3
"""Counts that must be met before any is evidence."""

TEMPLATE = "the model's template"


@dataclass(frozen=True, slots=True)
class PromptForm:
    """A way to make the prompt: a rendering by name, and what stands before it or lacks after it."""

    rendering: str
    offset: Offset

    @property
    def name(self) -> str:
        return self.rendering + {0: "", 1: ", [BOS] ahead", -1: ", <think> left to be generated"}[self.offset]

    def expected(self, thinking: bool) -> int:
        """`prompt_tokens` minus the rendering's length; without thinking no `<think>` is left open."""
        return self.offset if thinking or self.offset > 0 else 0

    def ids(self, rendered: list[int], thinking: bool, target: Target) -> list[int]:
        """The prompt's ids under this form."""
        if self.offset > 0:
            return [target.vocabulary.special_id("[BOS]"), *rendered]
        return rendered[:-1] if self.expected(thinking) < 0 else rendered


@dataclass(frozen=True, slots=True)
class PromptObservation:
    """`differences`: `prompt_tokens` minus the length of each rendering, by its name."""

    model: str
    provider: str
    kind: Kind
    thinking: bool
    differences: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Met:
    """How many counted prompts of a kind a form meets."""

    form: PromptForm
    times: int


@dataclass(frozen=True)
class PromptGroup:
    """The counted prompts of one model at one provider: how many of each kind, and the forms that meet any of them.

    `unmet` are the differences from the template of those that no form meets.
    """

    model: str
    provider: str
    counted: Mapping[Kind, int]
    met: Mapping[Kind, tuple[Met, ...]]
    unmet: Mapping[Kind, Mapping[int, int]]

    @once
    def standing(self, kind: Kind) -> list[PromptForm]:
        """The forms that explain the prompts of a kind.

        What is ahead of a prompt is the same for every kind, and tools are declared alike with a history as without.
        """
        forms = [met.form for met in self._explaining(kind)]
        for other in self.counted:
            found = [met.form for met in self._explaining(other) if met.times >= MIN_CLOSED]
            if found:
                offsets = {form.offset for form in found}
                forms = [form for form in forms if form.offset in offsets]
            if found and kind == "tools and history" and other == "tools":
                forms = [form for form in forms if form in found]
        return forms

    def _explaining(self, kind: Kind) -> list[Met]:
        wanted = MIN_CLOSING_SHARE * self.counted.get(kind, 0)
        return [met for met in self.met.get(kind, ()) if met.times >= wanted]

    @once
    def times_met(self, offset: Offset) -> int:
        """Prompts of any kind whose counts fit what this offset says of what is ahead of a prompt and after it."""
        return sum(
            max((met.times for met in forms if met.form.offset == offset), default=0) for forms in self.met.values()
        )


@dataclass(frozen=True, slots=True)
class PromptCalibration:
    """Groups by model and provider."""

    groups: Mapping[tuple[str, str], PromptGroup] = field(default_factory=dict)

    def of(self, reading: Reading) -> PromptGroup | None:
        """The group that speaks for a reading."""
        return self.groups.get((reading.target_name, reading.provider or ""))


@dataclass(frozen=True, slots=True)
class PromptVerdict:
    """`exact` where the server gave the prompt's ids, `consistent` where one form meets its count, else `unverified`
    with the reason. `ids` are those of the form, or of the template where none is decided; None without any."""

    verdict: Verdict
    reason: str
    ids: list[int] | None


def kind_of(request: Mapping[str, Any]) -> Kind:
    """What of a request can be rendered in several ways."""
    messages = map(as_dict, as_list(request.get("messages")))
    if any(message.get("role") in ("assistant", "tool") for message in messages):
        return "tools and history" if request.get("tools") else "history"
    return "tools" if request.get("tools") else "text"


def renderings(target: Target, request: dict[str, Any]) -> dict[str, list[int]]:
    """The known renderings of a request, by name, the model's template first; raises PromptError.

    K2.5 declares tools in one way only. Servers of K2 differ in the JSON in which they declare them.
    """
    found = {TEMPLATE: prompt_ids(target, request)}
    tools = request.get("tools")
    if tools and target.thinking == "never":
        without = prompt_ids(target, {**request, "tools": None})
        special, encode = target.vocabulary.special_id, target.vocabulary.encode
        head = [special("<|im_system|>"), *encode("tool_declare"), special("<|im_middle|>")]
        for name, declare in _DECLARATIONS.items():
            try:
                declared = encode(declare(tools))
            except (TypeError, KeyError, ValueError, RecursionError):
                continue
            found[name] = [*head, *declared, special("<|im_end|>"), *without]
    return found


def observe_prompt(reading: Reading) -> PromptObservation | None:
    """What a reading says of how its provider renders prompts; None without a count or a rendering."""
    situation, counted = reading.situation, reading.response.prompt_tokens
    if situation is None or not counted:
        return None
    try:
        rendered = renderings(situation.target, reading.exchange.request)
    except PromptError:
        return None
    return PromptObservation(
        model=situation.target.name,
        provider=reading.provider or "",
        kind=kind_of(reading.exchange.request),
        thinking=situation.thinking,
        differences={name: counted - len(ids) for name, ids in rendered.items()},
    )


def calibrate_prompts(observations: Iterable[PromptObservation]) -> PromptCalibration:
    """The forms that each provider's prompts fit; only counts are kept of them."""
    counted: dict[tuple[str, str], Counter[Kind]] = defaultdict(Counter)
    met: dict[tuple[str, str], dict[Kind, Counter[PromptForm]]] = defaultdict(lambda: defaultdict(Counter))
    unmet: dict[tuple[str, str], dict[Kind, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for seen in observations:
        key = (seen.model, seen.provider)
        counted[key][seen.kind] += 1
        meeting = [
            form
            for rendering, difference in seen.differences.items()
            for form in _forms(rendering)
            if form.expected(seen.thinking) == difference
        ]
        met[key][seen.kind].update(meeting)
        if not meeting:
            unmet[key][seen.kind][seen.differences[TEMPLATE]] += 1
    return PromptCalibration(
        {key: PromptGroup(*key, counted[key], _met(met[key]), dict(unmet[key])) for key in counted}
    )


def judge_prompt(
    reading: Reading, rendered: Mapping[str, list[int]] | None, group: PromptGroup | None
) -> PromptVerdict:
    """The verdict on a reading's prompt; `rendered` is what `renderings` gives for it, None where it cannot."""
    given, counted = reading.response.prompt_token_ids, reading.response.prompt_tokens
    if given:
        ids = list(given)
        if counted and counted != len(ids):
            return PromptVerdict("unverified", f"given_prompt_ids_differ_from_count: {counted - len(ids):+d}", ids)
        return PromptVerdict("exact", "prompt_token_ids", ids)
    if rendered is None or reading.situation is None:
        return PromptVerdict("unverified", "prompt_not_rendered", None)
    template, thinking = rendered[TEMPLATE], reading.situation.thinking
    if not counted or group is None:
        return PromptVerdict("unverified", "prompt_not_counted", template)
    kind = kind_of(reading.exchange.request)
    standing = group.standing(kind)
    if not standing:
        return PromptVerdict("unverified", "prompt_rendering_unknown", template)
    meeting = [
        form
        for form in standing
        if form.rendering in rendered and counted - len(rendered[form.rendering]) == form.expected(thinking)
    ]
    if not meeting:
        return PromptVerdict("unverified", f"prompt_count_differs: {counted - len(template):+d}", template)
    candidates = {
        tuple(form.ids(rendered[form.rendering], thinking, reading.situation.target)): form for form in meeting[::-1]
    }
    ids = meeting[0].ids(rendered[meeting[0].rendering], thinking, reading.situation.target)
    if len(candidates) > 1:
        names = " or ".join(form.name for form in list(candidates.values())[::-1])
        return PromptVerdict("unverified", f"prompt_rendering_undecided: {names}", ids)
    times = group.times_met(meeting[0].offset)
    if times < MIN_CLOSED:
        return PromptVerdict("unverified", f"prompt_counts_too_few: {times}", ids)
    return PromptVerdict("consistent", f"prompt_count_closes: {meeting[0].name}", ids)


def _met(forms: Mapping[Kind, Counter[PromptForm]]) -> dict[Kind, tuple[Met, ...]]:
    return {kind: tuple(Met(form, times) for form, times in counts.items()) for kind, counts in forms.items()}


def _forms(rendering: str) -> tuple[PromptForm, ...]:
    return PromptForm(rendering, 0), PromptForm(rendering, 1), PromptForm(rendering, -1)


def _function(tool: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    return {key: value for key, value in tool["function"].items() if strict or key != "strict"}


def _without_strict(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**tool, "function": _function(tool, strict=False)} for tool in tools]


def _type_first(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": tool["function"]} for tool in tools]


def _compact(value: object, *, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def _headed(value: object, *, sort_keys: bool = False) -> str:
    """As the later template of K2-0905 declares tools."""
    return f"\n  # Tools\n  {json.dumps(value, ensure_ascii=False, sort_keys=sort_keys)}"


# Besides the template's `json.dumps(tools, sort_keys=True)`. In brackets who fits, in recorded traffic.
_DECLARATIONS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "tools in the order sent": lambda tools: json.dumps(tools, ensure_ascii=False),
    # Moonshot AI, Novita
    "compact tools without `strict`": lambda tools: _compact(_without_strict(tools)),
    "compact tools without `strict`, keys sorted": lambda tools: _compact(_without_strict(tools), sort_keys=True),
    # Together
    "# Tools, in the order sent": _headed,
    # BaseTen
    "# Tools, type first": lambda tools: _headed(_type_first(tools)),
    # Groq
    "# Tools, without `strict`": lambda tools: _headed(_without_strict(tools)),
    "# Tools, without `strict`, type first": lambda tools: _headed(_type_first(_without_strict(tools))),
    # Chutes: SGLang hands the template the functions alone
    "# Tools, functions alone": lambda tools: _headed([tool["function"] for tool in tools], sort_keys=True),
}
