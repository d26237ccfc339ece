"""Long arithmetic: sums, products and differences of long integers."""

from __future__ import annotations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question

_LADDER = (
    "a sum of two 4-digit numbers",
    "a product of a 4-digit and a 3-digit number",
    "a product of two 6-digit numbers",
    "a product of two 8-digit numbers plus a 12-digit number",
)


def _draw(draw: Draw, level: int) -> Question:
    """Return an expression over integers; the target is a string of its digits."""
    if level == 1:
        a, b = draw.digits(4), draw.digits(4)
        text, value = f"{a} + {b}", a + b
    elif level == 2:
        a, b = draw.digits(4), draw.digits(3)
        text, value = f"{a} * {b}", a * b
    elif level == 3:
        a, b = draw.digits(6), draw.digits(6)
        text, value = f"{a} * {b}", a * b
    else:
        a, b, c = draw.digits(8), draw.digits(8), draw.digits(12)
        text, value = f"{a} * {b} + {c}", a * b + c
    prompt = f"What is {text}? Answer with the integer only."
    return Question(prompt, str(value), "digits", {"fallbacks": ["boxed", "line"]})


ARITHMETIC = Family("arith", "long integer arithmetic", _LADDER, _draw)
