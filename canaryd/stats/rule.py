"""The two-window rule: from what was measured to a verdict, with every clause kept.

A window is a hit when its delta is beyond chance, on the items and on the days, and large enough to matter. A change
is declared at window k only when windows k-1 and k, neighbours, are evaluable hits of the same sign.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, TypeAlias

from canaryd.records import JsonValue, VerdictKind
from canaryd.stats.attribution import (
    Attribution,
    Call,
    ControlEvidence,
    Direction,
    attribute,
    attribute_by_control_hits,
    difference_in_differences,
)
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import DECIMALS, Estimate, TooFew, reaches, t_critical
from canaryd.stats.evaluable import (
    Clause,
    PanelShape,
    Period,
    PeriodEvidence,
    WindowEvidence,
    evaluability,
    period_evidence,
)
from canaryd.stats.paired import paired_delta
from canaryd.stats.params import RuleParams
from canaryd.stats.power import Mde, realised_mde

State: TypeAlias = Literal["hit_down", "hit_up", "null", "not_evaluable", "pending"]


@dataclass(frozen=True, slots=True)
class WindowState:
    """What one window says by itself, with the clauses that led there."""

    evidence: WindowEvidence
    state: State
    reasons: tuple[str, ...]
    evaluable: tuple[Clause, ...] = ()
    hit: tuple[Clause, ...] = ()

    @property
    def direction(self) -> Direction | None:
        """The side of a hit."""
        return "down" if self.state == "hit_down" else "up" if self.state == "hit_up" else None

    def to_json(self) -> dict[str, JsonValue]:
        """Return state, clauses and figures as JSON."""
        period = self.evidence.period
        return {
            "index": self.evidence.index,
            "state": self.state,
            "reasons": list(self.reasons),
            "attempts": period.attempts,
            "errors": period.errors,
            "usable_days": period.usable_days,
            "days": period.days,
            "fingerprints": [*sorted(period.fingerprints)],
            "estimate": self.evidence.estimate.to_json(),
            "evaluable": [clause.to_json() for clause in self.evaluable],
            "hit": [clause.to_json() for clause in self.hit],
        }


def window_state(
    window: WindowEvidence, baseline: PeriodEvidence, *, panel: PanelShape, params: RuleParams
) -> WindowState:
    """Return whether a window is pending, not evaluable, a hit (and which way) or null."""
    if not window.complete:
        return WindowState(window, "pending", ("incomplete",))
    clauses = evaluability(baseline, window, panel=panel, params=params)
    reasons = tuple(clause.name for clause in clauses if not clause.passed)
    if reasons or isinstance(window.estimate, TooFew):
        return WindowState(window, "not_evaluable", reasons, clauses)
    hit = hit_clauses(window.estimate, params=params)
    state: State = "null"
    if all(clause.passed for clause in hit):
        state = "hit_down" if window.estimate.delta < 0 else "hit_up"
    return WindowState(window, state, (), clauses, hit)


def hit_clauses(estimate: Estimate, *, params: RuleParams) -> tuple[Clause, ...]:
    """Return the clauses of a hit; it is one iff all passed. The first two are strict, the minimum effect counts.

    |delta| > t(df) SE_used,  |delta| > t(df_day) SE_day,  round(|delta|, 12) >= minimum effect; in mode `prereg`
    |delta| > z SE_CR1 in place of the first two.
    """
    size = abs(estimate.delta)
    effect = Clause("min_effect", reaches(size, params.min_effect), round(size, DECIMALS), params.min_effect)
    if params.mode == "prereg":
        limit = params.z * estimate.se_cr1
        return Clause("item_leg", size > limit, size, limit), effect
    item = t_critical(params.estimate.confidence, estimate.df) * estimate.se_used
    day = estimate.day.half_width(params.estimate.confidence) if estimate.day else None
    return (
        Clause("item_leg", size > item, size, item),
        Clause("day_leg", day is not None and size > day, size, day),
        effect,
    )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a pair of windows says: the verdict on the second, the side of a change, and the reasons against one."""

    verdict: VerdictKind
    direction: Direction | None = None
    reasons: tuple[str, ...] = ()


def judge(current: WindowState, previous: WindowState | None) -> Judgement:
    """Return the verdict on a window given its neighbour before it; `previous` is None for the first window.

    Raises:
        ValueError: the two windows are not neighbours, and a change is never declared across a gap.
    """
    index = current.evidence.index
    if (index != 1) if previous is None else (previous.evidence.index != index - 1):
        raise ValueError(f"window {index} is judged with the window before it, and no other")
    if current.state == "pending":
        return Judgement("pending", reasons=current.reasons)
    if current.state == "not_evaluable":
        return Judgement("not_evaluable", reasons=current.reasons)
    if previous is None:
        return Judgement("insufficient_data")
    if previous.state in ("not_evaluable", "pending"):
        return Judgement("not_evaluable", reasons=("previous_window",))
    if current.direction and current.direction == previous.direction:
        return Judgement("change", current.direction)
    return Judgement("no_change_detected")


