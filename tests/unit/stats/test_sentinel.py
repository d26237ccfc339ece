from dataclasses import replace
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canaryd.stats.sentinel import (
    SentinelBaseline,
    false_alarms_per_year,
    judge_sentinel,
    sentinel_reach,
)
from canaryd.stats.watch_params import SentinelParams
from canaryd.stats.watch_state import sentinel_series_state

PARAMS = SentinelParams(
    false_alarms_per_year=0.01,
    runs_per_year=365,
    min_replicates=2,
    collapse_min_moved=2,
    collapse_min_share=0.5,
    collapse_slots=2,
)
ALPHA = PARAMS.alpha(1)


def _rising(start, count):
    product = Fraction(1)
    for step in range(count):
        product *= start + step
    return product


def _exact_tail(successes, n, x, m):
    """2 min(P(X <= x), P(X >= x)) of the Jeffreys predictive, in fractions."""
    a, b = Fraction(2 * successes + 1, 2), Fraction(2 * (n - successes) + 1, 2)
    mass = [comb(m, k) * _rising(a, k) * _rising(b, m - k) / _rising(a + b, m) for k in range(m + 1)]
    assert sum(mass) == 1
    return float(2 * min(sum(mass[: x + 1]), sum(mass[x:])))


def _binary(successes, n):
    return SentinelBaseline.of_scores([1.0] * successes + [0.0] * (n - successes))


@given(n=st.integers(2, 90), data=st.data(), m=st.integers(2, 6), alpha=st.sampled_from([0.05, 1e-3, 1e-5]))
def test_binary_scores_move_where_the_exact_predictive_tail_is_below_the_level(n, data, m, alpha):
    successes, x = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    reading = judge_sentinel(_binary(successes, n), [1.0] * x + [0.0] * (m - x), alpha=alpha, params=PARAMS)
    assert reading.state == ("moved" if _exact_tail(successes, n, x, m) < alpha else "ok")
    kept = [k / m for k in range(m + 1) if _exact_tail(successes, n, k, m) >= alpha]
    assert (reading.low, reading.high) == (kept[0], kept[-1])


@pytest.mark.parametrize(("n", "m", "tail"), [(40, 2, 0.00087), (60, 3, 1.6e-5), (80, 4, 2.8e-7)])
def test_smallest_tail_that_a_perfect_item_can_reach(n, m, tail):
    reach = sentinel_reach(SentinelBaseline.perfect(n), m, alpha=ALPHA)
    assert reach.tail == pytest.approx(tail, rel=0.03)
    assert reach.tail == pytest.approx(_exact_tail(n, n, 0, m), rel=1e-9)
    assert reach.can_move == (tail < ALPHA)


def test_a_sentinel_that_cannot_move_is_told_what_it_would_need():
    reach = sentinel_reach(SentinelBaseline.perfect(40), 2, alpha=ALPHA)
    assert not reach.can_move
    for m in (reach.needed_replicates, reach.needed_replicates - 1):
        assert sentinel_reach(SentinelBaseline.perfect(40), m, alpha=ALPHA).can_move == (m == reach.needed_replicates)
    for n in (reach.needed_baseline, reach.needed_baseline - 1):
        assert sentinel_reach(SentinelBaseline.perfect(n), 2, alpha=ALPHA).can_move == (n == reach.needed_baseline)


def test_no_baseline_is_long_enough_for_an_item_that_is_a_coin():
    reach = sentinel_reach(_binary(20, 40), 4, alpha=ALPHA)
    assert not reach.can_move
    assert reach.needed_baseline is None
    assert reach.needed_replicates is not None
    assert sentinel_reach(_binary(20, 40), reach.needed_replicates, alpha=ALPHA).can_move


def test_partial_credit_moves_beyond_the_t_limit():
    baseline = SentinelBaseline.of_scores([0.5, 0.75] * 20)
    half_width = 2.3130 * 0.126592 * (1 / 4 + 1 / 40) ** 0.5
    reading = judge_sentinel(baseline, [0.75] * 4, alpha=0.026058, params=PARAMS)
    assert (reading.low, reading.high) == pytest.approx((0.625 - half_width, 0.625 + half_width), abs=2e-4)
    assert reading.state == "ok"
    assert judge_sentinel(baseline, [0.75, 0.75, 0.75, 1.0], alpha=0.026058, params=PARAMS).state == "moved"
    assert judge_sentinel(baseline, [0.5, 0.5, 0.25, 0.5], alpha=0.026058, params=PARAMS).state == "moved"
    wide = judge_sentinel(baseline, [0.75] * 4, alpha=1e-9, params=PARAMS)
    assert (wide.low, wide.high) == (pytest.approx(0.075, abs=0.05), 1.0)
    assert wide.state == "ok"


