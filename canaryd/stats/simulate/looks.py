"""The two-window rule at every look, over many series at once.

Only sums are kept: of the baseline, of the latest blocks of days, and the day totals. What a look can rule out from
the day totals alone, it does; the few series that are left need their items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from canaryd.stats.cells import FloatArray, IndexArray
from canaryd.stats.estimate import DECIMALS, t_critical
from canaryd.stats.simulate.attribute import ArmPeriods, Calls, Design, attributed
from canaryd.stats.simulate.draw import Counts, DayDraw
from canaryd.stats.simulate.legs import ClusterLayout, Passes, day_leg_half_width, item_leg
from canaryd.stats.simulate.plan import Scenario, SimulationPlan

Sums: TypeAlias = NDArray[np.unsignedinteger]

_DUST = 1e-9
_NOBODY = np.array([], dtype=np.intp)


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What the rule made of each series, and the passed samples per day (days, series) of each arm.

    `changed_on` is the day of the first declared change after the scenario's change day, 0 for none; in a scenario
    with a change only the right direction counts. `call` is its place in `attribute.CALLS`, -1 where there is no
    change or no control.
    """

    changed_on: NDArray[np.int32]
    call: Calls
    tracked_totals: NDArray[np.int32]
    control_totals: NDArray[np.int32] | None = None


class ArmSums:
    """Passed samples per item and series of one arm: of the baseline, the latest window, and the blocks before."""

    def __init__(self, plan: SimulationPlan, *, series: int, windows: int) -> None:
        rule = plan.rule
        largest = max(rule.baseline_days, rule.window_days) * plan.samples_per_day
        shape = (len(plan.pass_rates), series)
        self._per_window, self._look = rule.window_days // plan.look, plan.look
        self._baseline_days, self._days = rule.baseline_days, 0
        self.baseline: Sums = np.zeros(shape, dtype=np.min_scalar_type(largest))
        self.window, self._block = np.zeros_like(self.baseline), np.zeros_like(self.baseline)
        self._closed = deque([np.zeros_like(self.baseline)] * self._per_window, maxlen=windows * self._per_window)

    def add(self, passes: Counts) -> bool:
        """Take in the next day; return whether it ended a window at which the rule looks."""
        self._days += 1
        since = self._days - self._baseline_days
        if since <= 0:
            self.baseline += passes
            return False
        self._block += passes
        if since % self._look:
            return False
        self.window += self._block
        self.window -= self._closed[-self._per_window]
        self._closed.append(self._block)
        self._block = np.zeros_like(self._block)
        return since >= self._per_window * self._look

    def periods(self, columns: IndexArray) -> ArmPeriods:
        """Return baseline and the two latest windows of some series; needs the blocks of two windows."""
        previous = sum(block[:, columns].astype(np.float64) for block in list(self._closed)[: self._per_window])
        current, baseline = (sums[:, columns].astype(np.float64) for sums in (self.window, self.baseline))
        return ArmPeriods(baseline, np.asarray(previous), current)


def watch_rule(days: Iterable[DayDraw], plan: SimulationPlan, *, scenario: Scenario, series: int) -> RuleOutcome:
    """Return what the rule declares while the days pass, for `series` series at once."""
    design = Design(plan.rule, plan.samples_per_day, ClusterLayout.of(plan.labels))
    arms = [ArmSums(plan, series=series, windows=2 if plan.control else 1) for _ in range(1 + plan.control)]
    totals = [np.zeros((scenario.days, series), dtype=np.int32) for _ in arms]
    changed_on, call = np.zeros(series, dtype=np.int32), np.full(series, -1, dtype=np.int8)
    per_day = np.min_scalar_type(len(plan.pass_rates) * plan.samples_per_day)
    looks: _Looks | None = None
    for day, passes in enumerate(days, start=1):
        ended = False
        for arm, total, drawn in zip(arms, totals, passes, strict=True):
            total[day - 1] = drawn.sum(axis=0, dtype=per_day)
            ended = arm.add(drawn)
        if day == plan.rule.baseline_days:
            looks = _Looks(plan, design, baseline=arms[0].baseline, totals=totals[0][:day])
        if not ended or looks is None:
            continue
        declared = looks.declared(arms[0].window, totals[0][:day], undecided=changed_on == 0)
        if scenario.drop:
            declared[declared != -np.sign(scenario.drop)] = 0
        columns = np.flatnonzero(declared) if day > scenario.change_day else _NOBODY
        changed_on[columns] = day
        if plan.control and len(columns):
            periods = [arm.periods(columns) for arm in arms]
            call[columns] = attributed(*periods, sign=declared[columns].astype(np.float64), design=design)
    return RuleOutcome(changed_on, call, *totals)


class _Looks:
    """The looks at one chunk of series: what its baseline fixes, and the hits of the looks up to one window back."""

    def __init__(self, plan: SimulationPlan, design: Design, *, baseline: Sums, totals: NDArray[np.int32]) -> None:
        rule, series = design.rule, totals.shape[1]
        self._design, self._baseline = design, baseline
        self._per_day = len(baseline) * plan.samples_per_day
        self._level = totals.mean(axis=0) / self._per_day
        self._variance = totals.var(axis=0, ddof=1) / self._per_day**2
        per_window = rule.window_days // plan.look
        self._hits = deque([np.zeros(series, dtype=np.int8)] * per_window, maxlen=per_window)
        longest = rule.baseline_days + rule.window_days - 2
        self._least_critical = t_critical(rule.estimate.confidence, longest) if rule.mode == "canaryd" else 0.0

    def declared(self, window: Sums, totals: NDArray[np.int32], *, undecided: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Return the sign of a change declared at this look, 0 for none; the last row of `totals` is today's."""
        hits = self._hit_signs(window, totals[-self._design.rule.window_days :], undecided=undecided)
        before = self._hits[0]
        self._hits.append(hits)
        return np.where(hits == before, hits, 0).astype(np.int8)

    def _hit_signs(self, window: Sums, totals: NDArray[np.int32], *, undecided: NDArray[np.bool_]) -> NDArray[np.int8]:
        rule = self._design.rule
        delta = totals.mean(axis=0) / self._per_day - self._level
        variance = totals.var(axis=0, ddof=1) / self._per_day**2
        day_se = np.sqrt(self._variance / rule.baseline_days + variance / rule.window_days)
        least = np.maximum(self._least_critical * day_se, rule.min_effect)
        likely = undecided & (np.abs(delta) >= least * (1 - _DUST))
        columns = np.flatnonzero(likely)
        signs = np.zeros(len(delta), dtype=np.int8)
        signs[columns] = self._exact_signs(window, columns, variances=(self._variance[columns], variance[columns]))
        return signs

    def _exact_signs(
        self, window: Sums, columns: IndexArray, *, variances: tuple[FloatArray, FloatArray]
    ) -> NDArray[np.int8]:
        rule, layout = self._design.rule, self._design.layout
        before, after = (sums[:, columns].astype(np.float64) for sums in (self._baseline, window))
        passes = Passes(before, after, self._design.samples(1))
        leg = item_leg(passes.changes, passes.floor_variances, layout=layout, params=rule.estimate)
        size = np.abs(leg.delta)
        hit = np.round(size, DECIMALS) >= rule.min_effect
        if rule.mode == "prereg":
            hit &= size > rule.z * leg.se_cr1
        else:
            hit &= size > t_critical(rule.estimate.confidence, layout.df) * leg.se_used
            hit &= size > day_leg_half_width(variances, leg.floor, params=rule)
        return np.where(hit, np.sign(leg.delta), 0).astype(np.int8)
