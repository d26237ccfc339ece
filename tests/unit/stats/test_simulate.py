from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
from scipy import stats

from canaryd.stats.cells import Cell, Cells
from canaryd.stats.evaluable import PanelShape, Period
from canaryd.stats.params import EstimateParams, MdeParams, RuleParams
from canaryd.stats.rule import Reference, WindowData, decide_windows
from canaryd.stats.simulate import DayShock, Scenario, SimulationPlan, operating_characteristics
from canaryd.stats.simulate.attribute import CALLS
from canaryd.stats.simulate.draw import bernoulli, drawn_days, shifted_rates, shock_path
from canaryd.stats.simulate.looks import watch_rule
from canaryd.stats.simulate.monitor import first_alarms, ranks_of_scores, uniform_ranks
from canaryd.stats.watch_params import EarlyWarningParams

RULE = RuleParams(
    mode="canaryd",
    baseline_days=6,
    window_days=4,
    estimate=EstimateParams(confidence=0.9, min_df=4, min_changed_items=5),
    min_effect=0.03,
    max_error_rate=0.05,
    min_usable_day_share=0.7,
    min_day_item_share=0.8,
    min_item_share=0.8,
    did_confidence=0.95,
    z=1.4,
    mde=MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24),
)
EARLY = EarlyWarningParams(
    alpha=0.2,
    streams=("score", "difference"),
    direction="either",
    thetas=(3.0, 10.0),
    baseline_days=6,
    freeze_days=60,
    max_segment_days=365,
    min_coverage=0.8,
    rank_decimals=9,
    prior_single_weight=0.5,
    prior_block_days=10,
    change_set_ratio=20.0,
)
RATES = tuple(np.linspace(0.1, 0.95, 14).tolist())
PLAN = SimulationPlan(
    pass_rates=RATES, rule=RULE, early_warning=EARLY, series=60, monitor_series=40, horizons=(20, 38), chunk_series=25
)
FIRST = date(2027, 1, 1)


def _period(passes, first_day, plan):
    """The stored period of one arm; `passes` has shape (days, items)."""
    samples = plan.samples_per_day
    cells = Cells(
        Cell(
            f"{item:02}",
            FIRST + timedelta(first_day + int(day)),
            samples,
            float(passes[day, item]),
            float(passes[day, item]),
        )
        for day, item in np.ndindex(passes.shape)
    )
    return Period(scores=cells, attempts=passes.size * samples, fingerprints=frozenset({"harness"}))


def _declared_by_the_rule(drawn, plan, scenario):
    """First declared change and its attribution, of one series, by the functions that decide stored windows."""
    rule, labels = plan.rule, plan.labels
    shape = PanelShape(len(labels), {f"{item:02}": label for item, label in enumerate(labels)})

    def window(index, first, last):
        arms = [_period(arm[first:last], first, plan) for arm in drawn]
        return WindowData(index, arms[0], {"control": arms[1]} if plan.control else {})

    ends = range(rule.baseline_days + rule.window_days, scenario.days + 1, rule.window_days)
    windows = [window(index, end - rule.window_days, end) for index, end in enumerate(ends, start=1)]
    reference = Reference(window(0, 0, rule.baseline_days), shape, rule)
    side = {1: "down", 0: None, -1: "up"}[int(np.sign(scenario.drop))]
    for end, decision in zip(ends, decide_windows(windows, against=reference), strict=True):
        right_side = side is None or decision.direction == side
        if decision.verdict == "change" and right_side and end > scenario.change_day:
            return end, CALLS.index(decision.attribution) if plan.control else -1
    return 0, -1


CLUSTERS = tuple("aaabbcdefghijk")


