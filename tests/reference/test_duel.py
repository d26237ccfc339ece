"""The weighted gap of a duel against exact fractions, and its bootstrap against the exact standard error."""

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

from canaryd.stats.duel import FamilyOutcomes, bootstrap_gap, weighted_gap

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "duel.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")


def close(value):
    return None if value is None else pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


def families(case):
    return [FamilyOutcomes(each["name"], each["weight"], tuple(each["outcomes"])) for each in case["families"]]


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_the_interval_that_decides(case):
    expected = case["expected"]
    gap = weighted_gap(families(case), confidence=0.95)
    assert gap.status == expected["status"]
    assert gap.gap == close(float(Fraction(expected["gap_exact"])))
    assert (gap.se, gap.df) == (close(expected["se"]), close(expected["df"]))
    if expected["var_exact"] is not None:
        assert gap.se**2 == close(float(Fraction(expected["var_exact"])))
    bounds = expected.get("ci95")
    assert gap.ci == (None if bounds is None else tuple(close(bound) for bound in bounds))


@pytest.mark.parametrize(
    "case", [case for case in DATA["cases"] if case["expected"]["raowu_bootstrap_se"]], ids=lambda case: case["id"]
)
def test_the_bootstrap_beside_it(case):
    expected = case["expected"]
    picture = bootstrap_gap(families(case), confidence=0.95, draws=10_000, seed=1)
    se = expected["raowu_bootstrap_se"]
    assert picture.se == pytest.approx(se["value"], rel=se["rel_tolerance_at_10000_reps"])
    assert (picture.low, picture.high) == tuple(
        pytest.approx(bound, abs=0.03) for bound in expected["raowu_percentile95_B200000"]
    )
