"""The named conventions: what is known to be in use, and by whom."""

from __future__ import annotations

from dataclasses import replace

from eagle_assets.serving.convention import EVERY_EDGE, Convention

VERBATIM = Convention("verbatim", arguments="stripped", reasoning_count="with_end")
"""Nothing added, nothing stripped but the arguments of unstreamed answers: SGLang 0.5.23."""

BLANKS_ROUND_ADDED_TOKENS = Convention(
    "blanks round added tokens",
    blanks=EVERY_EDGE,
    reasoning_strip="right",
    blank_content_is_null=True,
    arguments="stripped",
    incomplete="dropped",
    reasoning_count="without_end",
)
"""vLLM's default for slow tokenizers, seen in 0.15.1, 0.19.0 and 0.33.0 (vllm-project/vllm#33457)."""

BARE_TOOL_IDS = replace(VERBATIM, name="verbatim, bare tool ids", tool_ids="bare")
"""Tool ids without `functions.`, as AtlasCloud and Moonshot AI send them."""

THINK_GENERATED = replace(BARE_TOOL_IDS, name="verbatim, <think> generated, bare tool ids", think_generated=True)
"""The prompt ends before `<think>`, so the model writes it and `prompt_tokens` is one short: AtlasCloud."""

STOP_NOT_COUNTED = replace(VERBATIM, name="verbatim, stop token not counted", stop_counted=False)
"""`completion_tokens` leaves the stop token out: SiliconFlow and DeepInfra, texts without tools."""
