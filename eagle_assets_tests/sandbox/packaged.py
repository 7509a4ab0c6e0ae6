"""The packaged prompts as requests, for the tests of this room."""

from __future__ import annotations

from typing import Any

from eagle_assets.configuration import PACKAGED_DATASETS_FILE, load_configuration
from eagle_assets.openrouter.requests import build_request, read_prompts


def packaged_requests(*datasets: str, streamed: bool = True) -> list[dict[str, Any]]:
    """A request for each prompt of these datasets, as the collector sends it."""
    configuration = load_configuration(PACKAGED_DATASETS_FILE)
    return [
        build_request(prompt, configuration.bought[name], configuration) | {"stream": streamed}
        for name in datasets or configuration.bought
        for prompt in read_prompts(configuration.bought[name].prompts)
    ]
