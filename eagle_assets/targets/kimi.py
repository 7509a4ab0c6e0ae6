"""The Kimi K2 family: K2.5 (thinks unless told not to) and K2-0905 (never thinks)."""

from __future__ import annotations

from functools import cache

from eagle_assets.targets.target import Target, UnknownTarget
from eagle_assets.targets.vocabulary import kimi_vocabulary


@cache
def known_targets() -> tuple[Target, ...]:
    """All target models of the family, longest name first, so that the most exact name matches first."""
    vocabulary = kimi_vocabulary()
    return (
        Target("moonshotai/kimi-k2-0905", vocabulary, thinking="never"),
        Target("moonshotai/kimi-k2.5", vocabulary, thinking="switchable"),
    )


def target_named(model: str) -> Target:
    """The target that `model` (a slug, dated or not) names; raises UnknownTarget with the names that are known."""
    for target in known_targets():
        if target.is_named(model):
            return target
    names = ", ".join(t.name for t in known_targets())
    raise UnknownTarget(f"{model!r} is not a known target model; known are {names}")
