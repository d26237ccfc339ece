"""What the next asks of a series are foreseen to use, and whether its budget covers them beside what it used up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from canaryd.config import Budget
from canaryd.records import Arm, Ask
from canaryd.runner.budget import Amount, Spare, most_input, most_output, price_on, shortfall, spare_calls, total
from canaryd.runner.judge import judged
from canaryd.runner.reports import CONFIG_PATH, canary_ask
from canaryd.runner.slot import Slot
from canaryd.runner.spent import amount, used_up
from canaryd.store.harness import Spending, spending
from canaryd.store.judges import judge_spending

_HISTORY = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Why the budget does not cover what is planned, None where it does, and what it leaves for calls made again."""

    problem: str | None = None
    spare: Spare = field(default_factory=Spare)


def outlook(slot: Slot, asks: Sequence[Ask], *, canary: bool) -> Outlook:
    """Return what the budget says of asking all this beside what runs, studies and bursts used up.

    With `canary` the trivial tasks of the arms that are asked are planned too. Tokens are foreseen from an arm's mean
    of the days before (at most a week of them); on its first day as the most that they can be.
    """
    budget, today = slot.config.budget, slot.slot_date
    if budget == Budget():
        return Outlook()
    for arm in slot.config.asked if budget.counts_money else ():
        if _price_is_missing(slot, arm):
            return Outlook(f"no price of {arm.model!r} on {arm.provider!r} is in force on {today}")
    with slot.store.read() as connection:
        used = used_up(connection, slot.config, prices=slot.prices, today=today)
        spent = spending(connection, slot.series.name, first=today - _HISTORY, last=today)
        spent |= judge_spending(connection, slot.series.name, first=today - _HISTORY, last=today)
    planned = list[Amount]()
    for arm in slot.config.asked:
        mine = _planned(slot, arm, asks=asks, canary=canary)
        foreseen = _foreseen(arm, mine, spent=spent, today=today)
        if foreseen is None and budget.counts_tokens:
            return Outlook(
                f"what arm {arm.name!r} takes cannot be foreseen: it sets no limit on output, and no day before tells; "
                "set params.max_tokens, or measure one day under a limit of calls alone"
            )
        planned.append(amount(arm, foreseen or Spending(len(mine)), prices=slot.prices, day=today))
    problem = shortfall(budget, total(planned), day=used.day, month=used.month)
    return Outlook(problem, spare_calls(budget, total(planned), day=used.day, month=used.month))


def _price_is_missing(slot: Slot, arm: Arm) -> bool:
    return price_on(slot.prices, provider=arm.provider, model=arm.model, day=slot.slot_date) is None


def _planned(slot: Slot, arm: Arm, *, asks: Sequence[Ask], canary: bool) -> list[Ask]:
    """Return the calls that an arm is foreseen to take, its trivial tasks among them; of the judge one for each answer.

    A judge is asked at least what the arm was.
    """
    if slot.judge is not None and arm == slot.judge.config.arm:
        return [*judged(asks, slot.panel), *([asks[0]] * len(slot.judge.anchors) if asks else [])]
    mine = [ask for ask in asks if ask.arm == arm.name]
    times = 1 + (CONFIG_PATH in arm.options) if canary and mine else 0
    return [*mine, *([canary_ask(slot, arm.name)] * times)]


def _foreseen(
    arm: Arm, planned: Sequence[Ask], *, spent: Mapping[tuple[str, date], Spending], today: date
) -> Spending | None:
    """Return what the calls will take, None where that cannot be foreseen."""
    calls = len(planned)
    before = [
        usage
        for (name, day), usage in spent.items()
        if name == arm.name and today - _HISTORY <= day < today and usage.output_tokens
    ]
    known = sum(usage.calls for usage in before)
    if known:
        share = calls / known
        return Spending(
            calls,
            round(share * sum(usage.input_tokens for usage in before)),
            round(share * sum(usage.output_tokens for usage in before)),
        )
    most = most_output(arm)
    if most is None and calls:
        return None
    return Spending(calls, sum(map(most_input, planned)), calls * (most or 0))
