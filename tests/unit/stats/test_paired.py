"""Properties of the paired delta that hold on every panel, and the cases where a naive estimate lies."""

import json
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canaryd.stats.cells import Cells
from canaryd.stats.estimate import Estimate, TooFew
from canaryd.stats.paired import paired_delta
from canaryd.stats.params import EstimateParams

PARAMS = EstimateParams(confidence=0.99, min_df=4, min_changed_items=5)
BEFORE, AFTER = date(2027, 1, 1), date(2027, 2, 1)
#: The same examples everywhere, however busy the machine.
UNHURRIED = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def panels(draw):
    """Two periods of samples (scores in eighths, half the scale) and a clustering with at least two clusters."""
    items = [f"i{n}" for n in range(draw(st.integers(2, 9)))]
    eighths = st.integers(0, 4).map(lambda n: n / 8)
    periods = [
        [
            (item, start + timedelta(days=day), score)
            for item in items
            for day, score in draw(st.lists(st.tuples(st.integers(0, 4), eighths), min_size=1, max_size=4))
        ]
        for start in (BEFORE, AFTER)
    ]
    templates = draw(st.lists(st.integers(0, 3), min_size=len(items), max_size=len(items)))
    clusters = {item: f"t{template}" for item, template in zip(items, templates, strict=True)}
    clusters[items[0]] = "another"
    return periods[0], periods[1], clusters


def _change(before, after, clusters):
    return paired_delta(Cells.from_samples(before), Cells.from_samples(after), clusters=clusters, params=PARAMS)


def _mapped(samples, function):
    return [(item, day, function(item, score)) for item, day, score in samples]


def _figures(estimate):
    day = (estimate.day.se, estimate.day.days_baseline) if estimate.day and not estimate.day.floored else None
    return estimate.delta, estimate.se_cr1, estimate.se_cr2, estimate.df, day


def _close(left, right, factor=1.0):
    for mine, theirs in zip(_figures(left)[:3], _figures(right)[:3], strict=True):
        assert mine == pytest.approx(factor * theirs, abs=1e-12)
    assert left.df == pytest.approx(right.df)
    if left.day and not left.day.floored and right.day and not right.day.floored:
        assert left.day.se == pytest.approx(factor * right.day.se, abs=1e-12)
        assert left.day.df == pytest.approx(right.day.df, rel=1e-6)


@UNHURRIED
@given(panels(), st.integers(0, 4))
def test_adding_a_constant_to_an_item_on_both_sides_changes_nothing(panel, eighths):
    before, after, clusters = panel
    shifted = [_mapped(side, lambda item, score: score + eighths / 8 * (int(item[1:]) % 2)) for side in (before, after)]
    _close(_change(*shifted, clusters), _change(before, after, clusters))


@UNHURRIED
@given(panels())
def test_doubling_every_score_doubles_delta_and_standard_errors(panel):
    before, after, clusters = panel
    doubled = [_mapped(side, lambda _, score: 2 * score) for side in (before, after)]
    _close(_change(*doubled, clusters), _change(before, after, clusters), factor=2.0)


@UNHURRIED
@given(panels(), st.randoms(use_true_random=False))
def test_names_of_items_and_clusters_do_not_matter(panel, random):
    before, after, clusters = panel
    names = sorted(clusters)
    renamed = dict(zip(names, random.sample([f"other-{n}" for n in range(99)], len(names)), strict=True))
    sides = [[(renamed[item], day, score) for item, day, score in side] for side in (before, after)]
    _close(
        _change(*sides, {renamed[item]: f"x{cluster}" for item, cluster in clusters.items()}),
        _change(before, after, clusters),
    )


@UNHURRIED
@given(panels())
def test_swapping_the_periods_negates_delta_and_keeps_the_rest(panel):
    before, after, clusters = panel
    there, back = _change(before, after, clusters), _change(after, before, clusters)
    _close(replace(back, delta=-back.delta), there)
    assert (back.status, back.decidable, back.items_changed) == (there.status, there.decidable, there.items_changed)
    assert back.se_used == pytest.approx(there.se_used, abs=1e-12)


