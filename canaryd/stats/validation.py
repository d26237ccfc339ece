"""Whether the instrument measures what it says: A/A comparisons of a model with itself, and changes it must see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np

from canaryd.records import JsonValue
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, TooFew, figure, reaches
from canaryd.stats.outcomes import OutcomeCounts, Outcomes, outcome_tests
from canaryd.stats.paired import day_leg, paired_delta
from canaryd.stats.params import EstimateParams, RuleParams, TokenParams
from canaryd.stats.study_params import SeenIn, ValidationParams
from canaryd.stats.tokens import TokenCells, TokenChange, token_change


@dataclass(frozen=True, slots=True)
class DayNoise:
    """How much more days differ than independent samples would: phi = V_day / V_obs, about 1 without a day effect.

    `limit` is what chance alone exceeds with probability alpha.
    """

    phi: float
    df: int
    limit: float

    @property
    def exceeds(self) -> bool:
        """Whether the days differ by more than chance."""
        return self.phi > self.limit

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {"phi": figure(self.phi), "df": self.df, "limit": figure(self.limit), "exceeds": self.exceeds}


@dataclass(frozen=True, slots=True)
class SelfComparison:
    """The model against itself: `passed` is None while there is no interval with both legs to judge."""

    days: tuple[int, int]
    estimate: Estimate | TooFew
    noise: DayNoise | None

    @property
    def passed(self) -> bool | None:
        """Whether the interval holds 0 and the days do not differ by more than chance."""
        if isinstance(self.estimate, TooFew) or not self.estimate.decidable or self.estimate.ci is None:
            return None
        low, high = self.estimate.ci
        return low <= 0 <= high and not (self.noise is not None and self.noise.exceeds)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "passed": self.passed,
            "days": list(self.days),
            "estimate": self.estimate.to_json(),
            "noise": None if self.noise is None else self.noise.to_json(),
        }


def odd_against_even(
    baseline: Cells, *, start: date, clusters: Mapping[str, str], params: EstimateParams
) -> SelfComparison:
    """Return the baseline's even days against its odd ones, counted from `start`, the first day of the series.

    Samples of one session look alike, so a comparison inside a session cannot see what differs between days.
    """
    odd, even = (
        Cells(cell for cell in baseline if ((cell.day - start).days + 1) % 2 == remainder) for remainder in (1, 0)
    )
    return SelfComparison(
        days=(len(odd.days), len(even.days)),
        estimate=paired_delta(odd, even, clusters=clusters, params=params),
        noise=day_noise(odd, even, alpha=1 - params.confidence),
    )


def day_noise(baseline: Cells, window: Cells, *, alpha: float) -> DayNoise | None:
    """Return phi = V_day / V_obs of two periods, or None where one of both variances is not known or zero.

        V_obs = K^-2 sum_i ( s2_i,b / m_i,b + s2_i,w / m_i,w )

    over the K items with two samples in both periods, s2_i the variance of an item's samples; V_day is that of the day
    leg (see `paired.day_leg`). Without a day effect phi is about chi2(df) / df with df = days - 2.

    >>> from datetime import timedelta
    >>> def period(*scores):
    ...     days = [date(2027, 1, 1) + timedelta(days=day) for day in range(len(scores[0]))]
    ...     return Cells.from_samples((f"i{k}", day, s) for k, row in enumerate(scores) for day, s in zip(days, row))
    >>> alike = period((0.0, 1.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0))
    >>> round(day_noise(alike, alike, alpha=0.01).phi, 6)
    2.0
    """
    from scipy.stats import chi2

    before, after = baseline.by_item(), window.by_item()
    often = [{item for item, n in zip(each.items, each.n.tolist(), strict=True) if n >= 2} for each in (before, after)]
    items = sorted(often[0] & often[1])
    leg = day_leg(baseline, window, items=items)
    if not items or leg is None:
        return None
    observed = 0.0
    for totals in (before.of(items), after.of(items)):
        within = np.maximum(totals.total_sq - totals.total**2 / totals.n, 0) / (totals.n - 1)
        observed += float(np.sum(within / totals.n)) / len(items) ** 2
    df = leg.days_baseline + leg.days_window - 2
    if observed == 0:
        return None
    return DayNoise(leg.se**2 / observed, df, float(chi2.ppf(1 - alpha, df)) / df)


@dataclass(frozen=True, slots=True)
class Session:
    """What one arm did in the sessions of a validation."""

    scores: Cells = field(default_factory=Cells)
    tokens: Cells = field(default_factory=Cells)
    outcomes: OutcomeCounts = field(default_factory=lambda: OutcomeCounts(0))


@dataclass(frozen=True, slots=True)
class ControlSeen:
    """A positive control against the tracked arm, asked side by side; `seen` lists the streams that show it."""

    name: str
    score: Estimate | TooFew
    tokens: TokenChange
    outcomes: Outcomes
    seen: tuple[SeenIn, ...]
    passed: bool | None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the figures as JSON."""
        return {
            "name": self.name,
            "passed": self.passed,
            "seen": list(self.seen),
            "score": self.score.to_json(),
            "tokens": self.tokens.to_json(),
            "outcomes": self.outcomes.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Criterion:
    """By what a positive control counts as seen: the registered numbers."""

    validation: ValidationParams
    rule: RuleParams
    tokens: TokenParams

    @property
    def estimate(self) -> EstimateParams:
        """The numbers of an estimate at the registered alpha of the validation."""
        return replace(self.rule.estimate, confidence=1 - self.validation.alpha)


def control_seen(
    name: str, control: Session, *, tracked: Session, clusters: Mapping[str, str], criterion: Criterion
) -> ControlSeen:
    """Return whether a positive control is seen against the tracked arm.

    Both were asked side by side, so what a day does to one it does to the other, and the item leg alone decides.
    """
    params = criterion.estimate
    score = paired_delta(tracked.scores, control.scores, clusters=clusters, params=params)
    tokens = token_change(
        TokenCells(tracked.tokens),
        TokenCells(control.tokens),
        clusters=clusters,
        params=replace(criterion.tokens, estimate=params),
    )
    outcomes = outcome_tests(tracked.outcomes, control.outcomes, alpha=criterion.validation.alpha)
    shown: dict[SeenIn, bool] = {
        "score": _excludes_zero(score) and reaches(abs(score.delta or 0.0), criterion.rule.min_effect),
        "tokens": _excludes_zero(tokens.log_ratio) and reaches(abs(tokens.change or 0.0), criterion.tokens.min_change),
        "outcomes": outcomes.state == "moved",
    }
    seen = tuple(stream for stream, is_seen in shown.items() if is_seen)
    judged = control.outcomes.answered > 0 and tracked.outcomes.answered > 0
    passed = any(stream in seen for stream in criterion.validation.seen_in) if judged else None
    return ControlSeen(name, score, tokens, outcomes, seen, passed)


def _excludes_zero(estimate: Estimate | TooFew) -> bool:
    if isinstance(estimate, TooFew) or not estimate.decidable:
        return False
    return abs(estimate.delta) > estimate.half_width_item
