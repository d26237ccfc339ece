"""Each item compared with itself: the paired delta between two periods, and the day leg of its standard error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from canaryd.stats.cells import Cells, FloatArray, ItemTotals
from canaryd.stats.estimate import DayLeg, Estimate, ItemValues, TooFew, estimate_of
from canaryd.stats.params import EstimateParams


@dataclass(frozen=True, slots=True)
class PairedItems:
    """The items with a sample in both periods, in order, with their totals; the others are `dropped`."""

    items: tuple[str, ...]
    dropped: tuple[str, ...]
    baseline: ItemTotals
    window: ItemTotals

    @property
    def deltas(self) -> FloatArray:
        """Per item, the mean in the window minus the mean in the baseline."""
        return self.window.mean - self.baseline.mean

    @property
    def floor_variances(self) -> FloatArray:
        """Per item, the variance of its delta at a pass rate that half a sample keeps from 0 and 1.

        p_i = (S_b + S_w + 1/2) / (m_b + m_w + 1),  v_i = p_i (1 - p_i) (1/m_b + 1/m_w)
        """
        passed = self.baseline.total + self.window.total
        rate = (passed + 0.5) / (self.baseline.n + self.window.n + 1)
        return rate * (1 - rate) * (1 / self.baseline.n + 1 / self.window.n)

    def of(self, items: Sequence[str]) -> PairedItems:
        """Return the pairs of the named items, in that order.

        Raises:
            KeyError: an item does not pair.
        """
        return PairedItems(tuple(items), self.dropped, self.baseline.of(items), self.window.of(items))


def pair_items(baseline: Cells, window: Cells) -> PairedItems:
    """Return which items pair: those with at least one sample in both periods."""
    before, after = baseline.by_item(), window.by_item()
    both = sorted(set(before.items) & set(after.items))
    dropped = sorted(set(before.items) ^ set(after.items))
    return PairedItems(tuple(both), tuple(dropped), before.of(both), after.of(both))


def paired_delta(
    baseline: Cells, window: Cells, *, clusters: Mapping[str, str], params: EstimateParams
) -> Estimate | TooFew:
    """Return the mean over paired items of the change of their mean score, with item leg and day leg.

    delta = mean over items of (mean in the window - mean in the baseline), each item counting once however often it
    was sampled (Miller 2024, section 4: paired differences, clustered standard errors). Scores lie in [0, 1].
    `clusters` names the template of an item; an item that is missing there is a cluster of its own.

    >>> from datetime import date
    >>> def period(month, *columns):
    ...     days = (date(2027, month, number + 1) for column in columns for number, _ in enumerate(column))
    ...     items = (f"i{index}" for index, column in enumerate(columns) for _ in column)
    ...     return Cells.from_samples(zip(items, days, (float(s) for column in columns for s in column)))
    >>> before = period(1, [1, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1])
    >>> after = period(2, [0, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0])
    >>> params = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)
    >>> change = paired_delta(before, after, clusters={}, params=params)
    >>> change.status, round(change.delta, 6), round(change.se_used, 6), round(change.df, 6)
    ('ok', -0.35, 0.061237, 4.0)
    """
    paired = pair_items(baseline, window)
    values = ItemValues(paired.items, paired.deltas, paired.dropped, paired.floor_variances)
    return estimate_of(values, clusters=clusters, params=params, day=day_leg(baseline, window, items=paired.items))


def day_leg(baseline: Cells, window: Cells, *, items: Sequence[str]) -> DayLeg | None:
    """Return how much the days themselves vary, or None with fewer than two days in a period.

    Item clustering averages over days, so it cannot see a shock that all items of a day share. The day leg can:

        r_t = mean over items present on day t of (mean of the item that day - mean of the item in the period)
        V   = s2_b/n_b + s2_w/n_w,  df = V^2 / ( (s2_b/n_b)^2/(n_b - 1) + (s2_w/n_w)^2/(n_w - 1) )

    with s2 the sample variance of r_t over the n days of a period (Welch 1947; Satterthwaite 1946, eq. 17).
    A period of identical days has V = 0 and the smallest df that its length allows.

    >>> from datetime import date
    >>> def days(month, *scores):
    ...     return Cells.from_samples(("a", date(2027, month, n + 1), score) for n, score in enumerate(scores))
    >>> leg = day_leg(days(1, 0.0, 1.0), days(2, 1.0, 0.0), items=["a"])
    >>> round(leg.se, 6), round(leg.df, 6)
    (0.707107, 2.0)
    """
    before, after = _day_residuals(baseline.only(items)), _day_residuals(window.only(items))
    if min(len(before), len(after)) < 2:
        return None
    parts = [float(np.var(residuals, ddof=1)) / len(residuals) for residuals in (before, after)]
    variance = sum(parts)
    smallest = min(len(before), len(after)) - 1
    spread = parts[0] ** 2 / (len(before) - 1) + parts[1] ** 2 / (len(after) - 1)
    df = variance**2 / spread if spread > 0 else float(smallest)
    return DayLeg(float(np.sqrt(variance)), df, len(before), len(after), floored=False)


def _day_residuals(cells: Cells) -> FloatArray:
    totals = cells.by_item()
    residuals = cells.total / cells.n - totals.mean[cells.item_index]
    size = len(cells.days)
    present = np.bincount(cells.day_index, minlength=size)
    return np.bincount(cells.day_index, weights=residuals, minlength=size).astype(np.float64) / present
