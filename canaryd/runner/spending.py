"""What a series used up, what its next asks are foreseen to use, and whether its budget covers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from canaryd.config import Budget
from canaryd.records import Arm, Ask
from canaryd.runner.budget import Amount, cost, price_on, shortfall, total
from canaryd.runner.slot import Slot
from canaryd.store.harness import Spending, spending
from canaryd.store.sentinels import burst_spending
from canaryd.store.studies import study_spending

_HISTORY = timedelta(days=7)


def budget_problem(slot: Slot, asks: Sequence[Ask], *, canaries: int) -> str | None:
    """Return why the budget does not cover asking all this beside what runs, studies and bursts used up, or None.

    Tokens are foreseen from an arm's mean of the days before (at most a week of them); on its first day from
    max_tokens, where that is set.
    """
    budget, today = slot.config.budget, slot.slot_date
    if budget == Budget():
        return None
    for arm in slot.config.arms if budget.counts_money else ():
        if _price_is_missing(slot, arm):
            return f"no price of {arm.model!r} on {arm.provider!r} is in force on {today}"
    month_start = today.replace(day=1)
    with slot.store.read() as connection:
        spent = spending(connection, slot.series.name, first=min(month_start, today - _HISTORY), last=today)
        studied = study_spending(connection, slot.series.name, first=month_start, last=today)
        bursts = burst_spending(connection, slot.series.name, first=month_start, last=today)
    arms = {arm.name: arm for arm in slot.config.arms}
    used = [
        (day, _amount(slot, arms.get(name), usage=usage, day=day))
        for rows in (spent, studied, bursts)
        for (name, day), usage in rows.items()
    ]
    planned = [
        _amount(slot, arm, usage=_foreseen(arm, asks, spent=spent, today=today), day=today) for arm in arms.values()
    ]
    return shortfall(
        budget,
        total([Amount(calls=canaries), *planned]),
        day=total(amount for day, amount in used if day == today),
        month=total(amount for day, amount in used if day >= month_start),
    )


def _price_is_missing(slot: Slot, arm: Arm) -> bool:
    return price_on(slot.prices, provider=arm.provider, model=arm.model, day=slot.slot_date) is None


def _amount(slot: Slot, arm: Arm | None, *, usage: Spending, day: date) -> Amount:
    """Return what was used up; the positive control of a study is no arm of the series, and has no price."""
    price = arm and price_on(slot.prices, provider=arm.provider, model=arm.model, day=day)
    money = cost(usage.input_tokens, usage.output_tokens, price=price) if price else 0.0
    return Amount(usage.calls, usage.input_tokens + usage.output_tokens, money)


def _foreseen(arm: Arm, asks: Sequence[Ask], *, spent: Mapping[tuple[str, date], Spending], today: date) -> Spending:
    calls = sum(ask.arm == arm.name for ask in asks)
    before = [usage for (name, day), usage in spent.items() if name == arm.name and today - _HISTORY <= day < today]
    known = sum(usage.calls for usage in before)
    if known:
        share = calls / known
        return Spending(
            calls,
            round(share * sum(usage.input_tokens for usage in before)),
            round(share * sum(usage.output_tokens for usage in before)),
        )
    most = arm.params.get("max_tokens")
    return Spending(calls, 0, calls * most if isinstance(most, int) else 0)
