"""The smallest change that can be seen: predicted, realised, and what a budget buys."""

from datetime import date, timedelta

import numpy as np
import pytest

from canaryd.stats.cells import Cells
from canaryd.stats.params import HeadroomParams, MdeParams
from canaryd.stats.power import (
    Plan,
    headroom,
    information_of_counts,
    information_of_rates,
    plan_mde,
    predicted_mde,
    realised_mde,
)

PARAMS = MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24)


def _period(start, rates, rng, *, days=10):
    return Cells.from_samples(
        (f"i{n:03d}", start + timedelta(days=day), float(rng.random() < rate))
        for n, rate in enumerate(rates)
        for day in range(days)
    )


def test_realised_is_the_unbiased_prediction_from_the_baseline_counts():
    rng = np.random.default_rng(8)
    rates = np.linspace(0.1, 0.9, 30)
    baseline, window = _period(date(2027, 1, 1), rates, rng, days=20), _period(date(2027, 2, 1), rates, rng)
    realised = realised_mde(baseline, window, params=PARAMS)
    passes = baseline.by_item().total.astype(int).tolist()
    predicted = predicted_mde(
        [information_of_counts(count, 20) for count in passes], samples_baseline=20, samples_window=10, params=PARAMS
    )
    assert realised.items == predicted.items == 30
    assert realised.se == pytest.approx(predicted.se, rel=1e-12)
    assert realised.two_windows == pytest.approx(1.24 * predicted.one_window)


def test_unbiased_information_is_right_on_average_and_the_plug_in_is_not():
    rng = np.random.default_rng(9)
    rates = rng.beta(2, 2, 20_000)
    passes = rng.binomial(8, rates)
    truth = float(np.mean(rates * (1 - rates)))
    unbiased = float(np.mean([information_of_counts(int(count), 8) for count in passes]))
    plug_in = float(np.mean(information_of_rates(passes / 8)))
    assert unbiased == pytest.approx(truth, rel=0.01)
    assert plug_in == pytest.approx(7 / 8 * truth, rel=0.01)


def test_items_seen_once_have_no_variance_and_are_left_out():
    day = date(2027, 1, 1)
    once = Cells.from_samples([("a", day, 1.0), ("b", day, 1.0)])
    window = Cells.from_samples([("a", date(2027, 2, 1), 1.0), ("b", date(2027, 2, 1), 1.0)])
    assert realised_mde(once, window, params=PARAMS) is None
    twice = once.plus(Cells.from_samples([("a", date(2027, 1, 2), 0.0)]))
    assert realised_mde(twice, window, params=PARAMS).items == 1


def test_more_of_anything_sees_less():
    base = plan_mde(Plan(40, 1, 10, 10), mean_information=0.19, params=PARAMS).one_window
    for more in (Plan(80, 1, 10, 10), Plan(40, 2, 10, 10), Plan(40, 1, 20, 10), Plan(40, 1, 10, 20)):
        assert plan_mde(more, mean_information=0.19, params=PARAMS).one_window < base
    alike = plan_mde(Plan(40, 4, 10, 10), mean_information=0.19, params=PARAMS, day_correlation=0.43)
    assert alike.one_window == pytest.approx(base * ((1 + 3 * 0.43) / 4) ** 0.5)


def test_no_item_is_refused():
    with pytest.raises(ValueError, match="no item"):
        predicted_mde([], samples_baseline=10, samples_window=10, params=PARAMS)
    with pytest.raises(ValueError, match="at least two samples"):
        information_of_counts(1, 1)


@pytest.mark.parametrize(
    ("scores", "state"),
    [([1.0, 0.8], "already_passed"), ([0.2, 0.0], "already_failed"), ([1.0, 0.0], "ok"), ([0.9, 0.89], "ok")],
)
def test_headroom(scores, state):
    cells = Cells.from_samples((f"i{n}", date(2027, 1, 1), score) for n, score in enumerate(scores))
    assert headroom(cells, params=HeadroomParams(high=0.9, low=0.1)).state == state


def test_an_empty_baseline_has_no_headroom_to_speak_of():
    assert headroom(Cells(), params=HeadroomParams(high=0.9, low=0.1)) is None
