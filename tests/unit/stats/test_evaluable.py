"""Which windows may decide, and the reasons in their fixed order."""

from dataclasses import replace
from pathlib import Path

import pytest

from canaryd import prereg
from canaryd.stats.cells import Cells
from canaryd.stats.estimate import DayLeg, Estimate, TooFew
from canaryd.stats.evaluable import (
    PanelShape,
    Period,
    PeriodEvidence,
    WindowEvidence,
    evaluability,
    period_evidence,
)

PARAMS = prereg.load(Path(__file__).parents[3] / "prereg.example.toml").rule
PUBLISHED = replace(PARAMS, mode="prereg")
PANEL = PanelShape(60)
GOOD = PeriodEvidence(600, 0, frozenset({"a"}), 10, 10)
BASELINE = PeriodEvidence(1200, 0, frozenset({"a"}), 20, 20)
ESTIMATE = Estimate(
    status="ok",
    decidable=True,
    delta=-0.1,
    se_cr1=0.02,
    se_cr2=0.02,
    se_floor=0.02,
    se_used=0.02,
    df=59,
    confidence=0.99,
    items_paired=60,
    items_changed=50,
    clusters=60,
    dropped=(),
    day=DayLeg(0.02, 20, 20, 10, floored=False),
)


def _reasons(*, baseline=BASELINE, period=GOOD, estimate=ESTIMATE, params=PARAMS):
    window = WindowEvidence(1, True, period, estimate)
    return [clause.name for clause in evaluability(baseline, window, panel=PANEL, params=params) if not clause.passed]


def test_a_good_window_passes_every_clause_in_the_fixed_order():
    clauses = evaluability(BASELINE, WindowEvidence(1, True, GOOD, ESTIMATE), panel=PANEL, params=PARAMS)
    assert all(clause.passed for clause in clauses)
    assert [clause.name for clause in clauses] == [
        "baseline_harness",
        "baseline_error_rate",
        "baseline_too_few_days",
        "no_data",
        "error_rate",
        "harness",
        "too_few_days",
        "too_few_items",
        "too_few_clusters",
        "no_day_leg",
    ]


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({"baseline": replace(BASELINE, fingerprints=frozenset("ab"))}, ["baseline_harness"]),
        ({"baseline": replace(BASELINE, errors=60)}, ["baseline_error_rate"]),
        ({"baseline": replace(BASELINE, errors=59)}, []),
        ({"baseline": replace(BASELINE, usable_days=13)}, ["baseline_too_few_days"]),
        ({"baseline": replace(BASELINE, usable_days=14)}, []),
        ({"period": replace(GOOD, errors=30)}, ["error_rate"]),
        ({"period": replace(GOOD, fingerprints=frozenset("ab"))}, ["harness"]),
        ({"period": replace(GOOD, usable_days=6)}, ["too_few_days"]),
        ({"estimate": replace(ESTIMATE, items_paired=47)}, ["too_few_items"]),
        ({"estimate": replace(ESTIMATE, items_paired=48)}, []),
        ({"estimate": replace(ESTIMATE, df=3.99)}, ["too_few_clusters"]),
        ({"estimate": replace(ESTIMATE, df=4 - 1e-14)}, []),
        ({"estimate": replace(ESTIMATE, day=None)}, ["no_day_leg"]),
        ({"estimate": TooFew("single_cluster", -0.1, 60, ())}, ["too_few_clusters"]),
        (
            {"period": PeriodEvidence(0, 0, frozenset(), 0, 10), "estimate": TooFew("no_overlap", None, 0, ())},
            ["no_data", "too_few_days", "too_few_items"],
        ),
        (
            {"period": PeriodEvidence(600, 600, frozenset("b"), 0, 10), "estimate": TooFew("no_overlap", None, 0, ())},
            ["no_data", "error_rate", "harness", "too_few_days", "too_few_items"],
        ),
    ],
)
def test_reasons(change, reasons):
    assert _reasons(**change) == reasons


def test_the_published_rule_checks_less():
    bad = replace(GOOD, usable_days=3)
    assert _reasons(period=bad, estimate=replace(ESTIMATE, df=3.2, items_paired=40, day=None), params=PUBLISHED) == []
    assert _reasons(baseline=replace(BASELINE, errors=600, usable_days=2), params=PUBLISHED) == []
    assert _reasons(period=replace(GOOD, errors=30), params=PUBLISHED) == ["error_rate"]
    assert _reasons(estimate=TooFew("single_item", -0.1, 1, ()), params=PUBLISHED) == ["too_few_clusters"]


def test_clauses_carry_figure_and_limit_as_json():
    window = WindowEvidence(1, True, replace(GOOD, errors=3), ESTIMATE)
    stored = {c.name: c.to_json() for c in evaluability(BASELINE, window, panel=PANEL, params=PARAMS)}
    assert stored["error_rate"] == {"clause": "error_rate", "passed": True, "figure": 0.005, "limit": 0.05}
    assert stored["harness"]["figure"] == stored["harness"]["limit"] == ["a"]


def test_only_harness_failures_are_errors_unless_published():
    period = Period(Cells(), 100, harness_failures=2, outcome_failures=7, fingerprints=frozenset("a"))
    errors = [period_evidence(period, days=10, panel=PANEL, params=params).errors for params in (PARAMS, PUBLISHED)]
    assert errors == [2, 9]


def test_a_panel_without_items_is_refused():
    with pytest.raises(ValueError, match="without an item"):
        PanelShape(0)
