"""Item leg and day leg of many series at once: the formulas of `paired` and `estimate`, series side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from canaryd.stats.cells import FloatArray, IndexArray
from canaryd.stats.cluster import clustered_mean
from canaryd.stats.estimate import DECIMALS, ZERO_SE
from canaryd.stats.params import EstimateParams, RuleParams

AnyFloats: TypeAlias = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """How items lie in clusters: `order` brings a cluster's items together (None: every item is its own)."""

    order: IndexArray | None
    starts: IndexArray
    sizes: FloatArray
    df: float

    @classmethod
    def of(cls, labels: Sequence[str]) -> ClusterLayout:
        """Return the layout of the items' cluster labels.

        Raises:
            ValueError: all items are in one cluster, which leaves no standard error.
        """
        _, codes, sizes = np.unique(np.array(labels), return_inverse=True, return_counts=True)
        df = clustered_mean(np.arange(len(labels), dtype=np.float64), labels).df
        if df is None:
            raise ValueError("all items are in one cluster, so there is no standard error; use more templates")
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        order = np.argsort(codes, kind="stable") if len(sizes) < len(labels) else None
        return cls(order, starts, sizes.astype(np.float64), df)

    def sums(self, values: AnyFloats) -> AnyFloats:
        """Return the sums over each cluster of values of shape (items, series)."""
        if self.order is None:
            return values
        grouped: AnyFloats = np.add.reduceat(values[self.order], self.starts, axis=0)
        return grouped

    @property
    def cr1_weight(self) -> FloatArray:
        """Per cluster the factor of its squared residual sum in n^2 V_CR1: G/(G - 1)."""
        groups = len(self.sizes)
        return np.full(groups, groups / (groups - 1))

    @property
    def cr2_weight(self) -> FloatArray:
        """Per cluster the factor of its squared residual sum in n^2 V_CR2: 1/(1 - n_g/n)."""
        weight: FloatArray = 1 / (1 - self.sizes / self.sizes.sum())
        return weight


@dataclass(frozen=True, slots=True)
class Passes:
    """Passed samples per item and series of two periods, with the number of samples that each item had in each."""

    before: FloatArray
    after: FloatArray
    samples: tuple[int, int]

    @property
    def changes(self) -> FloatArray:
        """Per item and series the change of the mean score."""
        return self.after / self.samples[1] - self.before / self.samples[0]

    @property
    def floor_variances(self) -> FloatArray:
        """As `paired.PairedItems.floor_variances`."""
        rate = (self.before + self.after + 0.5) / (sum(self.samples) + 1)
        variance: FloatArray = rate * (1 - rate) * (1 / self.samples[0] + 1 / self.samples[1])
        return variance


@dataclass(frozen=True, slots=True)
class ItemLeg:
    """Per series the mean change over items with its standard errors; `floor` is the smallest honest one."""

    delta: FloatArray
    se_cr1: FloatArray
    se_used: FloatArray
    floor: FloatArray


def item_leg(
    changes: FloatArray, floor_variances: FloatArray, *, layout: ClusterLayout, params: EstimateParams
) -> ItemLeg:
    """Return the clustered mean of item changes, shape (items, series), as `estimate.estimate_of` has it."""
    n = len(changes)
    delta = changes.mean(axis=0)
    squares = layout.sums(changes - delta) ** 2
    se_cr1 = np.sqrt(layout.cr1_weight @ squares) / n
    se_cr2 = np.sqrt(layout.cr2_weight @ squares) / n
    floor = np.sqrt((layout.sums(np.sqrt(floor_variances)) ** 2).sum(axis=0)) / n
    moved = np.count_nonzero(np.round(changes, DECIMALS), axis=0)
    se_used = np.where(moved < params.min_changed_items, np.maximum(se_cr2, floor), se_cr2)
    return ItemLeg(delta, se_cr1, np.where(se_cr2 < ZERO_SE, floor, se_used), floor)


def day_leg_half_width(
    variances: tuple[FloatArray, FloatArray], floor: FloatArray, *, params: RuleParams
) -> FloatArray:
    """Return the day leg's half width from the sample variances (ddof 1) of the day means in baseline and window."""
    days = (params.baseline_days, params.window_days)
    parts = [variance / length for variance, length in zip(variances, days, strict=True)]
    total = parts[0] + parts[1]
    flat = np.sqrt(total) < ZERO_SE
    spread = parts[0] ** 2 / (days[0] - 1) + parts[1] ** 2 / (days[1] - 1)
    df = np.where(flat, min(days) - 1, total**2 / np.where(flat, 1.0, spread))
    half_width: FloatArray = stdtrit(df, (1 + params.estimate.confidence) / 2) * np.where(flat, floor, np.sqrt(total))
    return half_width
