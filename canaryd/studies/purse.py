"""How many of a study's asks the budget of its series still pays for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from canaryd.errors import MeasurementRefused
from canaryd.records import Arm, Ask
from canaryd.runner.budget import Amount, cost, most_input, most_output, price_on, shortfall, total
from canaryd.store.harness import Spending, spending
from canaryd.store.judges import judge_spending
from canaryd.store.sentinels import burst_spending
from canaryd.store.studies import study_spending
from canaryd.studies.laboratory import Laboratory


@dataclass(frozen=True, slots=True)
class Allowed:
    """How many asks, in their order, the budget covers, and what stops the rest (None: nothing does)."""

    asks: int
    why: str | None


def allowed(lab: Laboratory, asks: Sequence[Ask], *, arms: Mapping[str, Arm]) -> Allowed:
    """Return how many of the asks the day's and the month's budget cover, beside what runs and studies used up.

    Tokens of a call are foreseen from what the arm's studies took so far; before they took any, as the most that they
    can be.

    Raises:
        MeasurementRefused: the budget is in money, and an arm has no price that is in force; or it is in tokens or
            money, and what a call of an arm takes cannot be foreseen.
    """
    budget, today = lab.series.budget, lab.today
    if budget.counts_money:
        _require_prices(lab, arms)
    month = today.replace(day=1)
    with lab.store.read() as connection:
        spent = [
            study_spending(connection, lab.series.name, first=month, last=today),
            spending(connection, lab.series.name, first=month, last=today),
            burst_spending(connection, lab.series.name, first=month, last=today),
            judge_spending(connection, lab.series.name, first=month, last=today),
        ]
    known = {arm.name: arm for arm in lab.series.asked} | dict(arms)
    used = [(day, _amount(lab, known.get(name), usage=usage)) for rows in spent for (name, day), usage in rows.items()]
    of_day, of_month = total(each for day, each in used if day == today), total(each for _, each in used)
    if budget.counts_tokens:
        _require_foreseen(arms, spent[0])
    means = {name: _mean(name, spent[0]) for name in arms}
    planned = Amount()
    for count, ask in enumerate(asks):
        arm = arms[ask.arm]
        usage = means[ask.arm] or Spending(1, most_input(ask), most_output(arm) or 0)
        planned = planned.plus(_amount(lab, arm, usage=usage))
        if why := shortfall(budget, planned, day=of_day, month=of_month):
            return Allowed(count, why)
    return Allowed(len(asks), None)


def _require_prices(lab: Laboratory, arms: Mapping[str, Arm]) -> None:
    for arm in arms.values():
        if price_on(lab.config.prices, provider=arm.provider, model=arm.model, day=lab.today) is None:
            raise MeasurementRefused(
                f"series {lab.series.name!r} has a budget in money, but no price of {arm.model!r} on {arm.provider!r} "
                "is in force; add a [[price]]",
                reason="budget",
            )


def _amount(lab: Laboratory, arm: Arm | None, *, usage: Spending) -> Amount:
    price = arm and price_on(lab.config.prices, provider=arm.provider, model=arm.model, day=lab.today)
    money = cost(usage.input_tokens, usage.output_tokens, price=price) if price else 0.0
    return Amount(usage.calls, usage.input_tokens + usage.output_tokens, money)


def _require_foreseen(arms: Mapping[str, Arm], spent: Mapping[tuple[str, date], Spending]) -> None:
    for name, arm in arms.items():
        if most_output(arm) is None and _mean(name, spent) is None:
            raise MeasurementRefused(
                f"what a call of arm {name!r} takes cannot be foreseen: it sets no limit on output, and no study of it "
                "tells; set params.max_tokens, or take the budget's limits in tokens and money away for the first one",
                reason="budget",
            )


def _mean(arm: str, spent: Mapping[tuple[str, date], Spending]) -> Spending | None:
    """Return what a call of an arm took on average in the studies that reported it, None where none did."""
    before = [usage for (name, _), usage in spent.items() if name == arm and usage.output_tokens]
    calls = sum(usage.calls for usage in before)
    if not calls:
        return None
    return Spending(
        1,
        -(-sum(usage.input_tokens for usage in before) // calls),
        -(-sum(usage.output_tokens for usage in before) // calls),
    )
