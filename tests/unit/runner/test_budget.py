"""Budgets: which limit breaks, and by how much."""

from datetime import date

import pytest

from canaryd.config import Budget, Price
from canaryd.runner.budget import Amount, price_on, shortfall

USED = Amount(calls=60, tokens=6000, money=0.6)
PLANNED = Amount(calls=40, tokens=4000, money=0.4)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(), None),
        (Budget(calls_per_day=100, tokens_per_month=10_000, money_per_day=1.0), None),
        (Budget(calls_per_day=99), "calls_per_day is 99, 60 are used up and 40 more are needed"),
        (Budget(tokens_per_month=9_999), "tokens_per_month is 9999, 6000 are used up and 4000 more are needed"),
        (Budget(money_per_month=0.9), "money_per_month is 0.9, 0.6 are used up and 0.4 more are needed"),
    ],
)
def test_a_limit_may_be_reached_and_not_passed(budget: Budget, said: str | None) -> None:
    assert shortfall(budget, PLANNED, day=USED, month=USED) == said


def test_the_newest_price_that_has_begun_is_in_force() -> None:
    old, new = (Price("p", "m", date(2027, month, 1), 1.0, 1.0) for month in (1, 3))
    assert price_on([new, old], provider="p", model="m", day=date(2027, 2, 28)) == old
    assert price_on([new, old], provider="p", model="m", day=date(2027, 3, 1)) == new
    assert price_on([new, old], provider="p", model="m", day=date(2026, 12, 31)) is None
    assert price_on([new, old], provider="p", model="other", day=date(2027, 3, 1)) is None
