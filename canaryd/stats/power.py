"""How small a change a panel can see: the minimum detectable effect, predicted before and realised after a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from canaryd.records import JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import figure, reaches
from canaryd.stats.paired import pair_items
from canaryd.stats.params import HeadroomParams, MdeParams


@dataclass(frozen=True, slots=True)
class Mde:
    """The standard error of a delta and the smallest change that can be seen, as fractions, over `items` items."""

    se: float
    one_window: float
    two_windows: float
    items: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "se": figure(self.se),
            "one_window": figure(self.one_window),
            "two_windows": figure(self.two_windows),
            "items": self.items,
        }


def information_of_rates(rates: ArrayLike) -> list[float]:
    """Return p(1 - p), the variance of one binary sample, for known pass rates."""
    known = np.asarray(rates, dtype=np.float64)
    return [float(value) for value in known * (1 - known)]


def information_of_counts(passes: int, n: int) -> float:
    """Return the unbiased estimate s(n - s) / (n(n - 1)) of p(1 - p) from s passes in n samples.

    The plug-in p(1 - p) is (n - 1)/n too small on average, so a panel looks more able to see a change than it is; a
    rate that is shrunk towards 1/2 makes the variance too large, and with it the smallest change.

    Raises:
        ValueError: fewer than two samples, which say nothing about a variance.

    >>> information_of_counts(6, 8)
    0.21428571428571427
    """
    if n < 2 or not 0 <= passes <= n:
        raise ValueError(f"{passes} passes of {n} samples estimate no variance; it takes at least two samples")
    return passes * (n - passes) / (n * (n - 1))


def predicted_mde(
    information: Sequence[float], *, samples_baseline: ArrayLike, samples_window: ArrayLike, params: MdeParams
) -> Mde:
    """Return the MDE of items whose one-sample variances are given; sample counts per item, or one for all.

        Var = K^-2 sum_i I_i (1/m_w,i + 1/m_b,i),  MDE = (z_confidence + z_power) sqrt(Var)

    Raises:
        ValueError: there is no item.

    >>> params = MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24)
    >>> seen = predicted_mde([0.1884615384615] * 78, samples_baseline=10, samples_window=10, params=params)
    >>> round(100 * seen.se, 4), round(100 * seen.one_window, 4)
    (2.1983, 7.5137)
    """
    if not information:
        raise ValueError("no item has a known variance, so nothing says what the panel can see")
    per_delta = 1 / np.asarray(samples_window, dtype=np.float64) + 1 / np.asarray(samples_baseline, dtype=np.float64)
    variance = np.asarray(information, dtype=np.float64) * per_delta
    se = float(np.sqrt(np.sum(variance)) / len(information))
    one = (params.z_confidence + params.z_power) * se
    return Mde(se, one, params.two_window_factor * one, len(information))


def realised_mde(baseline: Cells, window: Cells, *, params: MdeParams) -> Mde | None:
    """Return the MDE of a window from the baseline's own within-item sample variances.

    Works for partial credit too. Items sampled once in the baseline have no variance and are left out; None when
    no item that pairs has one.

    >>> from datetime import date
    >>> def period(month, *scores):
    ...     return Cells.from_samples(("a", date(2027, month, n + 1), score) for n, score in enumerate(scores))
    >>> params = MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24)
    >>> round(realised_mde(period(1, 0.0, 1.0, 1.0, 0.0), period(2, 1.0, 1.0), params=params).se, 6)
    0.5
    """
    paired = pair_items(baseline, window)
    known = paired.baseline.n >= 2
    if not known.any():
        return None
    n, total, total_sq = paired.baseline.n[known], paired.baseline.total[known], paired.baseline.total_sq[known]
    variances = np.maximum(total_sq - total**2 / n, 0) / (n - 1)
    return predicted_mde(variances.tolist(), samples_baseline=n, samples_window=paired.window.n[known], params=params)


@dataclass(frozen=True, slots=True)
class Plan:
    """A budget to judge: how many items, samples per item and day, and the days of baseline and window."""

    items: int
    per_day: int
    baseline_days: int
    window_days: int


def plan_mde(plan: Plan, *, mean_information: float, params: MdeParams, day_correlation: float = 0.0) -> Mde:
    """Return the MDE that a plan buys on a panel of this mean information p(1 - p).

    Samples of one item on one day that look alike (correlation r) are worth m / (1 + (m - 1) r) samples.

    >>> params = MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24)
    >>> round(100 * plan_mde(Plan(40, 2, 10, 10), mean_information=0.1885, params=params).one_window, 1)
    7.4
    """
    worth = plan.per_day / (1 + (plan.per_day - 1) * day_correlation)
    return predicted_mde(
        [mean_information] * plan.items,
        samples_baseline=worth * plan.baseline_days,
        samples_window=worth * plan.window_days,
        params=params,
    )


@dataclass(frozen=True, slots=True)
class Headroom:
    """The baseline mean of an arm (each item counts once), and whether its panel was already passed or failed."""

    mean: float
    state: Literal["ok", "already_passed", "already_failed"]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {"mean": figure(self.mean), "state": self.state}


def headroom(baseline: Cells, *, params: HeadroomParams) -> Headroom | None:
    """Return whether a change could still show, or None without a sample. It warns beside a null, and never blocks."""
    if not len(baseline):
        return None
    mean = float(np.mean(baseline.by_item().mean))
    if reaches(mean, params.high):
        return Headroom(mean, "already_passed")
    return Headroom(mean, "already_failed" if reaches(-mean, -params.low) else "ok")
