"""Budgets in tokens and money: what is foreseen before the first call, and what counts as used up after the last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from canaryd.config import Budget
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Reply


def right(ask: Ask) -> str:
    return f"<answer>{'ok' if ask.item_id == 'pre-flight' else 2 * int(ask.item_id[1:])}</answer>"


def planned(world: Any) -> int:
    """Return the bytes that one measurement of the panel sends, its trivial task included."""
    prompts = [item.prompt for item in world.panel.items]
    sent = [*prompts, "Reply with <answer>ok</answer> and nothing else."]
    return sum(len(prompt) + len(world.panel.system) for prompt in sent)


def test_what_cannot_be_foreseen_is_refused_with_what_to_set(make_world: Any) -> None:
    world = make_world(roles=("tracked",), budget=Budget(tokens_per_day=10))
    world.measure(1, canary=True)
    assert world.asked == []
    assert world.outcomes(1)[0][3] == (
        "budget: what arm 'tracked' takes cannot be foreseen: it sets no limit on output, and no day before tells; set "
        "params.max_tokens, or measure one day under a limit of calls alone"
    )


@pytest.mark.parametrize("short", [0, 1])
def test_the_first_day_is_foreseen_as_the_most_that_it_can_take_the_trivial_task_included(
    make_world: Any, short: int
) -> None:
    world = make_world(roles=("tracked",), params={"max_tokens": 50})
    most = planned(world) + 7 * 50
    world.config = replace(world.config, budget=Budget(tokens_per_day=most - short))
    world.measure(1, canary=True)
    said = f"budget: tokens_per_day is {most - 1}, 0 are used up and {most} more are needed"
    assert world.outcomes(1)[0][2:] == (("refused", said) if short else ("completed", ""))


def test_what_no_reply_reports_is_used_up_as_the_most_that_it_can_be(make_world: Any) -> None:
    world = make_world(roles=("tracked",), params={"max_tokens": 50})
    most = planned(world) + 7 * 50
    world.config = replace(world.config, budget=Budget(tokens_per_month=2 * most))
    world.answers["tracked"] = lambda ask, n: Reply(right(ask), "stop")
    for day in (1, 2, 3):
        world.measure(day, canary=True)
    assert [world.outcomes(day)[0][2] for day in (1, 2)] == ["completed", "completed"]
    said = f"budget: tokens_per_month is {2 * most}, {2 * most} are used up and {most} more are needed"
    assert world.outcomes(3) == [("tracked", 1, "refused", said)]


def test_a_call_that_is_made_again_is_made_only_where_the_budget_covers_it(make_world: Any) -> None:
    world = make_world(roles=("tracked", "control"), budget=Budget(calls_per_day=15))
    world.answers["tracked"] = lambda ask, n: (
        Reply(right(ask), "stop") if ask.item_id == "pre-flight" else ProviderError("overloaded", "busy")
    )
    world.measure(1, canary=True)
    assert len(world.asked) == 15
    said = "6 samples not measured (failures: overloaded; not all were asked again: the budget's calls_per_day is 15)"
    assert world.outcomes(1) == [("control", 1, "completed", ""), ("tracked", 1, "incomplete", said)]
