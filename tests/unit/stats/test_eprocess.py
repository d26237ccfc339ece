from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canaryd.stats.eprocess import capital_path, onset_prior
from canaryd.stats.watch_params import EarlyWarningParams

PARAMS = EarlyWarningParams(
    alpha=0.01,
    streams=("score",),
    direction="either",
    thetas=(3.0, 10.0),
    baseline_days=20,
    freeze_days=60,
    max_segment_days=365,
    min_coverage=0.8,
    rank_decimals=9,
    prior_single_weight=0.5,
    prior_block_days=10,
    change_set_ratio=20.0,
)


def _ordered(ranks):
    """The days, lowest first, after all were inserted."""
    order = []
    for day, rank in enumerate(ranks, start=1):
        order.insert(rank, day)
    return order


def _luce(order, weight_of):
    """t! times the Plackett-Luce probability of an order, first pick first, straight from the definition."""
    weights = [weight_of(day) for day in order]
    ratio = Fraction(1)
    for place, weight in enumerate(weights):
        ratio *= Fraction(len(weights) - place) * weight / sum(weights[place:])
    return ratio


def _likelihood_ratio(order, onset, thetas):
    ratios = []
    for theta in thetas:
        lowest_first = _luce(order, lambda day, theta=theta: theta if day >= onset else Fraction(1))
        highest_first = _luce(order[::-1], lambda day, theta=theta: Fraction(1) if day >= onset else theta)
        ratios += [lowest_first, highest_first]
    return sum(ratios) / len(ratios)


rank_lists = st.integers(1, 9).flatmap(lambda days: st.tuples(*(st.integers(0, day) for day in range(days))))


@settings(deadline=None, max_examples=60)
@given(
    ranks=rank_lists,
    n0=st.integers(1, 4),
    freeze=st.integers(1, 5),
    thetas=st.lists(st.fractions("5/4", 12, max_denominator=8), min_size=1, max_size=2),
)
def test_every_onset_weight_equals_the_definition_in_fractions(ranks, n0, freeze, thetas):
    params = replace(PARAMS, baseline_days=n0, freeze_days=freeze, thetas=tuple(map(float, thetas)))
    path = capital_path(np.array(ranks), params)
    prior = onset_prior(len(ranks), params)
    for row in range(max(len(ranks) - n0, 0)):
        onset = n0 + 1 + row
        seen = ranks[: onset - 1 + freeze]
        drop = _likelihood_ratio(_ordered(seen), onset, thetas)
        rise = _likelihood_ratio(_ordered(seen)[::-1], onset, thetas)
        assert path.onset_weight_drop[row, 0] == pytest.approx(prior[row] * float(drop), rel=1e-11)
        assert path.onset_weight_rise[row, 0] == pytest.approx(prior[row] * float(rise), rel=1e-11)


@pytest.mark.parametrize("direction", ["drop", "rise", "either"])
def test_capital_has_mean_one_over_all_equally_likely_rank_sequences(direction):
    sequences = np.array(list(product(*(range(day) for day in range(1, 7))))).T
    params = replace(PARAMS, baseline_days=2, freeze_days=3, direction=direction)
    capital = capital_path(sequences, params).capital
    assert capital.mean(axis=1) == pytest.approx(np.ones(6), rel=1e-12)
    assert capital[-1].std() > 0.1


def test_series_side_by_side_equal_each_alone():
    rng = np.random.default_rng(5)
    ranks = rng.integers(0, np.arange(1, 81)[:, None], (80, 300))
    params = replace(PARAMS, baseline_days=10, freeze_days=25)
    together = capital_path(ranks, params)
    for column in (0, 137, 299):
        alone = capital_path(ranks[:, column], params)
        assert together.capital[:, column] == pytest.approx(alone.capital[:, 0], rel=1e-12)
        assert (together.onset[:, column] == alone.onset[:, 0]).all()


@pytest.mark.parametrize("last", [1, 9, 30, 80])
def test_the_last_days_alone_are_as_in_the_whole_path(last):
    ranks = np.random.default_rng(7).integers(0, np.arange(1, 81)[:, None], (80, 3))
    params = replace(PARAMS, baseline_days=10, freeze_days=25)
    whole, end = capital_path(ranks, params), capital_path(ranks, params, last=last)
    assert end.capital == pytest.approx(whole.capital[-last:], rel=1e-12)
    assert end.onset_weight == pytest.approx(whole.onset_weight, rel=1e-12)
    assert (end.onset == whole.onset[-last:]).all()


def test_reversing_the_order_exchanges_drop_and_rise():
    rng = np.random.default_rng(6)
    days = np.arange(40)
    ranks = rng.integers(0, days + 1)
    forward, backward = capital_path(ranks, PARAMS), capital_path(days - ranks, PARAMS)
    assert forward.drop == pytest.approx(backward.rise, rel=1e-12)
    assert forward.onset.max() > 20


def test_prior_sums_to_one_and_the_capital_is_one_through_the_baseline():
    assert onset_prior(200_000, PARAMS).sum() == pytest.approx(1.0, abs=1e-4)
    path = capital_path(np.zeros(20, dtype=np.int64), PARAMS)
    assert (path.capital == 1.0).all()
    assert (path.onset == 0).all()


def test_looking_every_day_for_ninety_days_keeps_the_stated_false_alarm_rate():
    series = 1_000
    ranks = np.random.default_rng(58).integers(0, np.arange(1, 91)[:, None], (90, series))
    capital = capital_path(ranks, replace(PARAMS, baseline_days=10)).capital
    for alpha in (0.2, 0.1, 0.05):
        ever = (capital.max(axis=0) >= 1 / alpha).mean()
        assert ever <= alpha
    assert (capital.max(axis=0) >= 5).any()


def test_levels_of_all_segments_and_streams_add_up_to_alpha():
    params = replace(PARAMS, streams=("score", "tokens", "difference"))
    levels = [len(params.streams) / params.threshold(segment) for segment in range(1, 20_001)]
    assert sum(levels) == pytest.approx(params.alpha, rel=1e-4)
    assert PARAMS.threshold(1) == 200.0


@pytest.mark.parametrize("ranks", [[1], [0, 2], [0, -1]])
def test_an_impossible_rank_is_refused(ranks):
    with pytest.raises(ValueError, match="rank of day t"):
        capital_path(np.array(ranks), PARAMS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", 0.0),
        ("streams", ()),
        ("streams", ("score", "score")),
        ("thetas", (1.0,)),
        ("baseline_days", 0),
        ("freeze_days", 0),
        ("prior_block_days", 0),
        ("max_segment_days", 20),
        ("min_coverage", 1.5),
        ("prior_single_weight", -0.1),
        ("change_set_ratio", 0.5),
    ],
)
def test_constants_without_meaning_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=rf"{field} = "):
        replace(PARAMS, **{field: value})
