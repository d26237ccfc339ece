"""Screening, regression to the mean and what a budget buys."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from canaryd import prereg
from canaryd.stats.calibration import ItemScores, design, information_estimates, regression, screened
from canaryd.stats.params import MdeParams
from canaryd.stats.study_params import CalibrationParams

RULE = prereg.load(Path(__file__).parents[3] / "prereg.example.toml").rule
SCREEN = CalibrationParams(screen_samples=4, keep_min=1, keep_max=3, confirm_samples=8)
PARAMS = MdeParams(z_confidence=2.576, z_power=0.842, two_window_factor=1.24)


def passes(right: int, n: int) -> ItemScores:
    return ItemScores((1.0,) * right + (0.0,) * (n - right))


def test_partial_credit_is_screened_by_the_sum_of_its_scores() -> None:
    assert screened(ItemScores((0.25, 0.25, 0.25, 0.25)), SCREEN) == "kept"
    assert screened(ItemScores((0.2, 0.25, 0.25, 0.25)), SCREEN) == "too_hard"
    assert screened(ItemScores((0.1,) * 10), replace(SCREEN, screen_samples=10)) == "kept", "0.1 ten times is 1"
    assert screened(ItemScores((0.9, 0.9, 0.9, 0.9)), SCREEN) == "too_easy"


def test_a_refused_sample_is_not_a_wrong_one() -> None:
    assert screened(ItemScores((1.0, 1.0, 1.0), refused=1), SCREEN) == "unanswered"
    assert screened(passes(3, 4), SCREEN) == "kept"


@pytest.mark.parametrize(("right", "n"), [(0, 8), (3, 8), (8, 8), (1, 2)])
def test_information_of_binary_scores_is_the_unbiased_one(right: int, n: int) -> None:
    assert passes(right, n).information == pytest.approx(right * (n - right) / (n * (n - 1)))


def test_information_of_partial_credit_is_the_sample_variance() -> None:
    scores = (0.2, 0.9, 0.55, 0.4)
    assert ItemScores(scores).information == pytest.approx(np.var(scores, ddof=1))
    assert ItemScores((0.5,)).information is None


def test_the_unbiased_estimate_is_unbiased_where_the_others_are_not() -> None:
    rates, n, rng = np.linspace(0.05, 0.95, 19), 8, np.random.default_rng(3)
    truth = float(np.mean(rates * (1 - rates)))
    draws = rng.binomial(n, np.tile(rates, 400))
    found = np.mean([passes(int(right), n).information or 0.0 for right in draws])
    assert found == pytest.approx(truth, rel=0.02)
    estimates = information_estimates(
        [(int(right), n) for right in draws], samples_baseline=10, samples_window=10, params=PARAMS
    )
    assert estimates.plug_in.se < 0.96 * estimates.unbiased.se
    assert estimates.shrunk.se > 1.02 * estimates.unbiased.se


def test_regression_counts_each_item_once_and_leaves_out_what_is_not_in_both() -> None:
    screen = {"a": passes(1, 4), "b": passes(3, 4), "c": passes(2, 4), "d": passes(2, 4)}
    confirm = {"a": passes(4, 8), "b": passes(2, 4), "d": ItemScores()}
    sums, words = regression(screen, confirm, groups={"a": "sums", "b": "sums", "c": "words", "d": "words"})
    assert (sums.items, sums.screen, sums.confirm) == (2, 0.5, 0.5)
    assert (words.items, words.screen, words.confirm) == (0, None, None)


def test_selection_on_the_screen_makes_the_screen_wrong_and_the_confirmation_right() -> None:
    rng = np.random.default_rng(5)
    rates = rng.beta(2, 2, 6000)
    screen = {str(n): passes(int(right), 4) for n, right in enumerate(rng.binomial(4, rates))}
    kept = [item for item, scores in screen.items() if screened(scores, SCREEN) == "kept"]
    confirm = {item: passes(int(rng.binomial(8, rates[int(item)])), 8) for item in kept}
    rows = regression(screen, confirm, groups={item: f"{sum(screen[item].scores):g}" for item in kept})
    assert [row.screen for row in rows] == [0.25, 0.5, 0.75]
    assert [row.confirm for row in rows] == [pytest.approx(share, abs=0.02) for share in (3 / 8, 4 / 8, 5 / 8)]


def test_a_design_says_what_other_budgets_buy() -> None:
    found = design([passes(6, 8)] * 40, rule=RULE)
    assert found is not None
    assert found.mde.se == pytest.approx(np.sqrt(found.mean_information * (1 / 20 + 1 / 10) / 40))
    whole = {(row.items, row.per_day): row for row in found.purchases}
    assert sorted({items for items, _ in whole}) == [10, 20, 30, 40]
    assert whole[40, 1].mde.two_windows == pytest.approx(found.mde.two_windows)
    assert whole[40, 4].mde.se == pytest.approx(found.mde.se / 2)
    assert (whole[20, 2].calls_per_day, whole[20, 2].calls_per_window) == (40, 400)


def test_samples_that_look_alike_buy_less() -> None:
    alone = design([passes(6, 8)] * 40, rule=RULE, per_day=4)
    alike = design([passes(6, 8)] * 40, rule=RULE, per_day=4, day_correlation=0.2)
    assert alone is not None
    assert alike is not None
    assert alike.mde.se / alone.mde.se == pytest.approx(np.sqrt(1.6))


def test_without_two_fresh_scores_there_is_no_design() -> None:
    assert design([ItemScores((1.0,)), ItemScores()], rule=RULE) is None
