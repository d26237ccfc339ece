"""Simulating operating characteristics against a numpy loop over series and windows on the same random bits.

Measured in child processes held to one thread: this file run as a program measures and prints JSON. The loop is linear
in the number of series, so it runs on a few of them and its time is scaled; ours runs in full, with the drawing of the
bits counted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from benchmarks.figures import Figure, at_least, at_most
from canaryd.stats.params import EstimateParams, MdeParams, RuleParams
from canaryd.stats.simulate import DayShock, Scenario, SimulationPlan, operating_characteristics
from canaryd.stats.simulate.draw import drawn_days
from canaryd.stats.simulate.looks import watch_rule

RULE = RuleParams(
    mode="canaryd",
    baseline_days=10,
    window_days=7,
    estimate=EstimateParams(confidence=0.99, min_df=4, min_changed_items=5),
    min_effect=0.03,
    max_error_rate=0.05,
    min_usable_day_share=0.7,
    min_day_item_share=0.8,
    min_item_share=0.8,
    did_confidence=0.95,
    z=2.576,
    mde=MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24),
)
LOOKS = {"weekly": 7, "daily": 1}
GOALS = {"weekly": 50, "daily": 100}
MEMORY_LIMIT_MIB = 256
DAYS, ITEMS, SEED = 365, 78, 20270101


def loop_over_windows(bits: np.ndarray, *, look: int) -> int:
    """Return the day of the first declared change of one series, bits of shape (days, items); 0 for none."""
    rule, quantile = RULE, (1 + RULE.estimate.confidence) / 2
    items = bits.shape[1]
    baseline = bits[: rule.baseline_days]
    baseline_mean = baseline.mean(axis=0)
    baseline_part = baseline.mean(axis=1).var(ddof=1) / rule.baseline_days
    item_critical = stdtrit(items - 1, quantile)
    hits: dict[int, float] = {}
    for end in range(rule.baseline_days + rule.window_days, len(bits) + 1, look):
        window = bits[end - rule.window_days : end]
        change = window.mean(axis=0) - baseline_mean
        delta = change.mean()
        item_se = np.sqrt(((change - delta) ** 2).sum() / (items * (items - 1)))
        window_part = window.mean(axis=1).var(ddof=1) / rule.window_days
        variance = baseline_part + window_part
        spread = baseline_part**2 / (rule.baseline_days - 1) + window_part**2 / (rule.window_days - 1)
        day_half_width = stdtrit(variance**2 / spread, quantile) * np.sqrt(variance)
        beyond = abs(delta) > max(item_critical * item_se, day_half_width)
        hits[end] = np.sign(delta) if beyond and round(abs(delta), 12) >= rule.min_effect else 0
        if hits[end] and hits.get(end - rule.window_days) == hits[end]:
            return end
    return 0


def plan_of(look: int, series: int) -> SimulationPlan:
    """Return the plan: the 78 items of the method's evidence, one sample a day, nothing changes."""
    rng = np.random.default_rng(SEED)
    families = ((0.72, 12), (0.54, 59), (0.72, 4), (0.87, 3))
    rates = np.concatenate([rng.beta(mean * 4.2, (1 - mean) * 4.2, items) for mean, items in families])
    return SimulationPlan(
        pass_rates=tuple(rates.tolist()),
        rule=RULE,
        early_warning=None,
        series=series,
        monitor_series=0,
        look_days=look,
        horizons=(DAYS,),
    )


def same_alarms(plan: SimulationPlan, *, series: int, days: int, drop: float) -> tuple[int, int]:
    """Return on how many series both were compared and how many alarmed.

    Raises:
        AssertionError: the loop and the simulation do not alarm on the same days.
    """
    scenario = Scenario(days, DayShock(), drop=drop, change_day=RULE.baseline_days)
    drawn = list(drawn_days(scenario, plan, series=series, rng=np.random.default_rng(SEED)))
    ours = watch_rule(drawn, plan, scenario=Scenario(days, DayShock()), series=series).changed_on
    bits = np.stack([day[0] for day in drawn])
    loop = [loop_over_windows(bits[:, :, one], look=plan.look) for one in range(series)]
    assert ours.tolist() == loop, "the simulation and the loop alarm on different days"
    return series, int(np.count_nonzero(ours))