def test_reach_of_partial_credit_depends_on_its_noise():
    quiet = SentinelBaseline.of_scores([0.5, 0.6] * 20)
    noisy = SentinelBaseline.of_scores([0.0, 0.5, 1.0, 0.5] * 3)
    assert sentinel_reach(quiet, 4, alpha=ALPHA).can_move
    assert not sentinel_reach(noisy, 2, alpha=ALPHA).can_move
    moved = judge_sentinel(quiet, [0.0] * 4, alpha=ALPHA, params=PARAMS)
    assert moved.state == "moved"
    for scores in ([0.0, 0.0], [1.0, 1.0]):
        assert judge_sentinel(noisy, scores, alpha=ALPHA, params=PARAMS).state == "ok"


@pytest.mark.parametrize(
    ("today", "state"),
    [([0.3, 0.3], "ok"), ([0.2, 0.4], "ok"), ([0.2, 0.3], "ok"), ([0.2, 0.1], "moved"), ([0.4, 1.0], "moved")],
)
def test_a_constant_that_is_not_binary_moves_only_with_every_score_on_one_side(today, state):
    baseline = SentinelBaseline.of_scores([0.3] * 30)
    reading = judge_sentinel(baseline, today, alpha=ALPHA, params=PARAMS)
    assert reading.state == state
    assert reading.low == reading.high == pytest.approx(0.3)
    assert sentinel_reach(baseline, 2, alpha=ALPHA).can_move


def test_without_enough_scores_nothing_is_judged():
    assert judge_sentinel(None, [1.0, 1.0], alpha=ALPHA, params=PARAMS).state == "warming_up"
    assert judge_sentinel(_binary(1, 1), [1.0, 1.0], alpha=ALPHA, params=PARAMS).state == "warming_up"
    assert judge_sentinel(_binary(80, 80), [1.0], alpha=ALPHA, params=PARAMS).state == "unjudged"
    assert judge_sentinel(_binary(80, 80), [], alpha=ALPHA, params=PARAMS).state == "unjudged"


@pytest.mark.parametrize("successes", [0, 3, 40, 75, 80])
def test_false_alarms_that_discreteness_leaves_stay_within_the_budget(successes):
    sentinels = [(_binary(successes, 80), 4), (_binary(80, 80), 4)]
    alpha = PARAMS.alpha(len(sentinels))
    left = false_alarms_per_year(sentinels, alpha=alpha, params=PARAMS)
    assert 0.0 < left <= PARAMS.false_alarms_per_year
    alone = false_alarms_per_year(sentinels[1:], alpha=alpha, params=PARAMS)
    moved = [x for x in range(5) if _exact_tail(80, 80, x, 4) < alpha]
    below = max(moved)
    assert alone == pytest.approx(365 * _exact_tail(80, 80, below, 4) / 2, rel=1e-9)


def test_false_alarms_of_other_scores_are_their_level_and_of_a_constant_its_first_surprise():
    noisy, constant = SentinelBaseline.of_scores([0.5, 0.75] * 20), SentinelBaseline.of_scores([0.3] * 30)
    assert false_alarms_per_year([(noisy, 4)], alpha=ALPHA, params=PARAMS) == pytest.approx(0.01)
    surprise = false_alarms_per_year([(constant, 3)], alpha=ALPHA, params=PARAMS)
    assert surprise == pytest.approx(365 * _exact_tail(30, 30, 0, 3) / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("today", "before", "state"),
    [
        ({}, [], "none"),
        ({"a": "warming_up", "b": "ok"}, [], "warming_up"),
        ({"a": "ok", "b": "ok"}, [], "ok"),
        ({"a": "unjudged", "b": "ok"}, [], "unjudged"),
        ({"a": "moved", "b": "unjudged"}, [], "moved"),
        ({"a": "moved"}, [], "moved"),
        ({"a": "moved", "b": "moved"}, [], "collapsed"),
        ({"a": "moved", "b": "moved", "c": "ok", "d": "ok"}, [], "collapsed"),
        ({"a": "moved", "b": "moved", "c": "ok", "d": "ok", "e": "ok"}, [], "moved"),
        ({"a": "moved", "b": "ok", "c": "ok"}, [{"a": "moved"}], "collapsed"),
        ({"a": "moved", "b": "ok", "c": "ok"}, [{"b": "moved"}], "moved"),
        ({"a": "moved", "b": "ok", "c": "ok"}, [{}, {"a": "moved"}], "moved"),
        ({"a": "ok", "b": "ok"}, [{"a": "moved", "b": "moved"}], "ok"),
    ],
)
def test_state_of_the_series(today, before, state):
    assert sentinel_series_state(today, before=before, params=PARAMS) == state


def test_the_lasting_clause_follows_the_registered_number_of_slots():
    three = replace(PARAMS, collapse_slots=3)
    day = {"a": "moved", "b": "ok", "c": "ok"}
    assert sentinel_series_state(day, before=[day], params=three) == "moved"
    assert sentinel_series_state(day, before=[day, day], params=three) == "collapsed"
