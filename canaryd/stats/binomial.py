"""How large a simulated share may really be."""

from __future__ import annotations

CONFIDENCE = 0.95


def upper_limit(share: float, series: int) -> float:
    """Return the exact one-sided 95 % upper limit (Clopper and Pearson 1934) of a share of `series` independent series.

        B(0.95; k + 1, n - k),  k = share n:  for k = 0 that is 1 - 0.05^(1/n)

    Unlike the standard error it says what no hit at all is worth.

    >>> round(upper_limit(0.0, 200), 4), round(upper_limit(0.01, 2000), 4), upper_limit(1.0, 100)
    (0.0149, 0.0145, 1.0)
    """
    from scipy.stats import beta

    hits = round(share * series)
    return 1.0 if hits == series else float(beta.ppf(CONFIDENCE, hits + 1, series - hits))
