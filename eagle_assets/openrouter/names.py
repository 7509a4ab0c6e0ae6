"""Names of providers."""

from __future__ import annotations

import re


def plain_name(name: str) -> str:
    """A provider's name without what display names and slugs differ in: "Moonshot AI" and "moonshotai" are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
