"""A slot that a person sets aside: nothing is deleted, and verdicts that rest on it are superseded."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from canaryd import status
from canaryd.errors import UsageError
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Reply
from canaryd.runner.quarantine import set_aside
from canaryd.status.build import series_status
from canaryd.status.load import series_records
from canaryd.store import read, samples
from canaryd.store.notes import days_set_aside, slots_without_canary
from canaryd.store.rows import Span


def reply(ask: Ask, times: int = 0) -> Reply:
    return Reply(f"<answer>{2 * int(ask.item_id[1:])}</answer>", "stop")


def worse(ask: Ask, times: int = 0) -> Reply:
    return reply(ask) if int(ask.item_id[1:]) % 2 else Reply("<answer>-1</answer>", "stop")


def verdicts(world: Any, *, superseded: bool = False) -> list[Any]:
    with world.store.read() as connection:
        return list(read.verdicts(connection, "s", superseded=superseded))


def kinds(world: Any, **which: bool) -> list[tuple[int, str]]:
    return [(stored.verdict.window_index, stored.verdict.kind) for stored in verdicts(world, **which)]


def played(make_world: Any) -> Any:
    world = make_world(items=12, grid=(4, 4))
    for day in range(1, 17):
        world.answers["tracked"] = worse if 5 <= day <= 12 else reply
        world.measure(day)
    world.decide(17)
    return world


def test_a_slot_of_a_study_that_ended_long_ago_can_be_set_aside(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    world.at(200, 0)
    set_aside(world.store, "s", slot_date=date(2027, 1, 1), arm=None, reason="wrong key", now=world.clock.now())
    assert world.decide(200) != (), "the calendar is believed, for a person acted by it"


def test_verdicts_that_rest_on_a_set_aside_slot_are_superseded(make_world: Any) -> None:
    world = played(make_world)
    assert kinds(world) == [(1, "insufficient_data"), (2, "change"), (3, "no_change_detected")]
    for day in (9, 10):
        set_aside(world.store, "s", slot_date=world.at(day), arm=None, reason="wrong key", now=world.clock.now())
    again = world.decide(17)
    assert [(one.window_index, one.kind) for one in again] == [(2, "not_evaluable"), (3, "not_evaluable")]
    assert kinds(world) == [(1, "insufficient_data"), (2, "not_evaluable"), (3, "not_evaluable")]
    assert len(verdicts(world, superseded=True)) == 5, "what was said stays"
    assert world.decide(18) == (), "once is enough"


def test_an_old_window_that_is_decided_anew_moves_no_alarm(make_world: Any) -> None:
    world = played(make_world)
    with world.store.read() as connection:
        before = read.alarms(connection, "s")
    set_aside(world.store, "s", slot_date=world.at(5), arm="tracked", reason="x", now=world.clock.now())
    set_aside(world.store, "s", slot_date=world.at(6), arm="tracked", reason="x", now=world.clock.now())
    assert [one.window_index for one in world.decide(17)] == [1, 2]
    with world.store.read() as connection:
        assert read.alarms(connection, "s") == before


def test_nothing_is_deleted(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    day = world.at(1)
    (run,) = set_aside(world.store, "s", slot_date=day, arm="tracked", reason="a test run", now=world.clock.now())
    assert run.start.arm == "tracked"
    with world.store.read() as connection:
        assert samples.tally(connection, Span("s", "tracked", day, day)).samples == 0
        assert samples.tally(connection, Span("s", "tracked", day, day), include_invalid=True).samples == 6
        assert samples.tally(connection, Span("s", "control", day, day)).samples == 6


def test_a_slot_is_set_aside_once(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    for arm in ("tracked", "control"):
        set_aside(world.store, "s", slot_date=world.at(1), arm=arm, reason="x", now=world.clock.now())
    with pytest.raises(UsageError, match="no run of s on 2027-01-01 that is still part of the analysis"):
        set_aside(world.store, "s", slot_date=world.at(1), arm=None, reason="x", now=world.clock.now())


def shown(world: Any) -> status.Status:
    with world.store.read() as connection:
        records = series_records(connection, read.series(connection, "s"), policy=world.policy)
    now = world.clock.now()
    return status.Status("0", "store", now, "system", (series_status(records, now),))


def test_status_says_what_was_set_aside_when_and_why(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    world.measure(2)
    set_aside(world.store, "s", slot_date=world.at(1), arm=None, reason="the gateway cached", now=world.clock.now())
    set_aside(world.store, "s", slot_date=world.at(2), arm="tracked", reason="a wrong key", now=world.clock.now())
    now = shown(world)
    lines = [line.strip() for line in status.as_text(now).splitlines() if "quarantine" in line]
    assert lines == [
        "quarantine of 2027-01-01 (control, tracked) noted 2027-01-01 03:10Z: the gateway cached",
        "quarantine of 2027-01-02 (tracked) noted 2027-01-02 03:10Z: a wrong key",
    ]
    assert now.to_json()["series"][0]["quarantines"][1] == {
        "slot_date": "2027-01-02",
        "arms": ["tracked"],
        "reason": "a wrong key",
        "at": "2027-01-02T03:10:00+00:00",
    }


def test_the_days_that_are_set_aside_stand_beside_the_figures_that_leave_them_out(make_world: Any) -> None:
    world = make_world(items=12, grid=(4, 4), roles=("tracked",))
    for day in range(1, 9):
        refuses = day in (2, 6)
        world.answers["tracked"] = (lambda ask, n: Reply("", "refusal")) if refuses else reply
        world.measure(day)
    set_aside(world.store, "s", slot_date=world.at(7), arm=None, reason="x", now=world.clock.now())
    (first,) = world.decide(9)
    assert first.clauses["arms"]["tracked"]["outcomes"]["state"] == "ok", "the refused day is in no figure"
    (tracked,) = shown(world).series[0].window.arms
    assert (tracked.days_set_aside, tracked.baseline_days_set_aside) == (2, 1)
    said = "2 days set aside in the window, 1 day set aside in the baseline"
    assert said in [line.strip() for line in status.as_text(shown(world)).splitlines()]
    with world.store.read() as connection:
        assert days_set_aside(connection, "s") == {"tracked": (world.at(2), world.at(6), world.at(7))}


def test_a_day_that_was_asked_again_is_not_set_aside(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: ProviderError("auth", "no such key")
    world.measure(1, canary=True)
    world.answers["tracked"] = reply
    world.measure(1, hour=5)
    with world.store.read() as connection:
        assert days_set_aside(connection, "s") == {}, "the trivial task that failed took nothing away"


def test_a_slot_without_the_trivial_task_counts_once_and_only_while_something_of_it_counts(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: ProviderError("timeout", "slow") if ask.item_id == "i0" else reply(ask)
    world.measure(1)
    world.answers["tracked"] = reply
    world.measure(1, hour=5)
    world.answers["tracked"] = lambda ask, n: ProviderError("timeout", "slow")
    world.measure(2)
    world.answers["tracked"] = lambda ask, n: reply(ask) if ask.item_id != "pre-flight" else Reply("ok", "stop")
    world.measure(2, hour=5, canary=True)
    world.measure(3)

    def bare() -> tuple[date, ...]:
        with world.store.read() as connection:
            return slots_without_canary(connection, "s")

    assert bare() == (world.at(1), world.at(3)), "all of day 2 that counts was asked after the trivial task"
    assert "2 slots measured without the trivial task, the last on 2027-01-03" in status.as_text(shown(world))
    set_aside(world.store, "s", slot_date=world.at(3), arm=None, reason="x", now=world.clock.now())
    assert bare() == (world.at(1),)
    assert len(shown(world).series[0].deviations) == 4, "what was decided stays"