@pytest.mark.parametrize(
    ("plan", "scenario"),
    [
        (PLAN, Scenario(30, DayShock())),
        (PLAN, Scenario(30, DayShock(sd=0.06, rho=0.5))),
        (PLAN, Scenario(30, DayShock(), drop=0.2, change_day=8)),
        (PLAN, Scenario(30, DayShock(), drop=-0.2, change_day=6)),
        (replace(PLAN, samples_per_day=3), Scenario(26, DayShock(sd=0.03), drop=0.1, change_day=6)),
        (replace(PLAN, clusters=CLUSTERS), Scenario(30, DayShock(), drop=0.15, change_day=6)),
        (replace(PLAN, rule=replace(RULE, mode="prereg")), Scenario(30, DayShock())),
        (replace(PLAN, rule=replace(RULE, mode="prereg"), clusters=CLUSTERS), Scenario(30, DayShock(), 0.1, 6)),
        (replace(PLAN, pass_rates=(0.9995,) * 14), Scenario(30, DayShock(), 0.99, 6)),
        (replace(PLAN, pass_rates=(0.9995,) * 14), Scenario(30, DayShock(), 0.12, 6)),
        (replace(PLAN, pass_rates=(1.0,) * 9 + (0.97,) * 3 + (0.0, 0.2)), Scenario(30, DayShock(), 0.15, 6)),
        (replace(PLAN, control=True), Scenario(30, DayShock(), 0.25, 6, "model")),
        (replace(PLAN, control=True), Scenario(30, DayShock(), 0.25, 6, "platform")),
        (replace(PLAN, control=True, clusters=CLUSTERS), Scenario(30, DayShock(sd=0.1, rho=0.6))),
        (replace(PLAN, control=True, rule=replace(RULE, mode="prereg")), Scenario(30, DayShock(), 0.25, 6, "platform")),
    ],
)
def test_declares_and_attributes_exactly_what_the_rule_does_on_the_same_bits(plan, scenario):
    series = 30
    days = list(drawn_days(scenario, plan, series=series, rng=np.random.default_rng(11)))
    outcome = watch_rule(days, plan, scenario=scenario, series=series)
    arms = [np.stack(arm) for arm in zip(*days, strict=True)]
    expected = [_declared_by_the_rule([arm[:, :, one] for arm in arms], plan, scenario) for one in range(series)]
    assert list(zip(outcome.changed_on.tolist(), outcome.call.tolist(), strict=True)) == expected
    assert sum(end > 0 for end, _ in expected) > 0
    assert (outcome.tracked_totals == arms[0].sum(axis=1)).all()


def _declared_by_a_loop(bits, rule, look):
    """First declared change at every `look` days of one series, (days, items): plain numpy, window by window."""
    baseline = bits[: rule.baseline_days]
    days, items = bits.shape
    hits = {}
    for end in range(rule.baseline_days + rule.window_days, days + 1, look):
        window = bits[end - rule.window_days : end]
        change = window.mean(axis=0) - baseline.mean(axis=0)
        item = stats.t.ppf(0.95, items - 1) * change.std(ddof=1) / np.sqrt(items)
        parts = [period.mean(axis=1).var(ddof=1) / len(period) for period in (baseline, window)]
        spread = sum(part**2 / (len(period) - 1) for part, period in zip(parts, (baseline, window), strict=True))
        day = stats.t.ppf(0.95, sum(parts) ** 2 / spread) * np.sqrt(sum(parts))
        delta = change.mean()
        hits[end] = np.sign(delta) if abs(delta) > max(item, day) and round(abs(delta), 12) >= 0.03 else 0
        if hits[end] and hits.get(end - rule.window_days) == hits[end]:
            return end
    return 0


@pytest.mark.parametrize("look", [1, 2])
def test_peeking_between_the_registered_looks_compares_windows_that_do_not_overlap(look):
    plan = replace(PLAN, look_days=look)
    scenario = Scenario(36, DayShock())
    days = list(drawn_days(scenario, plan, series=200, rng=np.random.default_rng(12)))
    outcome = watch_rule(days, plan, scenario=scenario, series=200)
    bits = np.stack([day[0] for day in days])
    expected = [_declared_by_a_loop(bits[:, :, one], RULE, look) for one in range(200)]
    assert outcome.changed_on.tolist() == expected
    assert 5 < np.count_nonzero(expected) < 195


