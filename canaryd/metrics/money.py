"""What the series cost and may cost, at the prices of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from sqlalchemy import Connection

from canaryd.config import Budget, Config, Price
from canaryd.metrics.values import Values
from canaryd.records import Arm
from canaryd.runner.budget import cost, price_on
from canaryd.store.harness import Spending, spending
from canaryd.store.judges import judge_spending
from canaryd.store.rows import Series, StoredArm


@dataclass(frozen=True, slots=True)
class Purse:
    """The budgets and judges by series, and the prices; without a price nothing is said of money."""

    budgets: Mapping[str, Budget] = field(default_factory=dict)
    prices: tuple[Price, ...] = ()
    judges: Mapping[str, Arm] = field(default_factory=dict)


def purse_of(config: Config) -> Purse:
    """Return the purse of a configuration."""
    judges = {series.name: series.judge.config.arm for series in config.series if series.judge}
    return Purse({series.name: series.budget for series in config.series}, config.prices, judges)


def add_money(
    connection: Connection, values: Values, *, series: Series, arms: Sequence[StoredArm], purse: Purse, today: date
) -> None:
    """Add what each arm and the judge cost since the series began, and what the series spent in this UTC day and month.

    Left out is what cannot be known: a sum of days of which one has no price in force.
    """
    budget = purse.budgets.get(series.name, Budget())
    values.add("budget_limit_usd", budget.money_per_day, series.name, "day")
    values.add("budget_limit_usd", budget.money_per_month, series.name, "month")
    if not purse.prices:
        return
    month_start = today.replace(day=1)
    used = spending(connection, series.name, first=min(series.start_date, month_start), last=today)
    used |= judge_spending(connection, series.name, first=min(series.start_date, month_start), last=today)
    by_name: dict[str, StoredArm | Arm] = {arm.name: arm for arm in arms}
    if judge := purse.judges.get(series.name):
        by_name[judge.name] = judge
    costs = {key: _cost(by_name.get(key[0]), usage, day=key[1], prices=purse.prices) for key, usage in used.items()}
    for asked in by_name:
        mine = _sum([each for (name, _), each in costs.items() if name == asked])
        values.add("cost_usd_total", mine, series.name, asked)
    spent_today = _sum([each for (_, day), each in costs.items() if day == today])
    values.add("budget_spent_usd", spent_today, series.name, "day")
    spent_in_month = _sum([each for (_, day), each in costs.items() if day >= month_start])
    values.add("budget_spent_usd", spent_in_month, series.name, "month")


def _cost(arm: StoredArm | Arm | None, usage: Spending, *, day: date, prices: Sequence[Price]) -> float | None:
    if arm is None:
        return None
    price = price_on(prices, provider=arm.provider, model=arm.model, day=day)
    return None if price is None else cost(usage.input_tokens, usage.output_tokens, price=price)


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [each for each in costs if each is not None]
    return sum(known) if len(known) == len(costs) else None
