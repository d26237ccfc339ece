"""What an estimate is: a mean over paired items with its intervals, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy

from canaryd.records import JsonValue
from canaryd.stats.cells import FloatArray
from canaryd.stats.cluster import cluster_labels, clustered_mean
from canaryd.stats.params import EstimateParams

Status: TypeAlias = Literal["zero_variance", "sparse", "too_few_clusters", "ok"]
TooFewReason: TypeAlias = Literal["no_overlap", "single_item", "single_cluster"]

#: Sums of floats leave dust: below this a standard error is zero, and beyond these decimals two numbers are equal.
ZERO_SE = 1e-12
DECIMALS = 12


@dataclass(frozen=True, slots=True)
class DayLeg:
    """The standard error that day-to-day variation gives a change, with Welch's df; `floored` where it had none."""

    se: float
    df: float
    days_baseline: int
    days_window: int
    floored: bool

    def half_width(self, confidence: float) -> float:
        """Return half the width of the interval at `confidence`."""
        return t_critical(confidence, self.df) * self.se

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "se": figure(self.se),
            "df": figure(self.df),
            "days_baseline": self.days_baseline,
            "days_window": self.days_window,
            "floored": self.floored,
        }


@dataclass(frozen=True, slots=True)
class TooFew:
    """There is no standard error: `reason` says what was too few; `delta` is still shown where there is one."""

    reason: TooFewReason
    delta: float | None
    items_paired: int
    dropped: tuple[str, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON; `status` is the reason."""
        return {
            "status": self.reason,
            "decidable": False,
            "delta": figure(self.delta),
            "items_paired": self.items_paired,
            "dropped": list(self.dropped),
        }


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over paired items, as a fraction (a delta of -0.05 is five points down), with its intervals.

    `se_cr1` is the usual clustered one, `se_used` decides the item leg (CR2, or the floor where the data cannot show
    their variance), `se` is the larger of both legs. `ci_item` is the interval of the item leg alone, `ci` the wider of
    the two legs and None without a day leg. A `status` other than `ok` is printed beside the numbers, and without
    `decidable` they decide nothing.
    """

    status: Status
    decidable: bool
    delta: float
    se_cr1: float
    se_cr2: float
    se_floor: float | None
    se_used: float
    df: float
    confidence: float
    items_paired: int
    items_changed: int
    clusters: int
    dropped: tuple[str, ...]
    day: DayLeg | None = None

    @property
    def se(self) -> float:
        """The standard error to report: the larger of both legs."""
        return self.se_used if self.day is None else max(self.se_used, self.day.se)

    @property
    def half_width_item(self) -> float:
        """Half the width of the item leg's interval."""
        return t_critical(self.confidence, self.df) * self.se_used

    @property
    def ci_item(self) -> tuple[float, float]:
        """The interval of the item leg."""
        return self.delta - self.half_width_item, self.delta + self.half_width_item

    @property
    def ci(self) -> tuple[float, float] | None:
        """The interval with the larger of both half widths; None when there is no day leg."""
        if self.day is None:
            return None
        half = max(self.half_width_item, self.day.half_width(self.confidence))
        return self.delta - half, self.delta + half

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON; what is not known is null."""
        ci = self.ci
        return {
            "status": self.status,
            "decidable": self.decidable,
            "delta": figure(self.delta),
            "se_cr1": figure(self.se_cr1),
            "se_cr2": figure(self.se_cr2),
            "se_floor": figure(self.se_floor),
            "se_used": figure(self.se_used),
            "se": figure(self.se),
            "df": figure(self.df),
            "confidence": self.confidence,
            "ci_item": [figure(bound) for bound in self.ci_item],
            "ci": None if ci is None else [figure(bound) for bound in ci],
            "day": None if self.day is None else self.day.to_json(),
            "items_paired": self.items_paired,
            "items_changed": self.items_changed,
            "clusters": self.clusters,
            "dropped": list(self.dropped),
        }


@dataclass(frozen=True, slots=True)
class ItemValues:
    """One value per paired item, and per item the variance that a floor would give it (None: no floor is known)."""

    items: tuple[str, ...]
    values: FloatArray
    dropped: tuple[str, ...]
    floor_variances: FloatArray | None = None


def estimate_of(
    paired: ItemValues, *, clusters: Mapping[str, str], params: EstimateParams, day: DayLeg | None = None
) -> Estimate | TooFew:
    """Return the clustered mean of one value per item, or why there is none.

    The statuses, in this order: no item `no_overlap`; one item `single_item`; one cluster `single_cluster`; a CR2
    standard error of zero `zero_variance`; fewer than `min_changed_items` values that differ from zero `sparse`;
    df below `min_df` `too_few_clusters`; else `ok`. In `zero_variance` the floor replaces the standard error and in
    `sparse` it bounds it from below; both need a floor. A day leg without variance takes the floor with
    min(days) - 1 degrees of freedom.
    """
    count = len(paired.items)
    if count == 0:
        return TooFew("no_overlap", None, 0, paired.dropped)
    labels = cluster_labels(paired.items, clusters)
    mean = clustered_mean(paired.values, labels)
    if mean.se_cr1 is None or mean.se_cr2 is None or mean.df is None:
        return TooFew("single_item" if count == 1 else "single_cluster", mean.mean, count, paired.dropped)
    changed = int(np.count_nonzero(np.round(paired.values, DECIMALS)))
    floor = None if paired.floor_variances is None else floor_se(paired.floor_variances, labels)
    decidable = reaches(mean.df, params.min_df)
    status: Status = "ok" if decidable else "too_few_clusters"
    se_used = mean.se_cr2
    if mean.se_cr2 < ZERO_SE:
        status, se_used = "zero_variance", mean.se_cr2 if floor is None else floor
    elif floor is not None and changed < params.min_changed_items:
        status, se_used = "sparse", max(mean.se_cr2, floor)
    return Estimate(
        status=status,
        decidable=decidable,
        delta=mean.mean,
        se_cr1=mean.se_cr1,
        se_cr2=mean.se_cr2,
        se_floor=floor,
        se_used=se_used,
        df=mean.df,
        confidence=params.confidence,
        items_paired=count,
        items_changed=changed,
        clusters=mean.clusters,
        dropped=paired.dropped,
        day=_floored(day, floor),
    )


def _floored(day: DayLeg | None, floor: float | None) -> DayLeg | None:
    if day is None or day.se >= ZERO_SE or floor is None:
        return day
    shorter = min(day.days_baseline, day.days_window)
    return DayLeg(floor, shorter - 1, day.days_baseline, day.days_window, floored=True)


def floor_se(variances: FloatArray, labels: list[str]) -> float:
    """Return the smallest standard error that few binary samples can honestly claim.

        SE_floor = sqrt( sum_g ( sum_{i in g} sqrt v_i )^2 ) / n

    with v_i the variance of item i's change at a pass rate half a sample away from certainty; items of one cluster
    count as fully dependent.

    >>> variances = np.array([0.04, 0.01])
    >>> round(floor_se(variances, ["a", "b"]), 6), round(floor_se(variances, ["t", "t"]), 6)
    (0.111803, 0.15)
    """
    place: dict[str, int] = {}
    codes = [place.setdefault(label, len(place)) for label in labels]
    by_cluster = np.bincount(codes, weights=np.sqrt(variances))
    return float(np.sqrt(np.sum(by_cluster**2)) / len(labels))


def t_critical(confidence: float, df: float) -> float:
    """Return the two-sided critical value of Student's t.

    >>> round(t_critical(0.99, 77), 6)
    2.641198
    """
    return float(scipy.special.stdtrit(df, (1 + confidence) / 2))


def reaches(value: float, limit: float) -> bool:
    """Return whether `value` is at least `limit`, rounding away the dust of binary fractions first.

    >>> reaches(0.7 - 0.67, 0.03), 0.7 - 0.67 >= 0.03
    (True, False)
    """
    return round(value, DECIMALS) >= limit


def figure(value: float | None) -> float | None:
    """Return a number as it is stored: twelve significant digits, so that every machine writes the same one.

    Raises:
        ValueError: the number is not finite; what is not known must be None.
    """
    if value is None:
        return None
    if not np.isfinite(value):
        raise ValueError(f"{value} is not a figure; what is not known is stored as null")
    return float(f"{value:.12g}")
