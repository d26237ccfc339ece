"""Operating characteristics of a registration: the two-window rule and the early warning next to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from canaryd.records import JsonValue
from canaryd.stats.cells import FloatArray
from canaryd.stats.estimate import figure, reaches
from canaryd.stats.simulate.attribute import CALLS
from canaryd.stats.simulate.draw import drawn_days
from canaryd.stats.simulate.legs import ClusterLayout
from canaryd.stats.simulate.looks import RuleOutcome, watch_rule
from canaryd.stats.simulate.monitor import first_alarms, ranks_of_scores, uniform_ranks
from canaryd.stats.simulate.plan import DayShock, Scenario, SimulationPlan, Truth
from canaryd.stats.watch_params import Stream

#: Called with the series done so far and the series of the whole answer.
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Share:
    """A simulated share of `series` series, with its Monte Carlo standard error sqrt(q(1 - q)/R)."""

    share: float
    series: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the share with its standard error as JSON."""
        error = float(np.sqrt(self.share * (1 - self.share) / self.series))
        return {"share": figure(self.share), "series": self.series, "mc_se": figure(error)}


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """Shares of series with at least one alarm within each horizon although nothing changed.

    The early warning is given per stream, each at its own threshold; exchangeable days give every stream the same.
    """

    shock: DayShock
    rule: Mapping[int, Share]
    early_warning: Mapping[Stream, Mapping[int, Share]]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the row as JSON."""
        return {
            "shock": _shock_json(self.shock),
            "rule": _shares_json(self.rule),
            "early_warning": {stream: _shares_json(shares) for stream, shares in self.early_warning.items()},
        }


@dataclass(frozen=True, slots=True)
class Delays:
    """Shares detected within some days after the change, and the median delay (None: not reached while simulated)."""

    within: Mapping[int, Share]
    median: float | None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the delays as JSON."""
        return {"within": _shares_json(self.within), "median": figure(self.median)}


@dataclass(frozen=True, slots=True)
class Detection:
    """How one change is detected; `calls` are the shares of all series by what a change was attributed to."""

    drop: float
    change_day: int
    truth: Truth
    rule: Delays
    early_warning: Mapping[Stream, Delays]
    calls: Mapping[str, Share]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the row as JSON."""
        return {
            "drop": figure(self.drop),
            "change_day": self.change_day,
            "truth": self.truth,
            "rule": self.rule.to_json(),
            "early_warning": {stream: delays.to_json() for stream, delays in self.early_warning.items()},
            "calls": {call: share.to_json() for call, share in self.calls.items()},
        }


@dataclass(frozen=True, slots=True)
class OperatingCharacteristics:
    """The answer: false alarms per shock, detections per change. `generator` names the bit generator that was used."""

    generator: str
    mean_pass_rate: float
    items: int
    detection_shock: DayShock
    false_alarms: tuple[FalseAlarms, ...]
    detections: tuple[Detection, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the whole answer as JSON."""
        return {
            "generator": self.generator,
            "numpy": np.__version__,
            "items": self.items,
            "mean_pass_rate": figure(self.mean_pass_rate),
            "detection_shock": _shock_json(self.detection_shock),
            "false_alarms": [row.to_json() for row in self.false_alarms],
            "detections": [row.to_json() for row in self.detections],
        }


def _shock_json(shock: DayShock) -> dict[str, JsonValue]:
    return {"sd": figure(shock.sd), "rho": figure(shock.rho)}


def _shares_json(shares: Mapping[int, Share]) -> dict[str, JsonValue]:
    return {str(days): share.to_json() for days, share in shares.items()}


def operating_characteristics(
    plan: SimulationPlan, rng: np.random.Generator, *, progress: Progress | None = None
) -> OperatingCharacteristics:
    """Return false alarms and detections of a registration on its own panel, by simulation.

    Every item-day is complete and every window evaluable. The early warning is followed through its first segment;
    the token stream is not simulated, but where it is registered it takes its share of alpha. A change is a uniform
    logit shift. With a control, each change is simulated as the model's (tracked arm) and as the platform's (both).

    Raises:
        ValueError: a drop cannot be reached from the panel's pass rates, or the clusters are too few to decide.
    """
    df, least = ClusterLayout.of(plan.labels).df, plan.rule.estimate.min_df
    if plan.rule.mode == "canaryd" and not reaches(df, least):
        raise ValueError(f"the clusters leave {df:.2f} degrees of freedom and no window is decided below {least}")
    truths: tuple[Truth, ...] = ("model", "platform") if plan.control else ("model",)
    nulls = [Scenario(max(plan.horizons), shock) for shock in plan.shocks]
    changes = [
        Scenario(after + max(plan.detection_days), plan.detection_shock, drop, after, truth)
        for drop in plan.drops
        for after in plan.changes_after
        for truth in truths
    ]
    run = _Run(plan, rng, progress, (len(nulls) + len(changes)) * plan.series)
    return OperatingCharacteristics(
        generator=type(rng.bit_generator).__name__,
        mean_pass_rate=float(np.mean(plan.pass_rates)),
        items=len(plan.pass_rates),
        detection_shock=plan.detection_shock,
        false_alarms=tuple(run.false_alarms(scenario) for scenario in nulls),
        detections=tuple(run.detection(scenario) for scenario in changes),
    )


