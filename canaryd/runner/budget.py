"""Whether what is left of a budget covers what is about to be asked, in calls, tokens and money."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import date

from canaryd.config import Budget, Price
from canaryd.records import Arm, Ask


@dataclass(frozen=True, slots=True)
class Amount:
    """Calls, tokens and money, used or planned."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0

    def plus(self, other: Amount) -> Amount:
        """Return the sum."""
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.money + other.money)


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts.

    >>> total([Amount(1, 10, 0.5), Amount(2, 20, 0.25)])
    Amount(calls=3, tokens=30, money=0.75)
    """
    summed = Amount()
    for amount in amounts:
        summed = summed.plus(amount)
    return summed


def price_on(prices: Sequence[Price], *, provider: str, model: str, day: date) -> Price | None:
    """Return the price of a model that is in force on a day, or None."""
    dated = [p for p in prices if (p.provider, p.model) == (provider, model) and p.first <= day]
    return max(dated, key=lambda price: price.first, default=None)


def cost(input_tokens: int, output_tokens: int, *, price: Price) -> float:
    """Return what tokens cost.

    >>> cost(2_000_000, 500_000, price=Price("p", "m", date(2027, 1, 1), 0.25, 2.0))
    1.5
    """
    return (input_tokens * price.input_per_million + output_tokens * price.output_per_million) / 1e6


def shortfall(budget: Budget, planned: Amount, *, day: Amount, month: Amount) -> str | None:
    """Return the first limit that what is planned would break, with the figures, or None.

    `day` and `month` are what the series used up already.

    >>> shortfall(Budget(calls_per_day=50), Amount(calls=78), day=Amount(), month=Amount())
    'calls_per_day is 50, 0 are used up and 78 more are needed'
    """
    for limit in fields(budget):
        most = getattr(budget, limit.name)
        if most is None:
            continue
        what, _, span = limit.name.partition("_per_")
        used, needed = getattr({"day": day, "month": month}[span], what), getattr(planned, what)
        if used + needed > most:
            return f"{limit.name} is {most:g}, {used:g} are used up and {needed:g} more are needed"
    return None


@dataclass(slots=True)
class Spare:
    """How many calls the budget covers beyond those that are planned, over all arms, and what it says where none is."""

    calls: float = math.inf
    limit: str = ""

    def take(self) -> bool:
        """Use one up; return whether there was one."""
        if self.calls < 1:
            return False
        self.calls -= 1
        return True


def spare_calls(budget: Budget, planned: Amount, *, day: Amount, month: Amount) -> Spare:
    """Return what is left for calls that are made again.

    >>> budget = Budget(calls_per_day=80, calls_per_month=900)
    >>> spare_calls(budget, Amount(calls=78), day=Amount(), month=Amount(calls=20))
    Spare(calls=2, limit='calls_per_day is 80')
    """
    left = [
        Spare(most - used.calls - planned.calls, f"{name} is {most}")
        for name, most, used in (
            ("calls_per_day", budget.calls_per_day, day),
            ("calls_per_month", budget.calls_per_month, month),
        )
        if most is not None
    ]
    return min(left, key=lambda spare: spare.calls, default=Spare())


def most_input(ask: Ask) -> int:
    """Return the most input tokens that a question can take: one for each byte of it.

    >>> most_input(Ask("s", "t", date(2027, 1, 1), "i", 0, system="Add.", prompt="2 + 2?"))
    10
    """
    return len(ask.system.encode(errors="replace")) + len(ask.prompt.encode(errors="replace"))


def most_output(arm: Arm) -> int | None:
    """Return the most output tokens of one call of an arm, None where nothing limits them."""
    most = arm.params.get("max_tokens")
    return most if isinstance(most, int) else None
