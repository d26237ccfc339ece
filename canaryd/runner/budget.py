"""Whether what is left of a budget covers what is about to be asked, in calls, tokens and money."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import date

from canaryd.config import Budget, Price


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
