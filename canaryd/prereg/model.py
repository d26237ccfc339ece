"""What a registration holds, frozen; effects, rates and shares are fractions, lengths are days."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from canaryd.records import Item
from canaryd.stats.params import HeadroomParams, RuleParams, TokenParams
from canaryd.stats.study_params import CalibrationParams, ValidationParams
from canaryd.stats.watch_params import EarlyWarningParams, SentinelParams


@dataclass(frozen=True, slots=True)
class Statement:
    """What the registration says in words, one sentence an entry; it is stored and printed, and decides nothing."""

    exclusions: tuple[str, ...]
    secondary_analyses: tuple[str, ...]
    threats: tuple[str, ...]
    publication: str


@dataclass(frozen=True, slots=True)
class Planning:
    """What is simulated of a registration before there are data: assumed pass rates, and the worlds it is put into."""

    mean_pass_rate: float
    pass_rate_concentration: float
    series: int
    drops: tuple[float, ...]
    day_shocks: tuple[float, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class JudgeRule:
    """What is registered of a judge: whether its grades enter the estimates, and how far its anchors may move."""

    primary: bool
    max_anchors_moved: int


@dataclass(frozen=True, slots=True)
class Prereg:
    """One registration; `judge` is None where nothing is registered of one."""

    digest: str
    source: str
    horizon_days: int
    rule: RuleParams
    target_mde: float
    tokens: TokenParams
    outcome_alpha: float
    headroom: HeadroomParams
    localisation_q: float
    early_warning: EarlyWarningParams
    sentinels: SentinelParams
    calibration: CalibrationParams
    validation: ValidationParams
    planning: Planning
    statement: Statement
    judge: JudgeRule | None = None

    def measured(self, items: Iterable[Item]) -> tuple[Item, ...]:
        """Return the items that enter the estimates: no sentinel, and what a judge grades only where registered."""
        judged = self.judge is not None and self.judge.primary
        return tuple(item for item in items if not item.sentinel and (judged or not item.is_judged))
