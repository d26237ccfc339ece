"""Base conversion: a number written in another base."""

from __future__ import annotations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question

_DIGITS = "0123456789ABCDEF"
_LADDER = (
    "a number below 64 from decimal to binary",
    "a number below 4,096 from decimal to hexadecimal",
    "a number below 10,000 from decimal to base 7",
    "a 6-digit number from base 5 to base 9",
)
_BASES = ((10, 2), (10, 16), (10, 7), (5, 9))


def written(value: int, base: int) -> str:
    """Return a whole number above 0 in a base from 2 to 16.

    >>> written(255, 16), written(5, 2)
    ('FF', '101')
    """
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = _DIGITS[digit] + digits
    return digits


def _draw(draw: Draw, level: int) -> Question:
    """Return a number in one base to be written in another; the target is its digits."""
    low, high = ((17, 63), (257, 4095), (2500, 9999), (5**5, 5**6 - 1))[level - 1]
    value, (source, wanted) = draw.between(low, high), _BASES[level - 1]
    prompt = (
        f"The number {written(value, source)} is written in base {source}. Write it in base {wanted}, "
        "with capital letters for digits above 9, without a prefix and without leading zeros."
    )
    return Question(prompt, written(value, wanted), "exact", {"ignore_case": True, "fallbacks": ["boxed", "line"]})


BASES = Family("bases", "conversion between number bases", _LADDER, _draw)
