"""The stated operating characteristics, by seeded simulation on the 78-item panel of the method's evidence.

Each cell is 20,000 series over 20 panels, and prints its figure with the Monte Carlo standard error.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest

from canaryd.stats.estimate import t_critical
from canaryd.stats.params import EstimateParams, MdeParams, RuleParams
from canaryd.stats.simulate import DayShock, Scenario, SimulationPlan, operating_characteristics
from canaryd.stats.simulate.draw import drawn_days
from canaryd.stats.simulate.legs import ClusterLayout, Passes, day_leg_half_width, item_leg
from canaryd.stats.watch_params import EarlyWarningParams

pytestmark = pytest.mark.soak

PANELS = 20
SERIES = 1_000
FAMILIES = ((0.72, 12), (0.54, 59), (0.72, 4), (0.87, 3))
CONCENTRATION = 4.2
RULE = RuleParams(
    mode="canaryd",
    baseline_days=10,
    window_days=10,
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
EARLY = EarlyWarningParams(
    alpha=0.01,
    streams=("score",),
    direction="either",
    thetas=(3.0, 10.0),
    baseline_days=20,
    freeze_days=60,
    max_segment_days=365,
    min_coverage=0.8,
    rank_decimals=9,
    prior_single_weight=0.5,
    prior_block_days=10,
    change_set_ratio=20.0,
)


def _plans(seed, *, series=SERIES, **fields):
    """One plan per panel, each with its own pass rates, and the generator that all of them draw from."""
    rng = np.random.default_rng(seed)
    plans = []
    for _ in range(PANELS):
        rates = [rng.beta(mean * CONCENTRATION, (1 - mean) * CONCENTRATION, items) for mean, items in FAMILIES]
        given = {"rule": RULE, "early_warning": None, "series": series, "monitor_series": 0, **fields}
        plans.append(SimulationPlan(pass_rates=tuple(np.concatenate(rates).tolist()), **given))
    return plans, rng


def _say(capsys, what, share, series):
    error = np.sqrt(share * (1 - share) / series)
    with capsys.disabled():
        sys.stdout.write(f"\n{what}: {100 * share:.2f} % +- {100 * error:.2f} ({series} series)")


@pytest.mark.parametrize("points", [0, 2, 4])
def test_coverage_of_the_99_percent_interval(points, capsys):
    plans, rng = _plans(100 + points)
    covered = 0
    for plan in plans:
        days = list(drawn_days(Scenario(20, DayShock(points / 100)), plan, series=SERIES, rng=rng))
        passes = np.stack([day[0] for day in days]).astype(np.float64)
        pair = Passes(passes[:10].sum(axis=0), passes[10:].sum(axis=0), (10, 10))
        layout = ClusterLayout.of(plan.labels)
        leg = item_leg(pair.changes, pair.floor_variances, layout=layout, params=RULE.estimate)
        means = passes.mean(axis=1)
        variances = means[:10].var(axis=0, ddof=1), means[10:].var(axis=0, ddof=1)
        day = day_leg_half_width(variances, leg.floor, params=RULE)
        half_width = np.maximum(t_critical(0.99, layout.df) * leg.se_used, day)
        covered += np.count_nonzero(np.abs(leg.delta) <= half_width)
    share = covered / (PANELS * SERIES)
    _say(capsys, f"coverage at day shocks of {points} points", share, PANELS * SERIES)
    assert 0.988 <= share <= 0.997


@pytest.mark.parametrize(("points", "at_most"), [(0, 0.009), (2, 0.013), (4, 0.018)])
def test_false_alarms_of_the_rule_within_a_year(points, at_most, capsys):
    plans, rng = _plans(200 + points, shocks=(DayShock(points / 100),), horizons=(365,))
    rows = [operating_characteristics(plan, rng).false_alarms[0] for plan in plans]
    share = float(np.mean([row.rule[365].share for row in rows]))
    _say(capsys, f"false alarms in 365 days at day shocks of {points} points", share, PANELS * SERIES)
    assert share <= at_most


def test_power_of_the_rule_right_after_a_20_day_baseline(capsys):
    rule = replace(RULE, baseline_days=20)
    plans, rng = _plans(300, rule=rule, horizons=(1,), drops=(0.10,), detection_days=(20,))
    rows = [operating_characteristics(plan, rng).detections[0] for plan in plans]
    share = float(np.mean([row.rule.within[20].share for row in rows]))
    _say(capsys, "a 10-point drop is declared within 20 days", share, PANELS * SERIES)
    assert share >= 0.94


def test_false_alarms_of_the_early_warning_within_a_year(capsys):
    plans, rng = _plans(400, series=100, monitor_series=100, early_warning=EARLY, horizons=(365,))
    rows = [operating_characteristics(plan, rng).false_alarms[0] for plan in plans]
    share = float(np.mean([row.early_warning["score"][365].share for row in rows]))
    _say(capsys, "early warning, false alarms in 365 days", share, PANELS * 100)
    assert share <= 0.01


def test_median_delay_of_the_early_warning(capsys):
    within = tuple(range(1, 31))
    rule = replace(RULE, baseline_days=20)
    plans, rng = _plans(
        500,
        series=100,
        monitor_series=100,
        early_warning=EARLY,
        rule=rule,
        horizons=(1,),
        drops=(0.10,),
        detection_days=within,
    )
    rows = [operating_characteristics(plan, rng).detections[0] for plan in plans]
    shares = {days: float(np.mean([row.early_warning["score"].within[days].share for row in rows])) for days in within}
    median = next(days for days, share in shares.items() if share >= 0.5)
    _say(capsys, f"early warning, 10-point drop: median delay {median} days; within it", shares[median], PANELS * 100)
    assert median <= 9
