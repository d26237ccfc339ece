"""The day leg against exact fractions, Welch's test and HC2."""

import json
import os
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from canaryd.stats.cells import Cells
from canaryd.stats.estimate import t_critical
from canaryd.stats.paired import paired_delta
from canaryd.stats.params import EstimateParams

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "day_leg.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")
PARAMS = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)


def close(value):
    return None if value is None else pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


def _cells(days, first):
    return Cells.from_samples(
        (item, first + timedelta(days=number), float(score))
        for number, day in enumerate(days)
        for item, scores in day.items()
        for score in scores
        if score is not None
    )


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_day_leg(case):
    expected = case["expected"]
    baseline = _cells(case["baseline_days"], date(2027, 1, 1))
    window = _cells(case["window_days"], date(2027, 2, 1))
    estimate = paired_delta(baseline, window, clusters={}, params=PARAMS)
    assert (len(baseline.days), len(window.days)) == (expected["days_baseline"], expected["days_window"])
    assert estimate.delta == close(expected["delta"])
    if expected["se_day"] is None:
        assert estimate.day is None
        assert estimate.ci is None
        return
    assert (estimate.day.days_baseline, estimate.day.days_window) == (len(baseline.days), len(window.days))
    assert estimate.day.se == close(expected["se_day"])
    assert estimate.day.se**2 == close(float(Fraction(expected["var_day_exact"])))
    assert estimate.day.df == close(expected["df_day"])
    assert t_critical(0.99, estimate.day.df) == close(expected["t_crit_99"])
