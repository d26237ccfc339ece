"""Whose change it is, for many declared changes at once: the rules of `attribution` on sums of passed samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from canaryd.stats.attribution import Call
from canaryd.stats.cells import FloatArray
from canaryd.stats.estimate import t_critical
from canaryd.stats.params import RuleParams
from canaryd.stats.simulate.legs import ClusterLayout, Passes, item_leg

Calls: TypeAlias = NDArray[np.int8]
CALLS: tuple[Call, ...] = ("model", "platform", "unattributed")
_MODEL, _PLATFORM, _UNATTRIBUTED = range(len(CALLS))


@dataclass(frozen=True, slots=True)
class ArmPeriods:
    """Passed samples per item and declared change of one arm: baseline and the two windows of the change."""

    baseline: FloatArray
    previous: FloatArray
    current: FloatArray


@dataclass(frozen=True, slots=True)
class Design:
    """What all series of a simulation share: the rule, the samples of an item per day, and the clusters."""

    rule: RuleParams
    samples_per_day: int
    layout: ClusterLayout

    def samples(self, windows: int) -> tuple[int, int]:
        """Return the samples of an item in the baseline and in so many windows."""
        return self.rule.baseline_days * self.samples_per_day, windows * self.rule.window_days * self.samples_per_day


def attributed(tracked: ArmPeriods, control: ArmPeriods, *, sign: FloatArray, design: Design) -> Calls:
    """Return the place in `CALLS` of every declared change; `sign` is -1 where it goes down and 1 where it goes up."""
    if design.rule.mode == "prereg":
        return _by_control_hits(control, sign=sign, design=design)
    return _by_difference(tracked, control, sign=sign, design=design)


def _by_difference(tracked: ArmPeriods, control: ArmPeriods, *, sign: FloatArray, design: Design) -> Calls:
    mine, theirs = _pooled(tracked, design), _pooled(control, design)
    critical = t_critical(design.rule.did_confidence, design.layout.df)

    def beyond(changes: FloatArray, floor_variances: FloatArray) -> NDArray[np.bool_]:
        leg = item_leg(changes, floor_variances, layout=design.layout, params=design.rule.estimate)
        excluded: NDArray[np.bool_] = sign * leg.delta > critical * leg.se_used
        return excluded

    by_difference = beyond(mine.changes - theirs.changes, mine.floor_variances + theirs.floor_variances)
    by_control = beyond(theirs.changes, theirs.floor_variances)
    return np.where(by_difference, _MODEL, np.where(by_control, _PLATFORM, _UNATTRIBUTED)).astype(np.int8)


def _pooled(arm: ArmPeriods, design: Design) -> Passes:
    return Passes(arm.baseline, arm.previous + arm.current, design.samples(2))


def _by_control_hits(control: ArmPeriods, *, sign: FloatArray, design: Design) -> Calls:
    moved = np.ones(len(sign), dtype=np.bool_)
    for window in (control.previous, control.current):
        passes = Passes(control.baseline, window, design.samples(1))
        leg = item_leg(passes.changes, passes.floor_variances, layout=design.layout, params=design.rule.estimate)
        moved &= sign * leg.delta > design.rule.z * leg.se_cr1
    return np.where(moved, _PLATFORM, _MODEL).astype(np.int8)