@dataclass(frozen=True, slots=True)
class WindowData:
    """All arms of one window; index 0 is the baseline. A control that is missing here measured nothing.

    `apart` names by control the items and days that it and the tracked arm did not measure together: they count in what
    each arm says by itself, and not in the difference between the two.
    """

    index: int
    tracked: Period
    controls: Mapping[str, Period] = field(default_factory=dict)
    complete: bool = True
    apart: Mapping[str, Collection[tuple[str, date]]] = field(default_factory=dict)

    def arm(self, control: str | None) -> Period:
        """Return the period of a control, or of the tracked arm for None."""
        return self.tracked if control is None else self.controls.get(control, Period())

    def together(self, control: str) -> tuple[Cells, Cells]:
        """Return the scores of the tracked arm and of a control that were measured together."""
        apart = self.apart.get(control, ())
        return self.tracked.scores.without(apart), self.arm(control).scores.without(apart)


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one window with its whole argument: `clauses` is JSON and holds every clause and figure."""

    index: int
    state: State
    verdict: VerdictKind
    direction: Direction | None
    attribution: Call | None
    reasons: tuple[str, ...]
    estimate: Estimate | TooFew
    controls: Mapping[str, Estimate | TooFew]
    mde: Mde | None
    clauses: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Reference:
    """What every window of a series is held against: the baseline, the panel and the registered numbers."""

    baseline: WindowData
    panel: PanelShape
    params: RuleParams


def arm_state(window: WindowData, control: str | None, *, against: Reference) -> WindowState:
    """Return what one arm's window says against that arm's own baseline; `control` is None for the tracked arm."""
    panel, params = against.panel, against.params
    before, here = against.baseline.arm(control), window.arm(control)
    evidence = WindowEvidence(
        index=window.index,
        complete=window.complete,
        period=period_evidence(here, days=params.window_days, panel=panel, params=params),
        estimate=paired_delta(before.scores, here.scores, clusters=panel.clusters, params=params.estimate),
    )
    reference = period_evidence(before, days=params.baseline_days, panel=panel, params=params)
    return window_state(evidence, reference, panel=panel, params=params)


def decide_window(window: WindowData, previous: WindowData | None, *, against: Reference) -> Decision:
    """Return the decision on one window from it, the window before it and the baseline, and nothing else.

    So a window costs the same to decide however long the series is, and `decide_windows` gives the same decision.

    Raises:
        ValueError: `previous` is not the window right before, or is missing although the window is not the first.
    """
    names = sorted({*against.baseline.controls, *window.controls, *(previous.controls if previous else ())})
    current = {name: arm_state(window, name, against=against) for name in (None, *names)}
    before = {name: arm_state(previous, name, against=against) for name in (None, *names)} if previous else {}
    judgement = judge(current[None], before.get(None))
    attribution = None
    if judgement.direction and previous:
        evidence = {
            name: control_evidence((previous, window), name, states=(before[name], current[name]), against=against)
            for name in names
        }
        attribution = attribute_change(judgement.direction, evidence, params=against.params)
    baseline = against.baseline.tracked.scores
    mde = realised_mde(baseline, window.tracked.scores, params=against.params.mde)
    return Decision(
        index=window.index,
        state=current[None].state,
        verdict=judgement.verdict,
        direction=judgement.direction,
        attribution=attribution.call if attribution else None,
        reasons=judgement.reasons,
        estimate=current[None].evidence.estimate,
        controls={name: current[name].evidence.estimate for name in names},
        mde=mde,
        clauses={
            "mode": against.params.mode,
            "panel_items": against.panel.items,
            "window": current[None].to_json(),
            "previous": before[None].to_json() if before else None,
            "controls": {
                name: {
                    "window": current[name].to_json(),
                    "previous": before[name].to_json() if before else None,
                }
                for name in names
            },
            "attribution": dict(attribution.clauses) if attribution else None,
            "mde": mde.to_json() if mde else None,
        },
    )


def control_evidence(
    windows: tuple[WindowData, WindowData],
    control: str,
    *,
    states: tuple[WindowState, WindowState],
    against: Reference,
) -> ControlEvidence:
    """Return what a control says about a change in two windows, which it pools; `states` are its own in each."""
    panel, params = against.panel, against.params

    before = against.baseline.arm(control).scores
    after = windows[0].arm(control).scores.plus(windows[1].arm(control).scores)
    (mine, theirs), *later = (window.together(control) for window in (against.baseline, *windows))
    difference = difference_in_differences(
        (mine, later[0][0].plus(later[1][0])),
        (theirs, later[0][1].plus(later[1][1])),
        clusters=panel.clusters,
        params=params.estimate,
    )
    return ControlEvidence(
        difference=difference,
        pooled=paired_delta(before, after, clusters=panel.clusters, params=params.estimate),
        previous=states[0].evidence.estimate,
        current=states[1].evidence.estimate,
        reasons=tuple(dict.fromkeys(reason for state in states for reason in state.reasons)),
    )


def attribute_change(
    direction: Direction, controls: Mapping[str, ControlEvidence], *, params: RuleParams
) -> Attribution:
    """Return whose change it is, by the rule of the registered mode."""
    if params.mode == "prereg":
        return attribute_by_control_hits(direction, controls, z=params.z)
    return attribute(direction, controls, confidence=params.did_confidence)


def decide_windows(windows: Sequence[WindowData], *, against: Reference) -> list[Decision]:
    """Return the decisions on a chain of neighbouring windows that begins with window 1.

    Raises:
        ValueError: a window of the chain is missing.
    """
    return [
        decide_window(window, previous, against=against)
        for previous, window in zip([None, *windows], windows, strict=False)
    ]
