"""Values of JSON that a stranger sent, taken as what they should be, or not at all."""

from __future__ import annotations

from typing import Any


def as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def as_name(value: object) -> str | None:
    """A text that is no text of the model: half surrogate pairs, which no encoding can write, are replaced."""
    if not isinstance(value, str):
        return None
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def as_count(value: object) -> int | None:
    """A count of tokens: a whole number that is not negative. Anything else is no count."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def as_amount(value: object) -> float | None:
    """An amount, of money or time, that can be one: a number that is not negative and not beyond all reason."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    return None


def as_ids(value: object) -> tuple[int, ...] | None:
    """A list of token ids, or None where it is none."""
    if isinstance(value, list) and value and all(type(i) is int for i in value):
        return tuple(value)
    return None
