"""Whose change it is: the tracked arm against controls that answered the same items on the same days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from canaryd.records import JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, ItemValues, TooFew, estimate_of, t_critical
from canaryd.stats.paired import pair_items
from canaryd.stats.params import EstimateParams

Call: TypeAlias = Literal["model", "platform", "unattributed"]
Direction: TypeAlias = Literal["down", "up"]


@dataclass(frozen=True, slots=True)
class ControlEvidence:
    """What one control says about a change that took two windows.

    `difference` is the pooled difference-in-differences on shared items, `pooled` the control's own pooled delta,
    `previous` and `current` its deltas in the two windows, and `reasons` why it is not evaluable (empty: it is).
    """

    difference: Estimate | TooFew
    pooled: Estimate | TooFew
    previous: Estimate | TooFew
    current: Estimate | TooFew
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attribution:
    """To whom a change is put down, with every clause that led there."""

    call: Call
    clauses: Mapping[str, JsonValue]


def difference_in_differences(
    tracked: tuple[Cells, Cells], control: tuple[Cells, Cells], *, clusters: Mapping[str, str], params: EstimateParams
) -> Estimate | TooFew:
    """Return the mean over shared items of the tracked arm's change minus the control's; each arm is (before, after).

        D_i = (T_i,after - T_i,before) - (C_i,after - C_i,before)

    A shock that hits both arms cancels inside each item. Its floor adds up the variances of both arms.

    >>> from datetime import date
    >>> def period(month, **scores):
    ...     return Cells.from_samples((item, date(2027, month, 1), score) for item, score in scores.items())
    >>> before = period(1, a=1.0, b=1.0)
    >>> params = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)
    >>> difference_in_differences(
    ...     (before, period(2, a=0.0, b=0.5)), (before, period(2, a=1.0, b=0.5)), clusters={}, params=params).delta
    -0.5
    """
    mine, theirs = pair_items(*tracked), pair_items(*control)
    shared = sorted(set(mine.items) & set(theirs.items))
    dropped = tuple(sorted(set(mine.items) ^ set(theirs.items)))
    mine, theirs = mine.of(shared), theirs.of(shared)
    values = ItemValues(mine.items, mine.deltas - theirs.deltas, dropped, mine.floor_variances + theirs.floor_variances)
    return estimate_of(values, clusters=clusters, params=params)


def excludes_zero(estimate: Estimate | TooFew, *, direction: Direction, confidence: float) -> bool:
    """Return whether the item leg's interval at `confidence` lies wholly on the side of `direction`.

    An estimate on too few items or clusters excludes nothing.
    """
    if isinstance(estimate, TooFew) or not estimate.decidable:
        return False
    towards = estimate.delta if direction == "up" else -estimate.delta
    return towards > t_critical(confidence, estimate.df) * estimate.se_used


def attribute(direction: Direction, controls: Mapping[str, ControlEvidence], *, confidence: float) -> Attribution:
    """Return whose change it is by pooled difference-in-differences.

    Per control: `model` if the difference excludes 0 on the side of the change; else `platform` if the control's own
    pooled delta does; else, or when the control is not evaluable, `unattributed`. Several controls must agree.
    """
    calls: dict[str, Call] = {}
    clauses: dict[str, JsonValue] = {}
    for name, evidence in controls.items():
        by_difference = excludes_zero(evidence.difference, direction=direction, confidence=confidence)
        by_control = excludes_zero(evidence.pooled, direction=direction, confidence=confidence)
        calls[name] = "unattributed"
        if not evidence.reasons:
            calls[name] = "model" if by_difference else "platform" if by_control else "unattributed"
        clauses[name] = {
            "call": calls[name],
            "not_evaluable": list(evidence.reasons),
            "difference": evidence.difference.to_json(),
            "difference_excludes_0": by_difference,
            "control_pooled": evidence.pooled.to_json(),
            "control_excludes_0": by_control,
        }
    return _agreed(calls, {"rule": "pooled_difference", "confidence": confidence, "controls": clauses})


def attribute_by_control_hits(
    direction: Direction, controls: Mapping[str, ControlEvidence], *, z: float
) -> Attribution:
    """Return whose change it is as the published rule has it (mode `prereg`).

    `platform` if the control's own |delta| exceeds z CR1 standard errors on the side of the change in both windows;
    `unattributed` if it has no estimate in one of them; else `model`.
    """
    calls: dict[str, Call] = {}
    clauses: dict[str, JsonValue] = {}
    for name, evidence in controls.items():
        windows = {"previous": evidence.previous, "current": evidence.current}
        moved = {
            which: isinstance(estimate, Estimate)
            and (estimate.delta if direction == "up" else -estimate.delta) > z * estimate.se_cr1
            for which, estimate in windows.items()
        }
        known = all(isinstance(estimate, Estimate) for estimate in windows.values())
        calls[name] = "unattributed" if not known else "platform" if all(moved.values()) else "model"
        clauses[name] = {
            "call": calls[name],
            **{f"{which}_moved_alike": alike for which, alike in moved.items()},
            **{which: estimate.to_json() for which, estimate in windows.items()},
        }
    return _agreed(calls, {"rule": "control_hits", "z": z, "controls": clauses})


def _agreed(calls: Mapping[str, Call], clauses: dict[str, JsonValue]) -> Attribution:
    different = set(calls.values())
    call: Call = different.pop() if len(different) == 1 else "unattributed"
    return Attribution(call, {**clauses, "call": call})