def seconds_of_loop(plan: SimulationPlan, series: int) -> float:
    """Return the processor seconds of the loop over `series` series whose bits are already drawn."""
    drawn = drawn_days(Scenario(DAYS, DayShock()), plan, series=series, rng=np.random.default_rng(SEED))
    bits = np.stack([day[0] for day in drawn])
    columns = [np.ascontiguousarray(bits[:, :, one]) for one in range(series)]
    began_s = time.process_time()
    for column in columns:
        loop_over_windows(column, look=plan.look)
    return time.process_time() - began_s


def measure(series: int, loop_series: int, pairs: int) -> dict[str, float]:
    """Return for every look the median ratio over interleaved pairs.

    Raises:
        AssertionError: the loop and the simulation do not alarm on the same days.
    """
    rows = {}
    for name, look in LOOKS.items():
        plan = plan_of(look, series)
        ratios = []
        for _ in range(pairs):
            began_s = time.process_time()
            operating_characteristics(plan, np.random.default_rng(SEED))
            ours_s = time.process_time() - began_s
            ratios.append(seconds_of_loop(plan, loop_series) * series / loop_series / ours_s)
        same_alarms(plan, series=loop_series, days=DAYS, drop=0.0)
        same_alarms(plan, series=loop_series, days=60, drop=0.1)
        rows[name] = statistics.median(ratios)
    return rows


def peak_memory_mib(series: int) -> float:
    """Return the peak resident memory of this process after a simulation at daily looks."""
    operating_characteristics(plan_of(LOOKS["daily"], series), np.random.default_rng(SEED))
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def in_child(*arguments: object) -> Any:
    """Run this file again, held to one thread, and return the JSON value that it printed."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.bench_simulate", *map(str, arguments)]
    root = Path(__file__).parents[1]
    return json.loads(subprocess.check_output(command, env={**os.environ, **one_thread}, cwd=root))


def figures(*, smoke: bool) -> list[Figure]:
    """Return the ratio of times at weekly and at daily looks, and the peak memory; smoke checks the alarms first."""
    series, loop_series, pairs = (40, 4, 1) if smoke else (10_000, 100, 5)
    if smoke:
        require_same_alarms()
    rows = in_child("time", series, loop_series, pairs)
    size = f"{series} series x {DAYS} days x {ITEMS} items, the loop on {loop_series} of them; {pairs} pairs"
    against = "a numpy loop over series and windows, same bits, same alarms"
    found = [
        at_least(f"Simulation, {look} looks", against, size=size, ratio=rows[look], goal=goal)
        for look, goal in GOALS.items()
    ]
    memory = in_child("memory", series) / MEMORY_LIMIT_MIB
    limit = f"a limit of {MEMORY_LIMIT_MIB} MiB"
    return [*found, at_most("Simulation, daily looks, peak memory", limit, size=size, ratio=memory, goal=1.0)]


def require_same_alarms() -> None:
    """Check on small sizes that both alarm on the same days, with and without a change."""
    for look in LOOKS.values():
        plan = plan_of(look, 40)
        same_alarms(plan, series=40, days=60, drop=0.0)
        compared, alarmed = same_alarms(plan, series=40, days=60, drop=0.15)
        assert 0 < alarmed <= compared


def main() -> None:
    """Measure in this process and print: `time SERIES LOOP_SERIES PAIRS` or `memory SERIES`."""
    what, *sizes = sys.argv[1:]
    print(json.dumps({"time": measure, "memory": peak_memory_mib}[what](*map(int, sizes))))


if __name__ == "__main__":
    main()
