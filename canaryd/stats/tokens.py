"""The change of output length: the leading indicator, because effort shows in tokens before it shows in scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from canaryd.records import JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, ItemValues, TooFew, estimate_of, figure, reaches
from canaryd.stats.evaluable import Clause
from canaryd.stats.paired import day_leg, pair_items
from canaryd.stats.params import TokenParams

TokenState: TypeAlias = Literal["increase", "decrease", "ok", "not_evaluable"]


@dataclass(frozen=True, slots=True)
class TokenCells:
    """Output tokens of one arm in one period: `counts` of every sample that reported them, `logs` of the positive."""

    counts: Cells = field(default_factory=Cells)
    logs: Cells = field(default_factory=Cells)


@dataclass(frozen=True, slots=True)
class TokenChange:
    """The mean log ratio of tokens with its clauses; `change` and the intervals are fractions (-0.5 is halved)."""

    log_ratio: Estimate | TooFew
    state: TokenState
    clauses: tuple[Clause, ...]

    @property
    def change(self) -> float | None:
        """The relative change exp(mean log ratio) - 1, or None when no item pairs."""
        return None if self.log_ratio.delta is None else math.expm1(self.log_ratio.delta)

    @property
    def ci_item(self) -> tuple[float, float] | None:
        """The item leg's interval of the relative change."""
        return None if isinstance(self.log_ratio, TooFew) else _relative(self.log_ratio.ci_item)

    @property
    def ci(self) -> tuple[float, float] | None:
        """The interval with the larger of both half widths; None without a day leg."""
        return None if isinstance(self.log_ratio, TooFew) else _relative(self.log_ratio.ci)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "state": self.state,
            "change": figure(self.change),
            "ci_item": _bounds(self.ci_item),
            "ci": _bounds(self.ci),
            "log_ratio": self.log_ratio.to_json(),
            "clauses": [clause.to_json() for clause in self.clauses],
        }


def _relative(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if bounds is None else (math.expm1(bounds[0]), math.expm1(bounds[1]))


def _bounds(bounds: tuple[float, float] | None) -> list[JsonValue] | None:
    return None if bounds is None else [figure(bounds[0]), figure(bounds[1])]


def token_change(
    baseline: TokenCells, window: TokenCells, *, clusters: Mapping[str, str], params: TokenParams
) -> TokenChange:
    """Return the change of output tokens of a window against the baseline.

    Per item log(mean tokens in the window / mean tokens in the baseline), over the items whose mean is positive on
    both sides; mean, CR2 and t as for scores; a day leg on item-centred log tokens. There is no floor: lengths that
    never vary (`zero_variance`) keep a standard error of 0.

    >>> from datetime import date
    >>> from canaryd.stats.params import EstimateParams
    >>> def period(month, tokens):
    ...     rows = [(item, date(2027, month, 1), count) for item, count in tokens]
    ...     return TokenCells(Cells.from_samples(rows))
    >>> params = TokenParams(EstimateParams(confidence=0.99, min_df=4, min_changed_items=5), min_change=0.1)
    >>> before, after = period(1, [("x", 100.0), ("y", 400.0)]), period(2, [("x", 50.0), ("y", 200.0)])
    >>> halved = token_change(before, after, clusters={}, params=params)
    >>> round(halved.change, 6), halved.log_ratio.status, halved.state
    (-0.5, 'zero_variance', 'not_evaluable')
    """
    paired = pair_items(baseline.counts, window.counts)
    positive = (paired.baseline.total > 0) & (paired.window.total > 0)
    known = paired.of([item for item, keep in zip(paired.items, positive.tolist(), strict=True) if keep])
    silent = tuple(item for item, keep in zip(paired.items, positive.tolist(), strict=True) if not keep)
    ratios = np.log(known.window.mean) - np.log(known.baseline.mean)
    estimate = estimate_of(
        ItemValues(known.items, ratios, tuple(sorted((*paired.dropped, *silent)))),
        clusters=clusters,
        params=params.estimate,
        day=day_leg(baseline.logs, window.logs, items=known.items),
    )
    if isinstance(estimate, TooFew) or not estimate.decidable or estimate.day is None:
        return TokenChange(estimate, "not_evaluable", ())
    size = abs(estimate.delta)
    item, day = estimate.half_width_item, estimate.day.half_width(params.estimate.confidence)
    change = abs(math.expm1(estimate.delta))
    clauses = (
        Clause("item_leg", size > item, size, item),
        Clause("day_leg", size > day, size, day),
        Clause("min_change", reaches(change, params.min_change), change, params.min_change),
    )
    if not all(clause.passed for clause in clauses):
        return TokenChange(estimate, "ok", clauses)
    return TokenChange(estimate, "increase" if estimate.delta > 0 else "decrease", clauses)
