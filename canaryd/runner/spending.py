"""What the next asks of a series are foreseen to use, and whether its budget covers them beside what it used up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from canaryd.config import Budget
from canaryd.records import Arm, Ask
from canaryd.runner.budget import Amount, price_on, shortfall, total
from canaryd.runner.judge import judged_asks
from canaryd.runner.slot import Slot
from canaryd.runner.spent import amount, used_up
from canaryd.store.harness import Spending, spending
from canaryd.store.judges import judge_spending

_HISTORY = timedelta(days=7)


def budget_problem(slot: Slot, asks: Sequence[Ask], *, canaries: int) -> str | None:
    """Return why the budget does not cover asking all this beside what runs, studies and bursts used up, or None.

    Tokens are foreseen from an arm's mean of the days before (at most a week of them); on its first day from
    max_tokens, where that is set.
    """
    budget, today = slot.config.budget, slot.slot_date
    if budget == Budget():
        return None
    for arm in slot.config.asked if budget.counts_money else ():
        if _price_is_missing(slot, arm):
            return f"no price of {arm.model!r} on {arm.provider!r} is in force on {today}"
    with slot.store.read() as connection:
        used = used_up(connection, slot.config, prices=slot.prices, today=today)
        spent = spending(connection, slot.series.name, first=today - _HISTORY, last=today)
        spent |= judge_spending(connection, slot.series.name, first=today - _HISTORY, last=today)
    arms = {arm.name: arm for arm in slot.config.asked}
    calls = Counter(ask.arm for ask in asks) + _judgements(slot, asks)
    planned = [
        amount(arm, _foreseen(arm, calls[arm.name], spent=spent, today=today), prices=slot.prices, day=today)
        for arm in arms.values()
    ]
    return shortfall(budget, total([Amount(calls=canaries), *planned]), day=used.day, month=used.month)


def _price_is_missing(slot: Slot, arm: Arm) -> bool:
    return price_on(slot.prices, provider=arm.provider, model=arm.model, day=slot.slot_date) is None


def _judgements(slot: Slot, asks: Sequence[Ask]) -> Counter[str]:
    """Return the calls that the judge is foreseen to take: one for each answer that it grades, and its anchors."""
    if slot.judge is None or not asks:
        return Counter()
    return Counter({slot.judge.config.arm.name: judged_asks(asks, slot.panel) + len(slot.judge.anchors)})


def _foreseen(arm: Arm, calls: int, *, spent: Mapping[tuple[str, date], Spending], today: date) -> Spending:
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
