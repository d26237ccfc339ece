"""A harness that drifts is refused by name; accepted, it begins a new baseline, and no window decides across."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from canaryd import status
from canaryd.errors import UsageError
from canaryd.records import Ask, Reply
from canaryd.runner.deviating import accept, accept_equivalent, acknowledge, carried_change, drift_of, rebaseline
from canaryd.status.build import series_status
from canaryd.status.load import series_records
from canaryd.store import harness, read
from canaryd.store.epochs import deviations, epochs
from canaryd.store.schema_contract import run_surroundings


def good(ask: Ask, times: int = 0) -> Reply:
    said = "ok" if ask.item_id == "pre-flight" else str(2 * int(ask.item_id[1:]))
    return Reply(f"<answer>{said}</answer>", "stop", resolved_model="m-1", standing="reported")


def half_wrong(ask: Ask, times: int = 0) -> Reply:
    return good(ask) if int(ask.item_id[1:]) % 2 else Reply("<answer>-1</answer>", "stop")


def verdicts(world: Any) -> list[tuple[int, int, str]]:
    with world.store.read() as connection:
        found = [stored.verdict for stored in read.verdicts(connection, "s")]
    return [(v.epoch, v.window_index, v.kind) for v in found]


def alarm(world: Any) -> str:
    with world.store.read() as connection:
        return read.alarms(connection, "s")[-1].state


def shown(world: Any) -> Any:
    with world.store.read() as connection:
        records = series_records(connection, read.series(connection, "s"), policy=world.policy)
    return series_status(records, world.clock.now())


def check_of(world: Any) -> tuple[int, str]:
    one = status.check_status(status.Status("0", "store", world.clock.now(), "system", (shown(world),)))
    return one.exit_code, one.series[0].reason


def test_a_drift_is_refused_with_what_differs_by_name(make_world: Any) -> None:
    world = make_world()
    world.tools = {"sdk": "3.57.0"}
    world.measure(1)
    world.tools = {"sdk": "3.58.0"}
    world.due_minute = 200
    world.asked.clear()
    world.measure(2)
    said = "harness_drift: time of day: 03:10 UTC -> 03:20 UTC; tool sdk: 3.57.0 -> 3.58.0"
    assert world.outcomes(2) == [("control", 1, "refused", said), ("tracked", 1, "refused", said)]
    assert world.asked == []
    world.due_minute, world.tools = 190, {"sdk": "3.57.0"}
    world.measure(2, hour=5)
    assert [outcome for _, _, outcome, _ in world.outcomes(2)] == ["refused", "completed"] * 2


def test_every_run_can_be_explained_by_its_stored_components(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    (run,) = world.measure(1).runs
    with world.store.read() as connection:
        found = harness.components(connection, [run.start.fingerprint])[run.start.fingerprint]
        assert harness.target_on(connection, "s", arm="tracked", last=world.at(1)) == {
            "provider": "scripted",
            "model": "model-tracked",
        }
    assert set(found) == {"panel", "system", "request", "host", "time of day", "grader exact"}
    assert found["request"] == (
        '{"body":{"prompt":"{prompt}","system":"{system}"},"headers":{},"method":"POST","path":"/scripted"}'
    )


def test_what_a_run_was_measured_on_is_recorded_and_compared_with_nothing(
    make_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(roles=("tracked",))
    world.measure(1)
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    world.measure(2)
    with world.store.read() as connection:
        kept = connection.execute(select(run_surroundings.c.recorded)).scalars().all()
    assert [set(each) for each in kept] == [{"canaryd", "python", "os", "host"}] * 2
    assert [each["host"] == "elsewhere" for each in kept] == [False, True]
    assert world.outcomes(2) == [("tracked", 1, "completed", "")]


def test_a_refused_series_is_blocked_since_its_first_refusal_and_tried_again(make_world: Any) -> None:
    world = make_world()
    world.tools = {"sdk": "1"}
    world.measure(1)
    assert shown(world).blocked is None
    assert str(shown(world).next_run) == "2027-01-02 03:10:00+00:00"
    world.tools = {"sdk": "2"}
    for day in (2, 3):
        world.measure(day)
    blocked = shown(world).blocked
    assert (blocked.reason, str(blocked.since), blocked.command) == (
        "harness_drift", "2027-01-02", "canaryd doctor --series s",
    )  # fmt: skip
    assert str(shown(world).next_run) == "2027-01-03 03:25:00+00:00", "and not the next day"
    world.at(3, 15, 10)
    assert str(shown(world).next_run) == "2027-01-04 03:10:00+00:00", "it is too late for today"
    world.at(6, 1)
    world.decide(6)
    assert shown(world).blocked is None, "days that nobody measured were not refused"
    world.measure(6)
    assert str(shown(world).blocked.since) == "2027-01-06"


def test_how_long_a_run_took_is_measured_and_expected_of_the_next(make_world: Any) -> None:
    """The calendar is set back by an hour while the slot is measured."""
    world = make_world(requests_per_minute=6.0)
    with world.store.read() as connection:
        assert harness.last_duration(connection, "s") == timedelta(0)

    def answer(ask: Ask, times: int) -> Reply:
        clock = world.clock
        clock.now = lambda: clock.moment - timedelta(hours=1)
        return good(ask)

    world.answers["tracked"] = answer
    (run, _) = world.measure(1).runs
    assert run.end.ended_at < run.start.started_at
    with world.store.read() as connection:
        assert harness.duration_s(connection, run.run_id) == 50.0
        assert harness.last_duration(connection, "s") == timedelta(seconds=50)


def test_an_attempt_that_measured_nothing_pins_no_harness(make_world: Any) -> None:
    """A wrong model name costs one call; mending it is no drift."""
    from canaryd.providers.base import ProviderError

    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: ProviderError("not_found", "no such model")
    world.measure(1)
    world.tools = {"sdk": "2"}
    world.answers = {}
    world.measure(1, hour=5)
    assert [outcome for _, _, outcome, _ in world.outcomes(1)] == ["config_error", "completed"]


def test_a_withheld_host_is_unknown_and_no_drift(make_world: Any) -> None:
    world = make_world(roles=("tracked",), base_url="https://one.example/v1", redact=True)
    world.measure(1)
    open_arm = replace(world.config.arms[0], base_url="https://two.example/v1", redact=False)
    world.config = replace(world.config, arms=(open_arm,))
    world.measure(2)
    world.config = replace(world.config, arms=(replace(open_arm, redact=True),))
    for day in (3, 4):
        world.measure(day)
    world.decide(5)
    with world.store.read() as connection:
        verdict = read.verdicts(connection, "s")[0].verdict
    assert verdict.kind == "insufficient_data", "unknown differs from nothing"
    assert verdict.reasons == ()
    assert "one.example" not in str(verdict.clauses)


def test_an_equivalent_version_keeps_the_epoch_and_is_printed_for_ever(make_world: Any) -> None:
    world = make_world()
    world.tools = {"sdk": "3.57.0"}
    for day in (1, 2, 3):
        world.measure(day)
    world.tools = {"sdk": "3.58.0"}
    slot = world.slot(world.at(4))
    drift = drift_of(slot)
    assert [str(delta) for delta in drift.deltas["tracked"]] == ["tool sdk: 3.57.0 -> 3.58.0"]
    accept_equivalent(slot, drift, reason="a patch release")
    for day in (4, 5, 6):
        world.measure(day)
    world.decide(7)
    assert verdicts(world) == [(1, 1, "insufficient_data"), (1, 2, "no_change_detected")]
    assert ("equivalent", "a patch release") in [(note.kind, note.reason) for note in shown(world).deviations]
    coincidences = shown(world).window.coincides_with
    assert "an SDK or CLI version that was accepted as equivalent: a patch release" in [c.text for c in coincidences]


def test_equivalence_is_only_for_versions(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    world.due_minute = 200
    slot = world.slot(world.at(2))
    with pytest.raises(UsageError, match=r"time of day: 03:10 UTC -> 03:20 UTC; only versions of an SDK or a CLI"):
        accept_equivalent(slot, drift_of(slot), reason="no")
    assert deviations_of(world) == []


def deviations_of(world: Any) -> list[str]:
    with world.store.read() as connection:
        return [note.kind for note in deviations(connection, "s") if note.kind != "no_canary"]


def test_nothing_to_accept_is_said(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    slot = world.slot(world.at(2))
    with pytest.raises(UsageError, match="nothing differs"):
        accept(slot, drift_of(slot), reason="why not")


def test_an_accepted_drift_begins_a_baseline_at_the_next_slot(make_world: Any) -> None:
    world = make_world()
    for day in (1, 2, 3):
        world.measure(day)
    world.due_minute = 200
    world.measure(4)
    slot = world.slot(world.at(4))
    assert accept(slot, drift_of(slot), reason="a later hour") == world.at(4), "nothing of today was asked yet"
    with world.store.read() as connection:
        known = epochs(connection, read.series(connection, "s"))
    assert [(one.number, one.first_date) for one in known] == [(1, world.at(1)), (2, world.at(4))]
    for day in range(4, 10):
        world.measure(day)
    world.decide(10)
    assert verdicts(world) == [(2, 1, "insufficient_data"), (2, 2, "no_change_detected")], (
        "the window of days 3 and 4 lies across the epochs and is never decided"
    )
    window = shown(world).window
    assert {(one.epoch, one.arm, one.delta) for one in window.across_epochs} == {
        (1, "tracked", 0.0),
        (1, "control", 0.0),
    }
    with world.store.read() as connection:
        stored = read.verdicts(connection, "s")[-1].verdict
    assert [(one["first"], one["last"]) for one in stored.clauses["across_epochs"]] == [("2027-01-01", "2027-01-02")]


def test_where_today_was_asked_already_the_epoch_begins_tomorrow(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    world.measure(2)
    world.due_minute = 200
    slot = world.slot(world.at(2))
    drift = drift_of(slot)
    assert accept(slot, drift, reason="later") == world.at(2) + timedelta(days=1)
    with pytest.raises(UsageError, match="epoch 2 begins on 2027-01-03 already"):
        accept(slot, drift, reason="again")


def test_a_new_epoch_pins_what_was_accepted(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    world.due_minute = 200
    slot = world.slot(world.at(2))
    accept(slot, drift_of(slot), reason="later")
    world.due_minute = 210
    world.measure(2)
    assert world.outcomes(2)[0][3] == "harness_drift: time of day: 03:20 UTC -> 03:30 UTC"


def test_a_new_baseline_needs_no_drift_and_refuses_one(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    slot = world.slot(world.at(2))
    assert rebaseline(slot, drift_of(slot), reason="an unlucky baseline") == world.at(2)
    world.due_minute = 200
    slot = world.slot(world.at(2))
    with pytest.raises(UsageError, match="canaryd deviation accept"):
        rebaseline(slot, drift_of(slot), reason="again")


def test_a_change_that_an_epoch_ends_with_is_carried_until_it_is_acknowledged(make_world: Any) -> None:
    world = make_world(items=12, grid=(4, 4))
    for day in range(1, 13):
        if day == 5:
            world.answers["tracked"] = half_wrong
        world.measure(day)
    world.measure(13)
    assert (alarm(world), check_of(world)) == ("regression", (1, "verdict"))
    slot = world.slot(world.at(13))
    with pytest.raises(UsageError, match="carries no change"):
        acknowledge(slot, reason="too early")
    assert carried_change(slot) is None
    rebaseline(slot, drift_of(slot), reason="the new normal")
    change = carried_change(slot)
    assert change is not None, "it is told at once, not when the epoch begins"
    assert (change.verdict.epoch, change.verdict.window_index) == (1, 2)
    for day in range(14, 27):
        world.measure(day)
    assert verdicts(world)[-2:] == [(2, 1, "insufficient_data"), (2, 2, "no_change_detected")]
    assert alarm(world) == "regression", "what the old baseline showed is not unsaid by a new one"
    assert check_of(world) == (1, "carried")
    assert "carried regression, declared in window 2 of epoch 1" in status.as_text(
        status.Status("0", "store", world.clock.now(), "system", (shown(world),))
    )
    acknowledge(world.slot(world.at(26)), reason="seen, and lived with")
    assert check_of(world) == (0, "verdict")
    assert shown(world).state == "warming_up"
    world.measure(27)
    assert alarm(world) == "warming_up"
    assert deviations_of(world) == ["rebaseline", "ack"]
