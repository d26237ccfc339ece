"""What is simulated: a registration on its own panel, and the worlds it is put into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from canaryd.stats.params import RuleParams
from canaryd.stats.watch_params import EarlyWarningParams

_CELLS_AT_ONCE = 800_000

Truth: TypeAlias = Literal["model", "platform"]


@dataclass(frozen=True, slots=True)
class DayShock:
    """A shock that all items of a day share, in both arms: N(0, sd) on the pass rate, AR(1) with `rho` over days."""

    sd: float = 0.0
    rho: float = 0.0

    @property
    def exchangeable(self) -> bool:
        """Whether the days stay exchangeable, so that null ranks are uniform exactly."""
        return self.sd == 0 or self.rho == 0


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """A registration and the questions put to it. Rates, drops and shocks are fractions.

    Attributes:
        pass_rates: one per non-sentinel item.
        rule: the constants of the two-window rule.
        early_warning: the constants of the early warning; None leaves it out.
        series: simulated series in every cell of the answer.
        monitor_series: how many of them the early warning, which costs far more, also watches.
        samples_per_day: samples of an item on a day.
        clusters: the template of each item; empty: every item its own.
        look_days: days between looks of the rule, a divisor of the window; None is the registered calendar. Smaller
            ones answer what peeking at sliding windows would do.
        control: whether a control arm with the same pass rates runs the same items.
        shocks: day shocks of the false-alarm table.
        horizons: days within which false alarms are counted.
        drops: falls of the mean pass rate of the detection table (negative: rises).
        change_days: last unchanged day of each change; empty: the last baseline day.
        detection_days: days after the change within which detections are counted.
        detection_shock: day shock of the detection table.
        chunk_series: series in memory at once, fewer where the panel is large.
    """

    pass_rates: tuple[float, ...]
    rule: RuleParams
    early_warning: EarlyWarningParams | None
    series: int
    monitor_series: int
    samples_per_day: int = 1
    clusters: tuple[str, ...] = ()
    look_days: int | None = None
    control: bool = False
    shocks: tuple[DayShock, ...] = (DayShock(),)
    horizons: tuple[int, ...] = (30, 90, 365)
    drops: tuple[float, ...] = ()
    change_days: tuple[int, ...] = ()
    detection_days: tuple[int, ...] = (20, 40, 90)
    detection_shock: DayShock = DayShock()
    chunk_series: int = 10_000

    def __post_init__(self) -> None:
        """Raise ValueError with a sentence that names what cannot be simulated."""
        rule, look = self.rule, self.look
        refusals = {
            "pass_rates lie in [0, 1] and there are at least two": len(self.pass_rates) >= 2
            and all(0.0 <= rate <= 1.0 for rate in self.pass_rates),
            "clusters names a template for every item or is empty": len(self.clusters) in (0, len(self.pass_rates)),
            "samples_per_day lies in 1 .. 255": 1 <= self.samples_per_day <= 255,
            "baseline and window have at least two days each": min(rule.baseline_days, rule.window_days) >= 2,
            "look_days divides window_days": look >= 1 and rule.window_days % look == 0,
            "series and chunk_series are positive": min(self.series, self.chunk_series) >= 1,
            "monitor_series lies in 0 .. series": 0 <= self.monitor_series <= self.series,
            "horizons and detection_days are positive": min((*self.horizons, *self.detection_days)) >= 1,
            "change_days are not negative": min(self.change_days, default=0) >= 0,
            "shocks have sd >= 0 and rho in [0, 1)": all(
                shock.sd >= 0 and 0 <= shock.rho < 1 for shock in (*self.shocks, self.detection_shock)
            ),
        }
        broken = [needed for needed, holds in refusals.items() if not holds]
        if broken:
            raise ValueError(f"this plan cannot be simulated: {broken[0]}; correct the plan")

    @property
    def look(self) -> int:
        """Days between two looks of the rule."""
        return self.rule.window_days if self.look_days is None else self.look_days

    @property
    def chunks(self) -> tuple[int, ...]:
        """The series of every chunk; a day of one chunk holds at most about 800,000 cells."""
        size = min(self.chunk_series, max(_CELLS_AT_ONCE // len(self.pass_rates), 1))
        full, rest = divmod(self.series, size)
        return (size,) * full + ((rest,) if rest else ())

    @property
    def labels(self) -> tuple[str, ...]:
        """The cluster of every item."""
        return self.clusters or tuple(str(item) for item in range(len(self.pass_rates)))

    @property
    def changes_after(self) -> tuple[int, ...]:
        """The last unchanged day of every change of the detection table."""
        return self.change_days or (self.rule.baseline_days,)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world: how many days it lasts, its shocks, and the change after day `change_day` (drop 0: none)."""

    days: int
    shock: DayShock
    drop: float = 0.0
    change_day: int = 0
    truth: Truth = "model"