@pytest.mark.parametrize("wide", [False, True])
def test_bits_have_their_rates_and_depend_on_nothing_else(wide):
    rates = np.array([0.0, 2.0**-17, 0.3, 0.5, 1 - 2.0**-17, 1.0])[:, None]
    series = 200_000
    given = np.broadcast_to(rates, (6, series)) if wide else rates
    bits = bernoulli(np.random.default_rng(13), given, series=series)
    shares = bits.mean(axis=1)
    assert (shares[0], shares[5]) == (0.0, 1.0)
    assert abs(shares[2] - 0.3) < 4 * np.sqrt(0.21 / series)
    assert abs(shares[3] - 0.5) < 4 * np.sqrt(0.25 / series)
    assert abs(np.corrcoef(bits[2], bits[3])[0, 1]) < 4 / np.sqrt(series)


@pytest.mark.parametrize("columns", [1, 65_536])
def test_rates_far_below_the_first_digits_are_exact_on_average(columns):
    tiny = np.full((64, columns), 2.0**-18)
    rng = np.random.default_rng(14)
    passes = sum(int(bernoulli(rng, tiny, series=65_536).sum()) for _ in range(25))
    expected = 64 * 65_536 * 25 * 2.0**-18
    assert abs(passes - expected) < 4 * np.sqrt(expected)


def test_a_shift_moves_every_item_by_the_same_logit():
    rates = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    for drop in (0.15, -0.1):
        shifted = shifted_rates(rates, drop)
        assert rates.mean() - shifted.mean() == pytest.approx(drop, abs=1e-9)
        inner = slice(1, 4)
        logits = [np.log(side[inner] / (1 - side[inner])) for side in (rates, shifted)]
        assert np.ptp(logits[1] - logits[0]) == pytest.approx(0.0, abs=1e-9)
        assert (shifted[0], shifted[4]) == (0.0, 1.0)
    with pytest.raises(ValueError, match="no logit shift reaches"):
        shifted_rates(rates, 0.4)


def test_shocks_are_stationary_with_their_autocorrelation():
    path = np.stack(list(shock_path(np.random.default_rng(15), DayShock(0.04, 0.5), days=40, series=4_000)))
    assert path[0].std() == pytest.approx(0.04, rel=0.05)
    assert path[-1].std() == pytest.approx(0.04, rel=0.05)
    assert np.corrcoef(path[20], path[21])[0, 1] == pytest.approx(0.5, abs=0.05)
    assert list(shock_path(np.random.default_rng(15), DayShock(), days=3, series=5)) == [None] * 3


def test_ranks_of_simulated_days_are_uniform_and_follow_the_scores():
    rng = np.random.default_rng(16)
    ranks = ranks_of_scores(rng.integers(0, 4, (5, 40_000)), rng)
    for day in range(5):
        counts = np.bincount(ranks[day], minlength=day + 1)
        assert len(counts) == day + 1
        assert stats.chisquare(counts).pvalue > 1e-4 if day else counts[0] == 40_000
    assert ranks_of_scores(np.array([[3], [1], [9], [2]]), rng)[:, 0].tolist() == [0, 0, 2, 1]
    uniform = uniform_ranks(rng, days=4, series=9_000)
    assert uniform.max(axis=1).tolist() == [0, 1, 2, 3]


def test_a_false_alarm_of_the_early_warning_is_its_first():
    falling = np.arange(30)[::-1, None] * np.ones((1, 3), dtype=np.int64)
    alarms = first_alarms(ranks_of_scores(falling.astype(np.int64), np.random.default_rng(17)), EARLY)
    assert len(set(alarms.tolist())) == 1
    assert 6 < alarms[0] < 20
    assert np.isinf(first_alarms(np.zeros((6, 2), dtype=np.int64), EARLY)).all()


