"""What follows from a calibration alone is worked out once, not anew for each response that is judged by it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def once(ask: Callable[Concatenate[Owner, Arguments], Answer]) -> Callable[Concatenate[Owner, Arguments], Answer]:
    """A question about a frozen object, answered once for the same arguments: few different ones, by position.

    The answers are kept in the object's `__dict__`, and end with it.
    """
    name = f"_once_{ask.__qualname__}"

    @wraps(ask)
    def answered(owner: Owner, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Answer:
        answers: dict[Hashable, Answer] = owner.__dict__.setdefault(name, {})
        try:
            return answers[arguments]
        except KeyError:
            answers[arguments] = answer = ask(owner, *arguments, **keywords)
            return answer

    return answered
