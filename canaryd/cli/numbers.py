"""What a number on the command line must be: finite, and in its range."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of floats without the two that every comparison lets pass: nan is never outside, inf never above."""

    def convert(self, value: Any, *where: Any, **named: Any) -> float:
        """Return the number; `where` is for click, which says of which option it is.

        Raises:
            BadParameter: it is none, not finite, or outside the range.
        """
        number = super().convert(value, *where, **named)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number; write one such as 0.5.", *where, **named)
        return float(number)


#: Above 0 and at most 1.
SHARE = FiniteRange(0, 1, min_open=True)
#: Above 0 and below 1.
INSIDE = FiniteRange(0, 1, min_open=True, max_open=True)