def test_the_answer_holds_rule_and_early_warning_next_to_each_other():
    plan = replace(PLAN, control=True, shocks=(DayShock(), DayShock(0.05, 0.5)), drops=(0.3,), detection_days=(8, 16))
    seen = []
    answer = operating_characteristics(
        plan, np.random.default_rng(18), progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (240, 240)
    assert [done for done, _ in seen[:4]] == [25, 50, 60, 85]
    assert [row.shock for row in answer.false_alarms] == list(plan.shocks)
    for row in answer.false_alarms:
        assert row.rule[20].share <= row.rule[38].share
        assert row.rule[38].series == 60
        assert {stream: shares[38].series for stream, shares in row.early_warning.items()} == {
            "score": 40,
            "difference": 40,
        }
    model, platform = answer.detections
    assert (model.truth, platform.truth, model.change_day) == ("model", "platform", 6)
    assert model.rule.within[8].share > 0.8
    assert model.rule.median == 8.0
    assert model.early_warning["score"].within[16].share > 0.8
    assert 2 <= model.early_warning["score"].median <= 8
    assert platform.early_warning["difference"].within[16].share < 0.3
    assert platform.early_warning["difference"].median is None
    assert model.calls["model"].share > platform.calls["model"].share + 0.5
    detected = model.rule.within[16].share
    assert sum(share.share for share in model.calls.values()) == pytest.approx(detected)
    stored = answer.to_json()
    assert stored["generator"] == "PCG64"
    assert stored["detections"][0]["rule"]["within"]["8"]["series"] == 60


def test_the_same_seed_gives_the_same_answer_and_another_does_not():
    plan = replace(PLAN, drops=(0.1,), detection_days=(16,))
    answers = [operating_characteristics(plan, np.random.default_rng(seed)).to_json() for seed in (19, 19, 20)]
    assert answers[0] == answers[1] != answers[2]


def test_chunks_hold_every_series_once_and_shrink_with_the_panel():
    assert PLAN.chunks == (25, 25, 10)
    assert replace(PLAN, series=50).chunks == (25, 25)
    large = replace(PLAN, pass_rates=(0.5,) * 8_000, chunk_series=10_000, series=250)
    assert large.chunks == (100, 100, 50)


def test_without_an_early_warning_and_without_a_control_both_are_absent():
    plan = replace(PLAN, early_warning=None, drops=(0.3,), detection_days=(8,))
    answer = operating_characteristics(plan, np.random.default_rng(21))
    assert answer.false_alarms[0].early_warning == {}
    assert answer.detections[0].calls == {}
    assert operating_characteristics(replace(PLAN, monitor_series=0), np.random.default_rng(1)).detections == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pass_rates": (0.5,)}, "pass_rates"),
        ({"pass_rates": (0.5, 1.5)}, "pass_rates"),
        ({"clusters": ("a",)}, "clusters"),
        ({"samples_per_day": 0}, "samples_per_day"),
        ({"look_days": 3}, "look_days divides"),
        ({"look_days": 0}, "look_days divides"),
        ({"series": 0}, "series and chunk_series"),
        ({"monitor_series": 61}, "monitor_series"),
        ({"horizons": (0,)}, "horizons"),
        ({"change_days": (-1,)}, "change_days"),
        ({"shocks": (DayShock(0.01, 1.0),)}, "shocks"),
        ({"rule": replace(RULE, window_days=1)}, "at least two days"),
    ],
)
def test_a_plan_that_cannot_be_simulated_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **change)


@pytest.mark.parametrize("clusters", [("a",) * 14, tuple("aaaaaaaabbbbcc")])
def test_a_panel_on_which_the_rule_never_decides_is_refused(clusters):
    with pytest.raises(ValueError, match="cluster"):
        operating_characteristics(replace(PLAN, clusters=clusters), np.random.default_rng(1))
