"""Worked answers to the kinds of sums that the packaged maths prompts ask for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple


class Worked(NamedTuple):
    """`thoughts` are the steps as one thinks them, `content` is the answer as one writes it."""

    thoughts: list[str]
    content: str


def worked_answer(question: str) -> Worked | None:
    """The first kind of sum that the question fits, worked out; None where it fits none."""
    for pattern, work in _KINDS:
        found = pattern.search(question)
        if found:
            return work(*(int(number) for number in re.findall(r"\d+", found[0])))
    return None


def _product(a: int, b: int) -> Worked:
    tens, units = b - b % 10, b % 10
    thoughts = [
        f"{a} × {b}: I split {b} into {tens} and {units}.",
        f"{a} × {tens} = {a * tens}, and {a} × {units} = {a * units}.",
        f"{a * tens} + {a * units} = {a * b}. Check the last digit: {a % 10} × {units} ends in {a * b % 10}. Good.",
    ]
    content = (
        f"{a} × {b} = **{a * b}**\n\nSplit the second factor:\n\n- {a} × {tens} = {a * tens}\n"
        f"- {a} × {units} = {a * units}\n\nThe sum of both is {a * b}."
    )
    return Worked(thoughts, content)


def _linear(a: int, b: int, c: int) -> Worked:
    x = Fraction(c - b, a)
    thoughts = [
        f"{a}x + {b} = {c}, so {a}x = {c} - {b} = {c - b}.",
        f"Dividing by {a}: x = {c - b}/{a} = {x}.",
        f"Check: {a} · {x} + {b} = {a * x + b}. Right.",
    ]
    content = (
        f"Subtract {b} from both sides:\n\n\\[ {a}x = {c - b} \\]\n\nDivide by {a}:\n\n\\[ x = {x} \\]\n\n**x = {x}**"
    )
    return Worked(thoughts, content)


def _discount(price: int, percent: int) -> Worked:
    off = Fraction(price * percent, 100)
    thoughts = [
        f"{percent} % of {price} is {price} × {percent}/100 = {float(off):.2f}.",
        f"So the price after the discount is {price} - {float(off):.2f} = {float(price - off):.2f}.",
    ]
    content = (
        f"**${float(price - off):.2f}**\n\n1. The discount is {percent} % of ${price}: ${float(off):.2f}.\n"
        f"2. Take it off: ${price} − ${float(off):.2f} = ${float(price - off):.2f}."
    )
    return Worked(thoughts, content)


def _common_divisor(a: int, b: int) -> Worked:
    steps, x, y = [], max(a, b), min(a, b)
    while y:
        steps.append(f"{x} = {x // y} · {y} + {x % y}")
        x, y = y, x % y
    thoughts = ["Euclid's algorithm.", *steps, f"The last remainder that is not zero is {x}."]
    lines = "\n".join(f"    {step}" for step in steps)
    return Worked(thoughts, f"Euclid's algorithm gives\n\n{lines}\n\nso the greatest common divisor is **{x}**.")


def _factors(n: int) -> Worked:
    primes, rest, divisor = [], n, 2
    thoughts = []
    while rest > 1:
        while rest % divisor == 0:
            thoughts.append(f"{rest} / {divisor} = {rest // divisor}")
            primes.append(divisor)
            rest //= divisor
        divisor += 1
    powers = " × ".join(f"{p}^{primes.count(p)}" if primes.count(p) > 1 else str(p) for p in sorted(set(primes)))
    thoughts.append(f"So {n} = {' × '.join(map(str, primes))}.")
    divisions = "\n".join(thoughts[:-1])
    return Worked(thoughts, f"{n} = {powers}\n\nDividing by the smallest prime each time:\n\n{divisions}")


def _series(first: int, last: int) -> Worked:
    count, total = last - first + 1, (first + last) * (last - first + 1) // 2
    thoughts = [
        f"There are {last} - {first} + 1 = {count} terms.",
        f"Pair the first with the last: {first} + {last} = {first + last}.",
        f"The sum is {count} × {first + last} / 2 = {total}.",
    ]
    content = (
        f"The sum is **{total}**.\n\n$$S = \\frac{{n(a_1 + a_n)}}{{2}} = "
        f"\\frac{{{count} \\cdot ({first} + {last})}}{{2}} = {total}$$"
    )
    return Worked(thoughts, content)


def _quadratic(b: int, c: int) -> Worked:
    discriminant = b * b - 4 * c
    root = math.isqrt(max(discriminant, 0))
    thoughts = [f"x² - {b}x + {c} = 0. The discriminant is {b}² - 4·{c} = {discriminant}."]
    if discriminant < 0 or root * root != discriminant:
        shown = f"x = \\frac{{{b} \\pm \\sqrt{{{discriminant}}}}}{{2}}"
        thoughts.append("That is no perfect square, so the roots stay under the root sign.")
        return Worked(thoughts, f"By the quadratic formula\n\n$$ {shown} $$")
    low, high = Fraction(b - root, 2), Fraction(b + root, 2)
    thoughts += [f"√{discriminant} = {root}.", f"x = ({b} ± {root})/2, so x = {low} or x = {high}."]
    return Worked(thoughts, f"Factorise:\n\n$$ (x - {low})(x - {high}) = 0 $$\n\n**x = {low}** or **x = {high}**")


def _mean(*values: int) -> Worked:
    total, ordered = sum(values), sorted(values)
    middle = len(values) // 2
    median = Fraction(ordered[middle] + ordered[~middle], 2)
    thoughts = [
        f"Sum: {' + '.join(map(str, values))} = {total}. There are {len(values)} of them.",
        f"Mean = {total}/{len(values)} = {float(Fraction(total, len(values))):.3g}.",
        f"Sorted: {', '.join(map(str, ordered))}. The median is {float(median):g}.",
    ]
    content = (
        "| figure | value |\n|---|---|\n"
        f"| sum | {total} |\n| mean | {float(Fraction(total, len(values))):.3g} |\n| median | {float(median):g} |"
    )
    return Worked(thoughts, content)


def _hypotenuse(a: int, b: int) -> Worked:
    square = a * a + b * b
    root = math.isqrt(square)
    shown = str(root) if root * root == square else f"√{square} ≈ {math.sqrt(square):.4f}"
    thoughts = [f"c² = {a}² + {b}² = {a * a} + {b * b} = {square}.", f"c = {shown}."]
    return Worked(thoughts, f"By Pythagoras:\n\nc² = {a}² + {b}² = {square}\n\nc = **{shown}**")


def _choices(k: int, n: int) -> Worked:
    ways = math.comb(n, k)
    thoughts = [
        "The order does not matter, so this is a binomial coefficient.",
        f"C({n}, {k}) = {n}! / ({k}! · {n - k}!) = {ways}.",
    ]
    return Worked(thoughts, f"\\(\\binom{{{n}}}{{{k}}} = {ways}\\)\n\nSo there are **{ways}** ways.")


_KINDS: list[tuple[re.Pattern[str], Callable[..., Worked]]] = [
    (re.compile(r"\d+ ?[×*] ?\d+"), _product),
    (re.compile(r"(?<!\^2 - )\b\d+x \+ \d+ = \d+"), _linear),
    (re.compile(r"\$\d+[^$]*? \d+ ?(?:%|percent)"), _discount),
    (re.compile(r"greatest common divisor of \d+ and \d+"), _common_divisor),
    (re.compile(r"prime factors of \d+"), _factors),
    (re.compile(r"integers from \d+ to \d+"), _series),
    (re.compile(r"(?<=\^2 - )\d+x \+ \d+"), _quadratic),
    (re.compile(r"(?:mean|median) of (?:\d+, )+\d+"), _mean),
    (re.compile(r"legs of \d+ (?:cm )?and \d+"), _hypotenuse),
    (re.compile(r"choose \d+ [a-z]+ (?:from|out of) \d+"), _choices),
]
