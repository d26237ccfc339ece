"""McNemar's test for one binary outcome per item and side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from canaryd.records import JsonValue
from canaryd.stats.estimate import figure


@dataclass(frozen=True, slots=True)
class McNemar:
    """The discordant pairs and what they say; `p_reported` is None, with the `reason`, where they are too few.

    `lost` passed before and fails now, `won` the reverse. `chi2_cc` is None without a discordant pair.
    """

    lost: int
    won: int
    chi2_cc: float | None
    p_chi2_cc: float | None
    p_exact: float
    p_mid: float
    p_reported: float | None
    smallest_attainable_p: float
    reason: str | None

    @property
    def discordant(self) -> int:
        """The number of discordant pairs."""
        return self.lost + self.won

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "lost": self.lost,
            "won": self.won,
            "discordant": self.discordant,
            "chi2_cc": figure(self.chi2_cc),
            "p_chi2_cc": figure(self.p_chi2_cc),
            "p_exact": figure(self.p_exact),
            "p_mid": figure(self.p_mid),
            "p_reported": figure(self.p_reported),
            "smallest_attainable_p": figure(self.smallest_attainable_p),
            "reason": self.reason,
        }


def mcnemar(lost: int, won: int, *, min_discordant: int) -> McNemar:
    """Return McNemar's test; the exact conditional p is reported, and withheld below `min_discordant` pairs.

    Given n = lost + won discordant pairs, lost is Binomial(n, 1/2) under no change:

        p_exact = min(1, 2 P(X <= min(lost, won))),  chi2_cc = (|lost - won| - 1)^2 / n

    The exact p never exceeds its nominal size; mid-p and the uncorrected chi-square do (Fagerland, Lydersen and
    Laake 2013, eq. 2 and 4).

    Raises:
        ValueError: a count is negative.

    >>> test = mcnemar(18, 7, min_discordant=10)
    >>> test.chi2_cc, round(test.p_reported, 5)
    (4.0, 0.04329)
    """
    if min(lost, won) < 0:
        raise ValueError(f"{lost} lost and {won} won are not counts of pairs")
    n, fewer = lost + won, min(lost, won)
    below = sum(math.comb(n, k) for k in range(fewer))
    at = math.comb(n, fewer)
    p_exact = min(Fraction(1), Fraction(2 * (below + at), 2**n))
    chi2 = max(abs(lost - won) - 1, 0) ** 2 / n if n else None
    enough = n >= min_discordant
    return McNemar(
        lost=lost,
        won=won,
        chi2_cc=chi2,
        p_chi2_cc=None if chi2 is None else math.erfc(math.sqrt(chi2 / 2)),
        p_exact=float(p_exact),
        p_mid=float(min(Fraction(1), Fraction(2 * below + at, 2**n))),
        p_reported=float(p_exact) if enough else None,
        smallest_attainable_p=float(min(Fraction(1), Fraction(2, 2**n))),
        reason=None if enough else f"fewer than {min_discordant} discordant pairs",
    )
