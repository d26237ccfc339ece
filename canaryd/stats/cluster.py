"""The standard error of a mean over items that come in clusters: CR1, CR2 and the degrees of freedom of CR2."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from canaryd.stats.cells import FloatArray


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean with both clustered standard errors; they and `df` are None where there are fewer than two clusters."""

    mean: float
    n: int
    clusters: int
    se_cr1: float | None
    se_cr2: float | None
    df: float | None


def cluster_labels(items: Sequence[str], clusters: Mapping[str, str]) -> list[str]:
    """Return the cluster of each item: the template it came from, or the item itself where it has none."""
    return [clusters.get(item, item) for item in items]


def clustered_mean(values: FloatArray, labels: Sequence[Hashable]) -> ClusteredMean:
    """Return the unweighted mean of `values` with its clustered standard errors.

    With n values, G clusters of n_g members and e_g the sum of the residuals of cluster g:

        V_CR1 = G/(G-1) sum e_g^2 / n^2
        V_CR2 = sum e_g^2 / (1 - n_g/n) / n^2
        a_g   = n_g^2 / (1 - n_g/n)
        df    = n^2 / ( sum n_g^2 + [(sum a_g)^2 - sum a_g^2] / n^2 )

    CR1 is the usual sandwich with its small-sample factor (Cameron and Miller 2015, eq. 11). CR2 and df are those of
    Bell and McCaffrey 2002 for a regression on a constant under the identity working model, where the matrix
    (I - H_gg)^(-1/2) leaves each cluster's residual sum divided by sqrt(1 - n_g/n). Balanced clusters give df = G - 1.

    Raises:
        ValueError: there is no value, or a label too few or too many.

    >>> three = clustered_mean(np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), ["a", "a", "b", "b", "c", "c"])
    >>> round(three.mean, 6), round(three.se_cr1, 6), round(three.se_cr2, 6), round(three.df, 6)
    (0.5, 0.288675, 0.288675, 2.0)
    """
    n = len(values)
    if n == 0 or n != len(labels):
        raise ValueError(f"{n} values and {len(labels)} cluster labels give no mean; pass one label per value")
    place: dict[Hashable, int] = {}
    codes = np.array([place.setdefault(label, len(place)) for label in labels], dtype=np.intp)
    mean = float(np.mean(values))
    if len(place) < 2:
        return ClusteredMean(mean, n, len(place), None, None, None)
    sizes = np.bincount(codes).astype(np.float64)
    squares = np.bincount(codes, weights=values - mean) ** 2
    groups = len(place)
    left = 1 - sizes / n
    a = sizes**2 / left
    df = n**2 / (np.sum(sizes**2) + (np.sum(a) ** 2 - np.sum(a**2)) / n**2)
    return ClusteredMean(
        mean=mean,
        n=n,
        clusters=groups,
        se_cr1=float(np.sqrt(groups / (groups - 1) * np.sum(squares)) / n),
        se_cr2=float(np.sqrt(np.sum(squares / left)) / n),
        df=float(df),
    )