@dataclass(frozen=True, slots=True)
class _Watched:
    """All series of one scenario: days of the first alarms (inf: none) and what changes were attributed to."""

    rule: FloatArray
    calls: NDArray[np.int8]
    early_warning: dict[Stream, FloatArray]


class _Run:
    """One simulation under way: the plan, its randomness, and how far it is."""

    def __init__(self, plan: SimulationPlan, rng: np.random.Generator, progress: Progress | None, total: int) -> None:
        self._plan, self._rng, self._progress = plan, rng, progress
        self._done, self._total = 0, total
        known: tuple[Stream, ...] = ("score", "difference") if plan.control else ("score",)
        registered = plan.early_warning.streams if plan.early_warning else ()
        self._streams = tuple(stream for stream in known if stream in registered)

    def false_alarms(self, scenario: Scenario) -> FalseAlarms:
        """Return the row of the false-alarm table."""
        watched = self._watch(scenario)
        return FalseAlarms(
            scenario.shock,
            _within(watched.rule, self._plan.horizons),
            {stream: _within(alarms, self._plan.horizons) for stream, alarms in watched.early_warning.items()},
        )

    def detection(self, scenario: Scenario) -> Detection:
        """Return the row of the detection table."""
        watched = self._watch(scenario)
        calls: dict[str, Share] = {}
        if self._plan.control:
            calls = {call: _share(watched.calls == place) for place, call in enumerate(CALLS)}
        return Detection(
            scenario.drop,
            scenario.change_day,
            scenario.truth,
            self._delays(watched.rule - scenario.change_day),
            {
                stream: self._delays(np.where(alarms > scenario.change_day, alarms - scenario.change_day, np.inf))
                for stream, alarms in watched.early_warning.items()
            },
            calls,
        )

    def _delays(self, delays: FloatArray) -> Delays:
        middle = np.sort(delays)[(len(delays) - 1) // 2] if len(delays) else np.inf
        return Delays(_within(delays, self._plan.detection_days), float(middle) if np.isfinite(middle) else None)

    def _watch(self, scenario: Scenario) -> _Watched:
        """Run one scenario chunk by chunk; a series whose early warning alarmed before the change counts as missed."""
        rule, calls, watched_series = [], [], 0
        alarms: dict[Stream, list[FloatArray]] = {stream: [] for stream in self._streams}
        for series in self._plan.chunks:
            days = drawn_days(scenario, self._plan, series=series, rng=self._rng)
            outcome = watch_rule(days, self._plan, scenario=scenario, series=series)
            rule.append(np.where(outcome.changed_on > 0, outcome.changed_on, np.inf))
            calls.append(outcome.call)
            monitored = min(series, self._plan.monitor_series - watched_series)
            for stream in self._streams if monitored else ():
                alarms[stream].append(self._early_warning(scenario, outcome, stream=stream, series=monitored))
            watched_series += monitored
            self._done += series
            if self._progress is not None:
                self._progress(self._done, self._total)
        merged = {stream: np.concatenate(parts) for stream, parts in alarms.items() if parts}
        return _Watched(np.concatenate(rule), np.concatenate(calls), merged)

    def _early_warning(self, scenario: Scenario, outcome: RuleOutcome, *, stream: Stream, series: int) -> FloatArray:
        """Return first alarm days; on exchangeable days the ranks are drawn from their exact null law."""
        params = self._plan.early_warning
        assert params is not None
        if scenario.drop == 0 and (scenario.shock.exchangeable or stream == "difference"):
            return first_alarms(uniform_ranks(self._rng, days=scenario.days, series=series), params)
        scores = outcome.tracked_totals[:, :series]
        if stream == "difference" and outcome.control_totals is not None:
            scores = scores - outcome.control_totals[:, :series]
        return first_alarms(ranks_of_scores(scores, self._rng), params)


def _share(which: NDArray[np.bool_]) -> Share:
    return Share(float(which.mean()), len(which))


def _within(days: FloatArray, limits: Sequence[int]) -> dict[int, Share]:
    return {limit: _share(days <= limit) for limit in limits}
