"""A model against itself, and changes that must be seen."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from canaryd import prereg
from canaryd.stats.cells import Cell, Cells
from canaryd.stats.estimate import Estimate
from canaryd.stats.outcomes import OutcomeCounts
from canaryd.stats.validation import Criterion, Session, control_seen, day_noise, odd_against_even

REGISTERED = prereg.load(Path(__file__).parents[3] / "prereg.example.toml")
CRITERION = Criterion(REGISTERED.validation, REGISTERED.rule, REGISTERED.tokens)
START = date(2027, 1, 1)


def cells(scores: np.ndarray, *, first: int = 0, n: int = 1) -> Cells:
    """Return the cells of a matrix of passes, items in rows and days in columns, of `n` samples each."""
    return Cells(
        Cell(f"i{item:02}", START + timedelta(days=first + day), n, float(total), float(total))
        for (item, day), total in np.ndenumerate(scores)
    )


def baseline(rng: np.random.Generator, *, items: int = 40, days: int = 20, shock: float = 0.0) -> Cells:
    rates = np.clip(rng.beta(2, 2, (items, 1)) + shock * rng.standard_normal((1, days)), 0, 1)
    return cells(rng.binomial(1, rates, (items, days)))


def test_odd_days_are_counted_from_the_first_day_of_the_series() -> None:
    found = odd_against_even(
        cells(np.tile([[0.0, 1.0]], (8, 5)) * (np.arange(8)[:, None] < 6)),
        start=START,
        clusters={},
        params=CRITERION.estimate,
    )
    assert found.days == (5, 5)
    assert found.estimate.delta == pytest.approx(0.75), "even days minus odd ones"
    assert found.passed is False


def test_phi_is_about_one_when_days_are_alike_and_large_when_they_share_shocks() -> None:
    rng = np.random.default_rng(1)
    alike = [phi(baseline(rng)) for _ in range(200)]
    shocked = [phi(baseline(rng, shock=0.15)) for _ in range(50)]
    assert np.mean(alike) == pytest.approx(1.0, abs=0.08)
    assert np.mean(shocked) > 2.5


def phi(scores: Cells) -> float:
    found = odd_against_even(scores, start=START, clusters={}, params=CRITERION.estimate)
    assert found.noise is not None
    return found.noise.phi


def test_a_model_that_does_not_change_passes_at_the_registered_rate() -> None:
    rng = np.random.default_rng(2)
    failed = sum(
        odd_against_even(baseline(rng), start=START, clusters={}, params=CRITERION.estimate).passed is False
        for _ in range(300)
    )
    assert failed <= 12, "two tests at 1 %: 6 of 300 are expected"


def test_days_that_share_shocks_do_not_pass() -> None:
    rng = np.random.default_rng(4)
    found = odd_against_even(baseline(rng, shock=0.2), start=START, clusters={}, params=CRITERION.estimate)
    assert found.noise is not None
    assert found.noise.exceeds
    assert found.passed is False


def test_phi_is_the_ratio_of_the_two_variances() -> None:
    before, after = np.array([[0.0, 1, 1], [1, 1, 0]]), np.array([[1.0, 0, 0, 1], [0, 1, 0, 0]])
    found = day_noise(cells(before), cells(after, first=10), alpha=0.01)
    assert found is not None
    day = sum(np.var(each.mean(axis=0), ddof=1) / each.shape[1] for each in (before, after))
    own = sum(np.var(row, ddof=1) / len(row) for each in (before, after) for row in each) / 4
    assert found.phi == pytest.approx(day / own)
    assert found.df == 5


@pytest.mark.parametrize("scores", [np.ones((3, 4)), np.array([[1.0]])])
def test_without_variance_there_is_no_phi(scores: np.ndarray) -> None:
    assert day_noise(cells(scores), cells(scores, first=10), alpha=0.01) is None


def test_before_there_are_two_days_nothing_is_judged() -> None:
    found = odd_against_even(cells(np.ones((8, 1))), start=START, clusters={}, params=CRITERION.estimate)
    assert found.passed is None


def session(rates: Sequence[float], *, tokens: float = 100.0, refused: int = 0, n: int = 8) -> Session:
    rng = np.random.default_rng(len(rates))
    counts = np.array([[round(rate * n)] for rate in rates], dtype=float)
    lengths = [
        Cell(f"i{item:02}", START, n, n * length, n * length**2)
        for item, length in enumerate(tokens * np.exp(rng.normal(0, 0.1, len(rates))))
    ]
    answered = n * len(rates)
    return Session(cells(counts, n=n), Cells(lengths), OutcomeCounts(answered, {"refusal": refused} if refused else {}))


RATES = [0.25, 0.5, 0.75] * 10


def test_a_lower_score_is_seen_in_the_score() -> None:
    lower = [rate - (0.25 if n % 4 else 0.125) for n, rate in enumerate(RATES)]
    found = control_seen("low", session(lower), tracked=session(RATES), clusters={}, criterion=CRITERION)
    assert (found.seen, found.passed) == (("score",), True)
    assert isinstance(found.score, Estimate)
    assert found.score.delta < -0.2


def test_what_is_seen_elsewhere_passes_only_where_that_is_registered() -> None:
    tracked, shorter = session(RATES), session(RATES, tokens=60.0)
    found = control_seen("short", shorter, tracked=tracked, clusters={}, criterion=CRITERION)
    assert (found.seen, found.passed) == (("tokens",), False)
    wider = replace(CRITERION, validation=replace(CRITERION.validation, seen_in=("score", "tokens")))
    assert control_seen("short", shorter, tracked=tracked, clusters={}, criterion=wider).passed is True


def test_more_refusals_are_seen_in_the_outcomes() -> None:
    found = control_seen("mute", session(RATES, refused=60), tracked=session(RATES), clusters={}, criterion=CRITERION)
    assert found.seen == ("outcomes",)


def test_a_control_that_was_not_asked_is_not_judged() -> None:
    found = control_seen("none", Session(), tracked=session(RATES), clusters={}, criterion=CRITERION)
    assert (found.seen, found.passed) == ((), None)
