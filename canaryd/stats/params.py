"""Every registered number that the statistics read, as plain records; the registration is where they come from.

Nothing heavy is imported here, so that a reader of the registration need not load numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["canaryd", "prereg"]


@dataclass(frozen=True, slots=True)
class EstimateParams:
    """The numbers of an estimate.

    `confidence` is that of the intervals; below `min_df` degrees of freedom nothing is decided; with fewer than
    `min_changed_items` items that moved at all, the floor of the standard error applies.
    """

    confidence: float
    min_df: float
    min_changed_items: int


@dataclass(frozen=True, slots=True)
class MdeParams:
    """The numbers of the minimum detectable effect.

    It is (`z_confidence` + `z_power`) standard errors for one window; `two_window_factor` is how much larger a
    change must be for the whole rule, which asks for two windows, to find it as often.
    """

    z_confidence: float
    z_power: float
    two_window_factor: float


@dataclass(frozen=True, slots=True)
class RuleParams:
    """The numbers of the two-window rule; shares, rates and effects are fractions.

    Mode `canaryd` is the default rule; `prereg` is the published one as written: `z` instead of t, CR1, no day leg,
    every failure an error, and attribution by the control's own hits.
    """

    mode: Mode
    baseline_days: int
    window_days: int
    estimate: EstimateParams
    min_effect: float
    max_error_rate: float
    min_usable_day_share: float
    min_day_item_share: float
    min_item_share: float
    did_confidence: float
    z: float
    mde: MdeParams


@dataclass(frozen=True, slots=True)
class TokenParams:
    """The numbers of the token stream: a ticket needs a change of at least `min_change` (a fraction)."""

    estimate: EstimateParams
    min_change: float


@dataclass(frozen=True, slots=True)
class HeadroomParams:
    """From which baseline mean an arm has little room to rise (`high`) or to fall (`low`)."""

    high: float
    low: float
