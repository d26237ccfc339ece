"""Whether a window may decide anything: what was measured in it, clause by clause against what was registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from canaryd.records import JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, TooFew, figure, reaches
from canaryd.stats.params import RuleParams

Mode: TypeAlias = Literal["canaryd", "prereg"]
Figure: TypeAlias = "float | list[str] | None"


@dataclass(frozen=True, slots=True)
class PanelShape:
    """How many items take part in aggregates (sentinels do not), and the template of each (missing: its own).

    Raises:
        ValueError: there is no item.
    """

    items: int
    clusters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.items < 1:
            raise ValueError("a panel without an item that is measured decides nothing")


@dataclass(frozen=True, slots=True)
class Period:
    """What the store holds of one arm in one period, without sentinels and without invalid samples.

    `attempts` counts every sample, with a grade or failed; `fingerprints` are the harnesses that its runs had.
    """

    scores: Cells = field(default_factory=Cells)
    attempts: int = 0
    harness_failures: int = 0
    outcome_failures: int = 0
    fingerprints: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PeriodEvidence:
    """What counts of a period: samples, errors among them, harnesses, and usable days of its `days`."""

    attempts: int
    errors: int
    fingerprints: frozenset[str]
    usable_days: int
    days: int


@dataclass(frozen=True, slots=True)
class WindowEvidence:
    """What counts of one arm's window: its period, its estimate against the baseline, and whether it has ended."""

    index: int
    complete: bool
    period: PeriodEvidence
    estimate: Estimate | TooFew


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition with its figure and the registered limit that the figure was held against."""

    name: str
    passed: bool
    figure: Figure
    limit: Figure

    def to_json(self) -> dict[str, JsonValue]:
        """Return the clause as JSON."""
        return {
            "clause": self.name,
            "passed": self.passed,
            "figure": _stored(self.figure),
            "limit": _stored(self.limit),
        }


def _stored(value: Figure) -> JsonValue:
    return [*value] if isinstance(value, list) else figure(value)


def period_evidence(period: Period, *, days: int, panel: PanelShape, params: RuleParams) -> PeriodEvidence:
    """Return what counts of a period of `days` days.

    Errors are harness failures (nothing was measured); in mode `prereg` every failure is one.
    """
    usable = period.scores.usable_days(panel.items, params.min_day_item_share)
    errors = period.harness_failures + (period.outcome_failures if params.mode == "prereg" else 0)
    return PeriodEvidence(period.attempts, errors, period.fingerprints, len(usable), days)


def evaluability(
    baseline: PeriodEvidence, window: WindowEvidence, *, panel: PanelShape, params: RuleParams
) -> tuple[Clause, ...]:
    """Return the clauses of an ended window in their fixed order; it is evaluable iff all passed.

    A failed clause's name is the reason: baseline_harness, baseline_error_rate, baseline_too_few_days, no_data,
    error_rate, harness, too_few_days, too_few_items, too_few_clusters, no_day_leg. Mode `prereg` asks for fewer.
    """
    strict = params.mode == "canaryd"
    period, estimate = window.period, window.estimate
    clauses = [
        Clause("baseline_harness", len(baseline.fingerprints) <= 1, sorted(baseline.fingerprints), None),
        *(_error_rate("baseline_error_rate", baseline, params=params) if strict else ()),
        *(_enough_days("baseline_too_few_days", baseline, params=params) if strict else ()),
        Clause("no_data", estimate.items_paired > 0, float(estimate.items_paired), 1.0),
        *_error_rate("error_rate", period, params=params),
        Clause(
            "harness",
            period.fingerprints <= baseline.fingerprints,
            sorted(period.fingerprints),
            sorted(baseline.fingerprints),
        ),
    ]
    if strict:
        share = estimate.items_paired / panel.items
        clauses += _enough_days("too_few_days", period, params=params)
        clauses.append(Clause("too_few_items", share >= params.min_item_share, share, params.min_item_share))
    return (*clauses, *_enough_spread(estimate, params))


def _error_rate(name: str, period: PeriodEvidence, *, params: RuleParams) -> tuple[Clause, ...]:
    if period.attempts == 0:
        return ()
    rate = period.errors / period.attempts
    return (Clause(name, rate < params.max_error_rate, rate, params.max_error_rate),)


def _enough_days(name: str, period: PeriodEvidence, *, params: RuleParams) -> tuple[Clause, ...]:
    share = period.usable_days / period.days
    return (Clause(name, share >= params.min_usable_day_share, share, params.min_usable_day_share),)


def _enough_spread(estimate: Estimate | TooFew, params: RuleParams) -> tuple[Clause, ...]:
    """Whether clusters and days are many enough for a standard error; silent where nothing pairs (`no_data`)."""
    if isinstance(estimate, TooFew):
        alone = estimate.reason != "no_overlap"
        return (Clause("too_few_clusters", False, None, params.estimate.min_df),) if alone else ()
    if params.mode == "prereg":
        return ()
    enough = reaches(estimate.df, params.estimate.min_df)
    days = float(min(estimate.day.days_baseline, estimate.day.days_window)) if estimate.day else None
    return (
        Clause("too_few_clusters", enough, estimate.df, params.estimate.min_df),
        Clause("no_day_leg", estimate.day is not None, days, 2.0),
    )