@UNHURRIED
@given(panels(), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_change_a_bit(panel, random):
    before, after, clusters = panel
    assert _change(random.sample(before, len(before)), random.sample(after, len(after)), clusters) == _change(
        before, after, clusters
    )


@UNHURRIED
@given(panels())
def test_every_estimate_is_finite_json(panel):
    before, after, clusters = panel
    stored = json.loads(json.dumps(_change(before, after, clusters).to_json(), allow_nan=False))
    assert stored["delta"] == pytest.approx(_change(before, after, clusters).delta, rel=1e-11, abs=1e-15)


def _days(start, items, scores_by_day):
    return [
        (item, start + timedelta(days=number), score(place))
        for number, score in enumerate(scores_by_day)
        for place, item in enumerate(items)
    ]


def test_many_items_of_one_template_give_no_estimate():
    items = [f"i{n:02d}" for n in range(78)]
    before = _days(BEFORE, items, [lambda place: float(place % 2)] * 10)
    after = [(item, day + timedelta(days=31), score) for item, day, score in before]
    after[0] = (*after[0][:2], 1.0 - after[0][2])
    change = _change(before, after, dict.fromkeys(items, "one-template"))
    assert isinstance(change, TooFew)
    assert change.reason == "single_cluster"
    assert "se_used" not in change.to_json()


def test_equal_deltas_say_that_their_variance_is_unknown():
    items = [f"i{n}" for n in range(10)]
    before = _days(BEFORE, items, [lambda _, day=day: float(day < 5) for day in range(10)])
    after = _days(AFTER, items, [lambda _, day=day: float(day < 4) for day in range(10)])
    change = _change(before, after, {})
    assert isinstance(change, Estimate)
    assert change.delta == pytest.approx(-0.1)
    assert change.se_cr2 < 1e-12
    assert change.status == "zero_variance"
    assert change.se_used == change.se_floor > 0.05
    low, high = change.ci_item
    assert low < 0 < high


def test_a_collapse_of_every_item_excludes_zero_although_nothing_varies():
    items = [f"i{n}" for n in range(12)]
    change = _change(_days(BEFORE, items, [lambda _: 1.0] * 10), _days(AFTER, items, [lambda _: 0.0] * 10), {})
    assert (change.status, change.delta) == ("zero_variance", -1.0)
    assert change.day.floored
    assert (change.day.se, change.day.df) == (change.se_floor, 9)
    assert change.ci[1] < 0


def test_one_bad_day_for_all_items_widens_the_interval():
    items = [f"i{n:02d}" for n in range(40)]

    def quiet(day):
        return lambda place: 0.6 + 0.1 * ((place + day) % 3 - 1)

    before = _days(BEFORE, items, [quiet(day) for day in range(10)])
    steady = _days(AFTER, items, [quiet(day + 1) for day in range(10)])
    shocked = [(item, day, score - 0.15 if day == AFTER + timedelta(days=4) else score) for item, day, score in steady]
    calm, hit = _change(before, steady, {}), _change(before, shocked, {})
    width = {name: estimate.ci[1] - estimate.ci[0] for name, estimate in (("calm", calm), ("hit", hit))}
    item_width = hit.ci_item[1] - hit.ci_item[0]
    assert hit.se_cr1 == pytest.approx(calm.se_cr1)
    assert hit.se > 2 * hit.se_used
    assert hit.to_json()["se"] == pytest.approx(hit.se)
    assert width["hit"] > 5 * width["calm"]
    assert width["hit"] > 2 * item_width


def test_answers_without_a_score_are_left_out_on_their_side_and_not_scored_zero():
    items = [f"i{n}" for n in range(10)]
    everything = _days(BEFORE, items, [lambda place: float(place % 2)] * 10)
    truncated = [sample for number, sample in enumerate(everything) if number % 10 != 3]
    after = _days(AFTER, items, [lambda place: float(place % 2)] * 10)
    assert len(truncated) == 0.9 * len(everything)
    change = _change(truncated, after, {})
    assert change.delta == 0
    assert change.dropped == ("i3",)


def test_an_item_that_lost_all_its_samples_is_named():
    change = _change([("a", BEFORE, 1.0), ("b", BEFORE, 1.0)], [("b", AFTER, 0.0), ("c", AFTER, 1.0)], {})
    assert (change.reason, change.delta, change.dropped) == ("single_item", -1.0, ("a", "c"))
