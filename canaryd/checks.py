"""What a value of a configuration or a registration must be: each check returns why it is refused, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], str | None]

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def between(low: float, high: float) -> Check:
    """Return the check of a number in [low, high].

    >>> between(1, 9)(10), between(1, 9)(9)
    ('must be between 1 and 9', None)
    """
    return lambda value: None if low <= value <= high else f"must be between {low:g} and {high:g}"


def one_of(*allowed: str) -> Check:
    """Return the check of a word out of some."""
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def filled(value: str) -> str | None:
    """Check that a text holds something."""
    return None if value.strip() else "must not be empty"


def name(value: str) -> str | None:
    """Check an identity: small letters, digits, - and _."""
    allowed = "must be 1 to 63 small letters, digits, - and _, beginning with a letter or digit"
    return None if NAME.fullmatch(value) else allowed


def fraction(value: float) -> str | None:
    """Check a number in (0, 1)."""
    return None if 0 < value < 1 else "must be above 0 and below 1 (it is a fraction: 0.03 is 3 points)"


def share(value: float) -> str | None:
    """Check a number in (0, 1]."""
    return None if 0 < value <= 1 else "must be above 0 and at most 1 (it is a share)"


def confidence(value: float) -> str | None:
    """Check the confidence of an interval."""
    return None if 0.5 <= value <= 1 - 1e-12 else "must be at least 0.5 and below 1 (99 % is 0.99)"


def each_once(known: Collection[str]) -> Check:
    """Return the check of a list that names some of the known words, each once."""

    def check(values: list[Any]) -> str | None:
        good = values and all(value in known and values.count(value) == 1 for value in values)
        return None if good else f"must name each stream once, of {', '.join(known)}"

    return check


def numbers(low: float, high: float) -> Check:
    """Return the check of a list of numbers in [low, high]."""

    def check(values: list[Any]) -> str | None:
        good = values and all(is_number(value) and low <= value <= high for value in values)
        return None if good else f"must be a list of numbers between {low:g} and {high:g}"

    return check


def odds(values: list[Any]) -> str | None:
    """Check a list of odds above 1."""
    good = values and all(is_number(value) and 1 < value < 1e3 for value in values)
    return None if good else "must be a list of odds, each above 1"


def sentences(values: list[Any]) -> str | None:
    """Check a list of texts."""
    return None if all(isinstance(value, str) and value for value in values) else "must be a list of sentences"


def is_number(value: object) -> bool:
    """Whether a value is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
