"""The providers behind the sandbox: what each charges, how it serves, and its bad habits. Names are invented,
save the two that routing must always exclude."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, STOP_NOT_COUNTED, THINK_GENERATED, VERBATIM

TRIMMED = replace(VERBATIM, name="verbatim, trimmed at both ends", reasoning_strip="both", content_strip="both")


@dataclass(frozen=True)
class Habits:
    """How a provider misbehaves. `*_every` is n where each n-th request fails so, 0 for never; `cuts_stream` is the
    number of the one streamed request that breaks off in the middle, 0 for none."""

    rate_limited_every: int = 0
    bad_gateway_every: int = 0
    error_in_200_every: int = 0
    cuts_stream: int = 0
    keep_alives: int = 2


@dataclass(frozen=True)
class Provider:
    """An endpoint. Prices are US dollars a token, as OpenRouter writes them; the most tokens that a stream sends
    at once is `tokens_per_step`; `usage_frame_has_choice` is False where a stream's usage comes with no choice."""

    name: str
    slug: str
    quantization: str
    prompt_price: Decimal
    completion_price: Decimal
    convention: Convention
    context_length: int = 262_144
    max_completion_tokens: int = 65_536
    tokens_per_step: int = 1
    gives_token_ids: bool = False
    usage_frame_has_choice: bool = True
    habits: Habits = Habits()

    def cost(self, prompt_tokens: int, completion_tokens: int) -> tuple[Decimal, Decimal]:
        """Dollars for the prompt and for the completion."""
        return self.prompt_price * prompt_tokens, self.completion_price * completion_tokens

    def endpoint(self, model: str) -> dict[str, object]:
        """The entry of `/models/{author}/{slug}/endpoints`."""
        return {
            "name": f"{self.name} | {model}",
            "model_id": model,
            "context_length": self.context_length,
            "pricing": {
                "prompt": f"{self.prompt_price:f}",
                "completion": f"{self.completion_price:f}",
                "request": "0",
                "discount": 0,
            },
            "provider_name": self.name,
            "tag": f"{self.slug}/{self.quantization}",
            "quantization": self.quantization,
            "max_completion_tokens": self.max_completion_tokens,
            "max_prompt_tokens": None,
            "supported_parameters": list(SUPPORTED_PARAMETERS),
            "status": 0,
        }


SUPPORTED_PARAMETERS = (
    "frequency_penalty",
    "include_reasoning",
    "max_tokens",
    "presence_penalty",
    "reasoning",
    "seed",
    "stop",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
)


@cache
def all_providers() -> tuple[Provider, ...]:
    """Every provider, the excluded ones included. The comments name what each stands for."""
    return (
        # SGLang 0.5.23: shows the text as it is.
        Provider(
            name="Lakeside",
            slug="lakeside",
            quantization="int4",
            prompt_price=Decimal("0.0000004"),
            completion_price=Decimal("0.0000016"),
            convention=VERBATIM,
            habits=Habits(rate_limited_every=9, keep_alives=3),
        ),
        # The same, and says which ids it generated.
        Provider(
            name="Meridian Compute",
            slug="meridian",
            quantization="int4",
            prompt_price=Decimal("0.0000006"),
            completion_price=Decimal("0.0000027"),
            convention=VERBATIM,
            gives_token_ids=True,
            usage_frame_has_choice=False,
            habits=Habits(cuts_stream=5),
        ),
        # vLLM's default: a blank on both sides of every added token; several tokens a step.
        Provider(
            name="Harbour AI",
            slug="harbour",
            quantization="int4",
            prompt_price=Decimal("0.00000045"),
            completion_price=Decimal("0.0000019"),
            convention=BLANKS_ROUND_ADDED_TOKENS,
            tokens_per_step=4,
            habits=Habits(bad_gateway_every=11),
        ),
        # `<think>` is not in its prompt but generated; its parser shortens tool ids.
        Provider(
            name="Tundra Cloud",
            slug="tundra",
            quantization="int4",
            prompt_price=Decimal("0.0000005"),
            completion_price=Decimal("0.0000022"),
            convention=THINK_GENERATED,
            usage_frame_has_choice=False,
            habits=Habits(error_in_200_every=13, keep_alives=5),
        ),
        # Does not count the stop token.
        Provider(
            name="Copperline",
            slug="copperline",
            quantization="int4",
            prompt_price=Decimal("0.00000055"),
            completion_price=Decimal("0.0000025"),
            convention=STOP_NOT_COUNTED,
            tokens_per_step=2,
        ),
        # Trims texts at both ends, so that what it sends cannot be trusted.
        Provider(
            name="Quillhost",
            slug="quillhost",
            quantization="int4",
            prompt_price=Decimal("0.0000006"),
            completion_price=Decimal("0.0000029"),
            convention=TRIMMED,
            habits=Habits(keep_alives=0),
        ),
        # The two that serve requantised weights: nothing of theirs may be bought.
        Provider(
            name="Fireworks",
            slug="fireworks",
            quantization="nvfp4",
            prompt_price=Decimal("0.0000006"),
            completion_price=Decimal("0.000003"),
            convention=VERBATIM,
        ),
        Provider(
            name="BaseTen",
            slug="baseten",
            quantization="fp4",
            prompt_price=Decimal("0.0000006"),
            completion_price=Decimal("0.000003"),
            convention=VERBATIM,
        ),
    )
