"""CR1 against statsmodels on many random panels, CR2 and its degrees of freedom against dense matrices."""

from datetime import date, timedelta

import numpy as np
import pytest
import statsmodels.api as sm

from canaryd.stats.cells import Cells
from canaryd.stats.cluster import cluster_labels, clustered_mean
from canaryd.stats.estimate import Estimate
from canaryd.stats.paired import paired_delta
from canaryd.stats.params import EstimateParams

PARAMS = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)


def _random_panel(rng):
    """Return two periods of raw samples with missing items, partial credit and unequal numbers of samples."""
    items = [f"item-{n:02d}" for n in range(rng.integers(4, 40))]
    clusters = {item: f"template-{rng.integers(0, len(items))}" for item in items if rng.random() < 0.7}
    scores = [0.0, 0.25, 0.5, 0.75, 1.0] if rng.random() < 0.5 else [0.0, 1.0]
    periods = []
    for month in (1, 2):
        samples = []
        for item in items:
            count = 0 if rng.random() < 0.1 else int(rng.integers(1, 9))
            days = [date(2027, month, 1) + timedelta(days=int(day)) for day in rng.integers(0, 10, count)]
            samples += [(item, day, float(rng.choice(scores))) for day in days]
        periods.append(samples)
    return periods, clusters


def _deltas(before, after):
    """Return the per-item deltas the plain way."""
    means = []
    for samples in (before, after):
        by_item = {}
        for item, _, score in samples:
            by_item.setdefault(item, []).append(score)
        means.append({item: sum(scores) / len(scores) for item, scores in by_item.items()})
    both = sorted(set(means[0]) & set(means[1]))
    return both, np.array([means[1][item] - means[0][item] for item in both])


def test_cr1_equals_statsmodels_on_a_thousand_random_panels():
    rng = np.random.default_rng(20270301)
    compared = 0
    while compared < 1000:
        (before, after), clusters = _random_panel(rng)
        items, deltas = _deltas(before, after)
        labels = cluster_labels(items, clusters)
        if len(set(labels)) < 2:
            continue
        estimate = paired_delta(Cells.from_samples(before), Cells.from_samples(after), clusters=clusters, params=PARAMS)
        assert isinstance(estimate, Estimate)
        groups = np.unique(labels, return_inverse=True)[1]
        fit = sm.OLS(deltas, np.ones(len(deltas))).fit(cov_type="cluster", cov_kwds={"groups": groups})
        assert estimate.delta == pytest.approx(fit.params[0], abs=1e-12)
        assert estimate.se_cr1 == pytest.approx(fit.bse[0], abs=1e-12)
        compared += 1


def _dense_cr2(values, groups):
    """Return SE and df of CR2 from the n x n residual maker, as Bell and McCaffrey define them."""
    n = len(values)
    residual_maker = np.eye(n) - np.ones((n, n)) / n
    residuals = residual_maker @ values
    weights, meat = [], 0.0
    for group in range(groups.max() + 1):
        members = groups == group
        eigenvalues, vectors = np.linalg.eigh(residual_maker[np.ix_(members, members)])
        adjustment = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T
        ones = np.ones(members.sum())
        meat += float(ones @ adjustment @ residuals[members]) ** 2
        weights.append(residual_maker[:, members] @ adjustment @ ones / n)
    gram = np.array(weights) @ np.array(weights).T
    return np.sqrt(meat) / n, np.trace(gram) ** 2 / np.trace(gram @ gram)


def test_cr2_and_its_df_equal_the_dense_matrix_definition():
    rng = np.random.default_rng(7)
    for _ in range(200):
        n = int(rng.integers(3, 30))
        groups = np.unique(rng.integers(0, rng.integers(2, n + 1), n), return_inverse=True)[1]
        if groups.max() == 0:
            continue
        values = rng.normal(size=n)
        mean = clustered_mean(values, groups.tolist())
        se, df = _dense_cr2(values, groups)
        assert mean.se_cr2 == pytest.approx(se, rel=1e-9)
        assert mean.df == pytest.approx(df, rel=1e-9)


def test_balanced_clusters_have_one_degree_of_freedom_less_than_clusters():
    values = np.arange(15.0)
    mean = clustered_mean(values, [n // 3 for n in range(15)])
    assert mean.df == pytest.approx(4, abs=1e-12)
    assert mean.se_cr1 == pytest.approx(mean.se_cr2, rel=1e-12)


def test_one_cluster_has_no_standard_error_and_no_value_no_mean():
    alone = clustered_mean(np.array([0.1, 0.3]), ["t", "t"])
    assert (alone.se_cr1, alone.se_cr2, alone.df) == (None, None, None)
    with pytest.raises(ValueError, match="0 values"):
        clustered_mean(np.array([]), [])
    with pytest.raises(ValueError, match="one label per value"):
        clustered_mean(np.array([1.0]), ["a", "b"])
