"""The statuses of an estimate on bare values, and how figures are stored."""

import numpy as np
import pytest
from scipy import stats

from canaryd.stats.estimate import Estimate, ItemValues, TooFew, estimate_of, figure, reaches, t_critical
from canaryd.stats.params import EstimateParams

PARAMS = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)


def _estimate(values, clusters=None, *, floor=0.01):
    items = tuple(f"i{n:02d}" for n in range(len(values)))
    variances = None if floor is None else np.full(len(values), floor)
    paired = ItemValues(items, np.array(values, dtype=float), (), variances)
    names = {} if clusters is None else dict(zip(items, clusters, strict=True))
    return estimate_of(paired, clusters=names, params=PARAMS)


@pytest.mark.parametrize(
    ("values", "clusters", "reason"),
    [([], None, "no_overlap"), ([0.1], None, "single_item"), ([0.1, 0.2], ["t", "t"], "single_cluster")],
)
def test_too_few_is_typed_and_says_why(values, clusters, reason):
    estimate = _estimate(values, clusters)
    assert isinstance(estimate, TooFew)
    assert estimate.reason == reason
    assert estimate.to_json()["status"] == reason


@pytest.mark.parametrize(
    ("values", "status", "decidable"),
    [
        ([-0.1] * 6, "zero_variance", True),
        ([-0.1] * 3, "zero_variance", False),
        ([0.5, 0.4, 0.3, 0.2, 0, 0, 0], "sparse", True),
        ([0.5, 0.4, 0.3, 0.2], "sparse", False),
        ([0.5, 0.4, 0.3, 0.2, 0.1], "ok", True),
    ],
)
def test_status_and_whether_it_decides(values, status, decidable):
    estimate = _estimate(values)
    assert isinstance(estimate, Estimate)
    assert (estimate.status, estimate.decidable) == (status, decidable)


def test_too_few_clusters_are_shown_and_do_not_decide():
    estimate = _estimate([0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.1, 0.2], ["a", "a", "b", "b", "c", "c", "d", "d"])
    assert (estimate.status, estimate.decidable, round(estimate.df, 9)) == ("too_few_clusters", False, 3.0)
    assert estimate.se_used == estimate.se_cr2 > 0


def test_five_equal_templates_are_enough_in_spite_of_rounding():
    labels = [f"t{n // 4}" for n in range(20)]
    estimate = _estimate([0.01 * n for n in range(20)], labels)
    assert estimate.df == pytest.approx(4, abs=1e-9)
    assert (estimate.status, estimate.decidable) == ("ok", True)


def test_the_floor_only_ever_widens_and_only_where_needed():
    sparse_wide, sparse_tight = _estimate([0.9, 0, 0, 0, 0, 0]), _estimate([0.9, 0, 0, 0, 0, 0], floor=1.0)
    assert sparse_wide.se_used == sparse_wide.se_cr2 > sparse_wide.se_floor
    assert sparse_tight.se_used == sparse_tight.se_floor > sparse_tight.se_cr2
    assert _estimate([0.5, 0.4, 0.3, 0.2, 0.1], floor=1.0).se_used < 0.1
    assert _estimate([0.1] * 6, floor=None).se_used < 1e-12


def test_critical_values_equal_scipy_stats():
    for df in (1, 1.33, 2.08, 4, 11, 77, 1000):
        for confidence in (0.9, 0.95, 0.99, 0.999):
            assert t_critical(confidence, df) == pytest.approx(stats.t.ppf((1 + confidence) / 2, df), rel=1e-9)


def test_a_limit_is_reached_in_spite_of_binary_dust_and_not_just_below():
    assert reaches(0.03 - 1e-14, 0.03)
    assert not reaches(0.03 - 1e-11, 0.03)


def test_figures_have_twelve_digits_and_nothing_unknown_is_a_number():
    assert figure(None) is None
    assert figure(0.1 + 0.2) == 0.3
    for unknown in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="stored as null"):
            figure(unknown)
