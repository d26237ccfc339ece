"""The gap of a duel: what the reference vectors do not cover."""

import math

import pytest
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa as other_kappa
from statsmodels.stats.proportion import proportion_confint

from canaryd.stats.duel import (
    FamilyOutcomes,
    bootstrap_gap,
    cohens_kappa,
    duel_seed,
    weighted_gap,
    wilson_interval,
)


def test_one_family_is_students_t_of_the_mean():
    outcomes = (1, 1, 0, -1, 1, 0, 1, 1)
    gap = weighted_gap([FamilyOutcomes("f", 1, outcomes)], confidence=0.95)
    interval = stats.t.interval(0.95, 7, loc=sum(outcomes) / 8, scale=stats.sem(outcomes))
    assert gap.ci == pytest.approx(interval)


def test_two_families_of_opposite_weight_are_welch():
    x, y = (1, 0, 1, 1, -1), (0, -1, 0, 1, -1, -1)
    flipped = tuple(-value for value in y)
    gap = weighted_gap([FamilyOutcomes("x", 1, x), FamilyOutcomes("y", 1, flipped)], confidence=0.95)
    welch = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    assert gap.ci == pytest.approx((welch.low / 2, welch.high / 2))


def test_weights_are_normalised():
    few = [FamilyOutcomes("x", 2, (1, 0, 1)), FamilyOutcomes("y", 6, (0, -1, 1))]
    many = [FamilyOutcomes("x", 0.25, (1, 0, 1)), FamilyOutcomes("y", 0.75, (0, -1, 1))]
    assert weighted_gap(few, confidence=0.9) == weighted_gap(many, confidence=0.9)


def test_what_has_no_interval():
    empty = weighted_gap([FamilyOutcomes("x", 1, (1, 0)), FamilyOutcomes("y", 1, ())], confidence=0.95)
    assert (empty.status, empty.gap, empty.ci, empty.excludes_zero) == ("empty_family", None, None, False)
    alike = weighted_gap([FamilyOutcomes("x", 1, (1, 1))], confidence=0.95)
    assert (alike.status, alike.gap, alike.ci, alike.excludes_zero) == ("zero_variance", 1.0, None, False)
    assert bootstrap_gap([FamilyOutcomes("x", 1, (1,))], confidence=0.95, draws=10, seed=1) is None
    for wrong in ([], [FamilyOutcomes("x", 0, (1, 0))], [FamilyOutcomes("x", -1, (1,)), FamilyOutcomes("y", 2, (1,))]):
        with pytest.raises(ValueError, match="weights"):
            weighted_gap(wrong, confidence=0.95)


def test_excluding_zero_is_strict_on_both_sides():
    up = [FamilyOutcomes("x", 1, (1, 1, 1, 0, 1, 1, 1, 1))]
    down = [FamilyOutcomes("x", 1, tuple(-value for value in up[0].outcomes))]
    assert weighted_gap(up, confidence=0.95).excludes_zero
    assert weighted_gap(down, confidence=0.95).excludes_zero
    assert not weighted_gap([FamilyOutcomes("x", 1, (1, -1, 1, 0))], confidence=0.95).excludes_zero


def test_the_same_seed_gives_the_same_picture():
    families = [FamilyOutcomes("x", 1, (1, 0, -1, 1, 0)), FamilyOutcomes("y", 2, (1, 1, 0, 1))]
    first, again, other = (
        bootstrap_gap(families, confidence=0.95, draws=500, seed=seed) for seed in (duel_seed(["r"]),) * 2 + (3,)
    )
    assert first == again
    assert first.se != other.se
    assert first.to_json()["seed"] == str(duel_seed(["r"]))


@pytest.mark.parametrize(("count", "n"), [(0, 8), (3, 8), (8, 8), (55, 64)])
def test_wilson_against_statsmodels(count, n):
    assert wilson_interval(count / n, n, confidence=0.95) == pytest.approx(
        proportion_confint(count, n, alpha=0.05, method="wilson"), abs=1e-12
    )
    with pytest.raises(ValueError, match="no unit"):
        wilson_interval(0.5, 0, confidence=0.95)


def test_kappa_against_statsmodels():
    table = [[10, 3, 1], [2, 7, 4], [0, 5, 6]]
    pairs = [("abt"[row], "abt"[column]) for row in range(3) for column in range(3) for _ in range(table[row][column])]
    assert math.isclose(cohens_kappa(pairs), other_kappa(table).kappa)
    assert cohens_kappa([]) is None
