"""Names of providers."""

from __future__ import annotations

import re

UNNAMED = "not named"
"""What stands in the place of a provider that nobody named."""


def plain_name(name: str) -> str:
    """A provider's name without what display names and slugs differ in: "Moonshot AI" and "moonshotai" are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
