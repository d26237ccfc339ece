"""Random draws that are the same on every machine and in every version of Python: SHA-256 in counter mode."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of draws that depends on its key alone; streams with different keys are independent.

    `turn` numbers the questions of a level, for a family that takes its templates in turn.

    >>> Draw("seed", "arith", 1, 0).below(1000) == Draw("seed", "arith", 1, 0).below(1000)
    True
    """

    def __init__(self, *key: str | int, turn: int = 0) -> None:
        self.turn = turn
        self._key = "\x1f".join(str(part) for part in key).encode()
        self._count = 0

    def below(self, bound: int) -> int:
        """Return a whole number from 0 to bound - 1, each as likely (256 bits modulo bound: a bias below 2**-128)."""
        self._count += 1
        block = hashlib.sha256(self._key + b"\x1e" + str(self._count).encode()).digest()
        return int.from_bytes(block, "big") % bound

    def between(self, low: int, high: int) -> int:
        """Return a whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def digits(self, count: int) -> int:
        """Return a whole number of exactly `count` decimal digits."""
        return self.between(10 ** (count - 1), 10**count - 1)

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return the options in a random order (Fisher-Yates)."""
        order = list(options)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Return `count` different ones of the options, in a random order."""
        return self.shuffled(options)[:count]
