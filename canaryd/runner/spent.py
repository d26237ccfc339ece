"""What a series used up in a UTC day and its month: runs, their judge, studies and bursts of sentinels together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from canaryd.config import Price, SeriesConfig
from canaryd.records import Arm
from canaryd.runner.budget import Amount, cost, price_on, total
from canaryd.store.harness import Spending, spending
from canaryd.store.judges import judge_spending
from canaryd.store.sentinels import burst_spending
from canaryd.store.studies import study_spending


@dataclass(frozen=True, slots=True)
class Used:
    """What was used up on a day, and in its month up to that day."""

    day: Amount
    month: Amount


def used_up(connection: Connection, series: SeriesConfig, *, prices: Sequence[Price], today: date) -> Used:
    """Return what a series used up; what has no price cost nothing that is known."""
    arms = {arm.name: arm for arm in series.asked}
    amounts = [
        (day, amount(arms.get(name), usage, prices=prices, day=day))
        for query in (spending, judge_spending, study_spending, burst_spending)
        for (name, day), usage in query(connection, series.name, first=today.replace(day=1), last=today).items()
    ]
    return Used(total(each for day, each in amounts if day == today), total(each for _, each in amounts))


def amount(arm: Arm | None, usage: Spending, *, prices: Sequence[Price], day: date) -> Amount:
    """Return what was used up; the positive control of a study is no arm of the series, and has no price."""
    price = arm and price_on(prices, provider=arm.provider, model=arm.model, day=day)
    money = cost(usage.input_tokens, usage.output_tokens, price=price) if price else 0.0
    return Amount(usage.calls, usage.input_tokens + usage.output_tokens, money)
