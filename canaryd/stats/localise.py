"""Where a declared change sits: per family, per target label and per item. Exploratory, and labelled so.

When it began is `early_warning.change_dates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from canaryd.hashing import canonical_json
from canaryd.records import JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, TooFew, figure
from canaryd.stats.paired import PairedItems, pair_items, paired_delta
from canaryd.stats.params import EstimateParams

ItemTest: TypeAlias = Literal["fisher", "welch"]

_NO_SPREAD = 1e-9


@dataclass(frozen=True, slots=True)
class GroupDelta:
    """The paired delta of one group of items; the p-values are None where the estimate decides nothing."""

    group: str
    items: int
    estimate: Estimate | TooFew
    p: float | None
    p_holm: float | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "group": self.group,
            "items": self.items,
            "estimate": self.estimate.to_json(),
            "p": figure(self.p),
            "p_holm": figure(self.p_holm),
        }


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One item before and after; `listed` says that it is among the changed items at the registered q.

    `p` is None where Welch's test has no variance to work with.
    """

    item_id: str
    n_baseline: int
    mean_baseline: float
    n_window: int
    mean_window: float
    test: ItemTest
    p: float | None
    p_bh: float | None = None
    listed: bool = False

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "item_id": self.item_id,
            "n_baseline": self.n_baseline,
            "mean_baseline": figure(self.mean_baseline),
            "n_window": self.n_window,
            "mean_window": figure(self.mean_window),
            "test": self.test,
            "p": figure(self.p),
            "p_bh": figure(self.p_bh),
            "listed": self.listed,
        }


def group_deltas(
    baseline: Cells,
    window: Cells,
    *,
    groups: Mapping[str, str],
    clusters: Mapping[str, str],
    params: EstimateParams,
) -> tuple[GroupDelta, ...]:
    """Return the paired delta of every group in `groups` (item -> group), in the order of their names.

    The p-value belongs to the printed interval: the larger of item leg and day leg, each 2 P(T_df > |delta| / SE).
    Holm's step-down adjustment (Holm 1979) is over the groups that have one.
    """
    found = []
    for group in sorted(set(groups.values())):
        members = [item for item, its_group in groups.items() if its_group == group]
        estimate = paired_delta(baseline.only(members), window.only(members), clusters=clusters, params=params)
        found.append(GroupDelta(group, len(members), estimate, _p_value(estimate)))
    adjusted = _adjusted([delta.p for delta in found], method="holm")
    return tuple(replace(delta, p_holm=p) for delta, p in zip(found, adjusted, strict=True))


def _p_value(estimate: Estimate | TooFew) -> float | None:
    if isinstance(estimate, TooFew) or not estimate.decidable or estimate.day is None:
        return None
    legs = ((estimate.se_used, estimate.df), (estimate.day.se, estimate.day.df))
    if min(se for se, _ in legs) == 0:
        return None
    return max(float(2 * stats.t.sf(abs(estimate.delta) / se, df)) for se, df in legs)


def item_changes(baseline: Cells, window: Cells, *, q: float) -> tuple[ItemChange, ...]:
    """Return the test of every item with samples on both sides, with the Benjamini-Hochberg adjusted p-values.

    Items whose scores are all 0 or 1 take the exact two-sided Fisher test of passes, others Welch's t. `window` is the
    pooled decision windows. `listed` controls the false discovery rate at q (Benjamini and Hochberg 1995).

    >>> from datetime import date
    >>> def ten(passes, year):
    ...     return Cells.from_samples(("a", date(year, 1, day + 1), float(day < passes)) for day in range(10))
    >>> change, = item_changes(ten(9, 2027), ten(2, 2028), q=0.05)
    >>> change.test, round(change.p, 6), change.listed
    ('fisher', 0.005477, True)
    """
    paired = pair_items(baseline, window)
    changes = [_item_change(paired, row) for row in range(len(paired.items))]
    adjusted = _adjusted([change.p for change in changes], method="fdr_bh")
    return tuple(
        replace(change, p_bh=p, listed=p is not None and p <= q) for change, p in zip(changes, adjusted, strict=True)
    )


def _item_change(paired: PairedItems, row: int) -> ItemChange:
    sides = (paired.baseline, paired.window)
    n = [int(side.n[row]) for side in sides]
    totals = [float(side.total[row]) for side in sides]
    squares = [float(side.total_sq[row]) for side in sides]
    test: ItemTest = "fisher" if totals == squares else "welch"
    p = _fisher(n, totals) if test == "fisher" else _welch(n, totals=totals, squares=squares)
    return ItemChange(paired.items[row], n[0], totals[0] / n[0], n[1], totals[1] / n[1], test, p)


def _fisher(n: Sequence[int], totals: Sequence[float]) -> float:
    passes = [round(total) for total in totals]
    return float(stats.fisher_exact([[passes[0], n[0] - passes[0]], [passes[1], n[1] - passes[1]]]).pvalue)


def _welch(n: Sequence[int], *, totals: Sequence[float], squares: Sequence[float]) -> float | None:
    if min(n) < 2:
        return None
    means = [total / size for total, size in zip(totals, n, strict=True)]
    spare = [max(sq - total**2 / size, 0.0) for sq, total, size in zip(squares, totals, n, strict=True)]
    sds = [float(np.sqrt(left / (size - 1))) for left, size in zip(spare, n, strict=True)]
    if max(sds) < _NO_SPREAD:
        return None
    return float(stats.ttest_ind_from_stats(means[0], sds[0], n[0], means[1], sds[1], n[1], equal_var=False).pvalue)


def _adjusted(p_values: Sequence[float | None], *, method: str) -> list[float | None]:
    """Return the adjusted p-values; an unknown one stays unknown and takes no part."""
    from statsmodels.stats.multitest import multipletests

    known = [place for place, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    if known:
        _, corrected, _, _ = multipletests([p_values[place] for place in known], method=method)
        for place, p in zip(known, corrected.tolist(), strict=True):
            adjusted[place] = p
    return adjusted


def shared_targets(targets: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return item -> label for the items whose target is also another item's: the label groups worth a delta.

    A model that starts to answer "no" to everything gains on the items whose target is "no" and loses on the others.

    >>> shared_targets({"a": "no", "b": "yes", "c": "no", "d": 17})
    {'a': 'no', 'c': 'no'}
    """
    labels = {
        item: target if isinstance(target, str) else canonical_json(target).decode() for item, target in targets.items()
    }
    counted = list(labels.values())
    return {item: label for item, label in labels.items() if counted.count(label) > 1}
