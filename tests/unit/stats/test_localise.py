from datetime import date, timedelta

import numpy as np
import pytest
from scipy import stats

from canaryd.stats.cells import Cells
from canaryd.stats.localise import group_deltas, item_changes, shared_targets
from canaryd.stats.paired import paired_delta
from canaryd.stats.params import EstimateParams

PARAMS = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)
ITEMS = [f"item-{number:02}" for number in range(30)]
FAMILIES = {item: "arithmetic" if number < 12 else "logic" for number, item in enumerate(ITEMS[:24])} | dict.fromkeys(
    ITEMS[24:], "reading"
)


def _period(month, scores, items=ITEMS):
    """Cells of one sample per item and day; scores has shape (days, items)."""
    return Cells.from_samples(
        (items[column], date(2027, month, 1) + timedelta(int(row)), float(scores[row, column]))
        for row, column in np.ndindex(scores.shape)
    )


def _panel(seed, drops=()):
    rng = np.random.default_rng(seed)
    rate = np.full(30, 0.7)
    rate[list(drops)] = 0.05
    return rng.random((20, 30)) < rate


def _families(baseline, window):
    return group_deltas(baseline, window, groups=FAMILIES, clusters={}, params=PARAMS)


def test_each_family_has_its_own_paired_delta_and_holm_multiplies_its_p():
    baseline, window = _period(1, _panel(1)), _period(3, _panel(2, drops=range(12)))
    found = {delta.group: delta for delta in _families(baseline, window)}
    assert list(found) == ["arithmetic", "logic", "reading"]
    for family, delta in found.items():
        members = [item for item in ITEMS if FAMILIES[item] == family]
        alone = paired_delta(baseline.only(members), window.only(members), clusters={}, params=PARAMS)
        assert delta.estimate == alone
        assert delta.items == len(members)
    p = sorted((delta.p, delta.p_holm) for delta in found.values())
    assert p[0][1] == pytest.approx(3 * p[0][0])
    assert p[1][1] == pytest.approx(max(2 * p[1][0], p[0][1]))
    assert p[2][1] == pytest.approx(min(max(p[2][0], p[1][1]), 1.0))
    assert found["arithmetic"].p_holm < 1e-4 < 0.05 < found["logic"].p_holm


def test_the_p_of_a_family_is_below_the_level_iff_its_interval_excludes_zero():
    outcomes = set()
    for seed in range(10):
        window = _period(3, _panel(seed + 100, drops=[0, 1, 2, 3, 4, 13, 14, 25]))
        for delta in _families(_period(1, _panel(seed)), window):
            low, high = delta.estimate.ci
            excluded = low > 0 or high < 0
            assert (delta.p < 0.01) == excluded
            outcomes.add(excluded)
    assert outcomes == {True, False}


def test_a_family_without_a_decidable_estimate_takes_no_part_in_holm():
    groups = {"item-00": "single"} | dict.fromkeys(ITEMS[1:4], "tiny") | dict.fromkeys(ITEMS[4:], "rest")
    baseline, window = _period(1, _panel(3)), _period(3, _panel(4))
    found = {delta.group: delta for delta in group_deltas(baseline, window, groups=groups, clusters={}, params=PARAMS)}
    assert found["single"].p is None
    assert found["tiny"].p is None
    assert found["tiny"].p_holm is None
    assert found["rest"].p_holm == found["rest"].p
    assert found["single"].to_json()["p"] is None
    assert group_deltas(baseline, window, groups={}, clusters={}, params=PARAMS) == ()


def test_the_items_that_fell_are_listed_and_false_discoveries_are_rare():
    drops = {2, 3, 17, 28}
    changes = item_changes(_period(1, _panel(5)), _period(3, _panel(6, drops=drops)), q=0.05)
    listed = {change.item_id for change in changes if change.listed}
    assert listed == {ITEMS[number] for number in drops}
    assert {change.test for change in changes} == {"fisher"}
    p = np.array([change.p for change in changes])
    assert [change.p_bh for change in changes] == pytest.approx(stats.false_discovery_control(p))


def test_partial_credit_takes_welch_as_scipy_has_it():
    rng = np.random.default_rng(7)
    before, after = rng.integers(0, 5, (20, 2)) / 4, rng.integers(1, 5, (12, 2)) / 4
    after[1:, 1] = 1.0
    changes = item_changes(_period(1, before, ["a", "b"]), _period(3, after, ["a", "b"]), q=0.05)
    for column, change in enumerate(changes):
        assert change.test == "welch"
        expected = stats.ttest_ind(before[:, column], after[:, column], equal_var=False).pvalue
        assert change.p == pytest.approx(expected, rel=1e-9)
        assert (change.n_baseline, change.n_window) == (20, 12)
        assert change.mean_window == pytest.approx(after[:, column].mean())


def test_an_item_without_variance_or_with_one_sample_has_no_welch_p():
    steady = item_changes(_period(1, np.full((9, 1), 0.3)), _period(3, np.full((9, 1), 0.6)), q=0.05)
    assert (steady[0].p, steady[0].p_bh, steady[0].listed) == (None, None, False)
    single = item_changes(_period(1, np.full((1, 1), 0.3)), _period(3, np.full((9, 1), 0.6)), q=0.05)
    assert single[0].p is None
    assert single[0].to_json()["mean_baseline"] == 0.3
    assert item_changes(Cells(), _period(3, np.full((9, 1), 0.6)), q=0.05) == ()


def test_a_model_that_says_no_to_everything_shows_per_target():
    targets = {item: "no" if number % 2 else "yes" for number, item in enumerate(ITEMS)} | {"item-29": 17}
    labels = shared_targets(targets)
    assert "item-29" not in labels
    no = np.array([targets[item] == "no" for item in ITEMS])
    window = _period(3, np.broadcast_to(no, (20, 30)))
    found = {
        delta.group: delta.estimate.delta
        for delta in group_deltas(_period(1, _panel(8)), window, groups=labels, clusters={}, params=PARAMS)
    }
    assert found["yes"] < -0.6
    assert found["no"] > 0.2
