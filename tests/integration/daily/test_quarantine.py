"""A slot that a person sets aside: nothing is deleted, and verdicts that rest on it are superseded."""

from __future__ import annotations

from typing import Any

import pytest

from canaryd.errors import UsageError
from canaryd.records import Ask, Reply
from canaryd.runner.quarantine import set_aside
from canaryd.store import read, samples
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
