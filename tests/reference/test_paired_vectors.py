"""The paired delta with its statuses, floor and intervals, against exact fractions."""

import json
import os
from datetime import date
from pathlib import Path

import pytest

from canaryd.stats.cells import Cells
from canaryd.stats.cluster import cluster_labels
from canaryd.stats.estimate import Estimate, floor_se, t_critical
from canaryd.stats.paired import pair_items, paired_delta
from canaryd.stats.params import EstimateParams, MdeParams, RuleParams
from canaryd.stats.rule import hit_clauses

SHARED = Path(os.environ.get("CANARYD_SHARED", Path(__file__).parents[3] / "shared"))
VECTORS = SHARED / "vectors" / "paired_delta.json"
DATA = json.loads(VECTORS.read_text()) if VECTORS.exists() else {"cases": []}
pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"reference vectors are not at {VECTORS}")

PARAMS = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)
PUBLISHED = RuleParams(
    mode="prereg",
    baseline_days=10,
    window_days=10,
    estimate=PARAMS,
    min_effect=0.03,
    max_error_rate=0.05,
    min_usable_day_share=0.7,
    min_day_item_share=0.8,
    min_item_share=0.8,
    did_confidence=0.95,
    z=2.576,
    mde=MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.11),
)


def _cells(rows, day):
    return Cells.from_samples((item, day, float(score)) for item, score in rows if score is not None)


def close(value):
    return None if value is None else pytest.approx(value, rel=DATA["tolerance"], abs=DATA["tolerance"])


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["id"])
def test_paired_delta(case):
    expected, clusters = case["expected"], case["clusters"]
    baseline = _cells(case["baseline"], date(2027, 1, 1))
    window = _cells(case["window"], date(2027, 2, 1))
    estimate = paired_delta(baseline, window, clusters=clusters, params=PARAMS)

    assert estimate.items_paired == expected["items_paired"]
    assert (len(baseline.items), len(window.items)) == (expected["items_baseline"], expected["items_window"])
    assert list(estimate.dropped) == expected["dropped"]
    assert estimate.delta == close(expected["delta"])
    if expected["se_floor"] is not None:
        paired = pair_items(baseline, window)
        floor = floor_se(paired.floor_variances, cluster_labels(paired.items, clusters))
        assert floor == close(expected["se_floor"])
    if expected["df"] is None:
        assert not isinstance(estimate, Estimate)
        assert estimate.reason == expected["status"]
        assert estimate.to_json()["decidable"] is expected["decidable"] is False
        return
    assert isinstance(estimate, Estimate)
    assert estimate.status == expected["status"]
    assert estimate.decidable is expected["decidable"]
    assert estimate.clusters == expected["clusters"]
    assert estimate.items_changed == expected["items_changed"]
    for name in ("se_cr1", "se_cr2", "se_used", "df"):
        assert getattr(estimate, name) == close(expected[name]), name
    assert t_critical(0.99, estimate.df) == close(expected["t_crit_99"])
    low, high = estimate.ci_item
    assert (low, high) == close(tuple(expected["ci99"]))
    assert (estimate.decidable and not low <= 0 <= high) is expected["excludes_0"]

    published = hit_clauses(estimate, params=PUBLISHED)[0]
    half_width = published.limit
    assert (estimate.delta - half_width, estimate.delta + half_width) == close(tuple(expected["prereg_ci99"]))
    assert published.passed is expected["prereg_excludes_0"]
