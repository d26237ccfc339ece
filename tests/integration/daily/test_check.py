"""What `canaryd check` says of a series whose last whole day is too long ago, and what comes before it."""

from __future__ import annotations

from typing import Any

import pytest

from canaryd import status
from canaryd.records import Ask, Reply
from canaryd.status.build import series_status
from canaryd.status.load import series_records
from canaryd.store import read


def shown(world: Any) -> status.Status:
    with world.store.read() as connection:
        records = series_records(connection, read.series(connection, "s"), policy=world.policy)
    series = series_status(records, world.clock.now())
    return status.Status("0", "store", world.clock.now(), "system", (series,))


def check(world: Any) -> Any:
    return status.check_status(shown(world))


def test_a_day_without_one_right_answer_is_said_to_be_set_aside(make_world: Any) -> None:
    world = make_world()
    world.answers["tracked"] = lambda ask, n: Reply("<answer>-1</answer>", "stop")
    assert world.measure(1).set_aside == {"tracked": "zero_pass_all"}
    said = "tracked: 2027-01-01 is set aside as zero_pass_all: not one answer was right"
    assert [said in line for line in status.as_text(shown(world)).splitlines()].count(True) == 1
    runs = shown(world).to_json()["series"][0]["last_runs"]
    assert {run["arm"]: run["set_aside"] for run in runs} == {"tracked": "zero_pass_all", "control": None}


@pytest.mark.parametrize(
    ("hour", "reason", "said"),
    [
        (5, "insufficient_data", "no window is decided yet"),
        (6, "stale", "stale, no whole day was measured since 2027-01-01 03:10Z"),
    ],
    ids=["25 h 50 min ago", "26 h 50 min ago"],
)
def test_a_day_that_is_too_long_ago_is_not_shown_as_fresh(make_world: Any, hour: int, reason: str, said: str) -> None:
    world = make_world(roles=("tracked",))
    world.measure(1)
    world.at(2, hour, 0)
    found = check(world)
    assert (found.exit_code, found.series[0].reason) == (2, reason)
    assert said in found.series[0].sentence


def test_a_change_is_said_before_that_nothing_was_measured_since(make_world: Any) -> None:
    world = make_world(items=12, grid=(4, 4), roles=("tracked",))
    for day in range(1, 13):

        def answer(ask: Ask, times: int, *, low: bool = day > 4) -> Reply:
            is_wrong = low and int(ask.item_id[1:]) % 2
            return Reply("<answer>-1</answer>" if is_wrong else f"<answer>{2 * int(ask.item_id[1:])}</answer>", "stop")

        world.answers["tracked"] = answer
        world.measure(day)
    world.decide(13)
    world.at(20)
    found = check(world)
    assert (found.exit_code, found.series[0].reason) == (1, "verdict")


@pytest.mark.parametrize("text", ["<answer>-1</answer>", ""], ids=["all wrong", "all empty"])
def test_a_day_that_is_set_aside_is_no_success(make_world: Any, text: str) -> None:
    world = make_world(roles=("tracked",))
    world.measure(1)
    world.answers["tracked"] = lambda ask, n: Reply(text, "stop")
    assert world.measure(2).set_aside
    world.measure(3)
    found = check(world)
    assert (found.exit_code, found.series[0].reason) == (2, "stale")
    assert "no whole day was measured since 2027-01-01 03:10Z" in found.series[0].sentence
