"""What stands before the first item: each check closes its arm with a reason, and the other arms run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest
from sqlalchemy import func, select

from canaryd import status
from canaryd.config import Budget, Price
from canaryd.errors import ConfigError, CredentialsError, MeasurementRefused
from canaryd.metrics.snapshot import take_snapshot
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Grade, Reply, Sample, SampleKey
from canaryd.runner import preflight
from canaryd.runner.calls import Drain, Drained, drain
from canaryd.runner.deviating import drift_of
from canaryd.runner.trust import clock_problem
from canaryd.sandbox import SystemdSocket
from canaryd.schedule import SlotPolicy
from canaryd.status.build import series_status
from canaryd.status.load import series_records
from canaryd.store import harness, read, schema, studies
from canaryd.store.epochs import Deviation, add_deviation, deviations
from canaryd.store.events import events
from canaryd.testing import FakeClock, ScriptedProvider

POLICY = SlotPolicy(190, timedelta(hours=12), 4)


def good(ask: Ask, times: int = 0) -> Reply:
    said = "ok" if ask.item_id == "pre-flight" else str(2 * int(ask.item_id[1:]))
    return Reply(f"<answer>{said}</answer>", "stop", input_tokens=100, output_tokens=10)


def throw(error: Exception) -> NoReturn:
    raise error


def sample_count(world: Any) -> int:
    with world.store.read() as connection:
        return connection.scalar(select(func.count()).select_from(schema.sample)) or 0


def test_each_arm_gets_one_trivial_task_before_its_first_item(make_world: Any) -> None:
    world = make_world()
    world.measure(1, canary=True)
    assert [ask.item_id for ask in world.asked[:2]] == ["pre-flight", "pre-flight"]
    assert len(world.asked) == 14
    assert sample_count(world) == 12, "the trivial task is never banked"


@pytest.mark.parametrize(
    ("reply", "outcome", "reason"),
    [
        (ProviderError("overloaded", "busy"), "refused", "canary_failed: overloaded: busy"),
        (ProviderError("auth", "no such key"), "config_error", "canary_failed: auth: no such key"),
        (Reply("", "stop"), "refused", "canary_failed: empty: the reply ended with stop"),
        (Reply("", "length"), "refused", "canary_failed: truncated: the reply ended with length"),
    ],
)
def test_an_arm_that_does_not_answer_is_closed_and_the_other_runs(
    make_world: Any, reply: Any, outcome: str, reason: str
) -> None:
    world = make_world()
    world.answers["tracked"] = lambda ask, n: reply
    result = world.measure(1, canary=True)
    assert [(run.start.arm, run.end.outcome) for run in result.runs] == [("tracked", outcome), ("control", "completed")]
    assert world.outcomes(1) == [("control", 1, "completed", ""), ("tracked", 1, outcome, reason)]
    assert {ask.item_id for ask in world.asked if ask.arm == "tracked"} == {"pre-flight"}
    assert sample_count(world) == 6
    (closed, _) = result.runs
    with world.store.read() as connection:
        (note,) = connection.execute(select(schema.validity))
    assert (note.run_id, note.reason, note.detail) == (closed.run_id, *reason.split(": ", 1))


@pytest.mark.parametrize(("canary", "reason"), [(True, "canary_failed"), (False, "credentials")])
def test_an_arm_that_its_provider_refuses_is_blocked(make_world: Any, canary: bool, reason: str) -> None:
    world = make_world()
    world.answers["tracked"] = lambda ask, n: ProviderError("auth", "no such key")
    world.measure(1, canary=canary)
    assert world.outcomes(1)[1][2] == "config_error"
    values = take_snapshot(world.store, ["s"], policy=POLICY, now=world.clock.now()).values["run_blocked"]
    assert [labels for labels, value in values.items() if value] == [("s", "tracked", reason)]
    with world.store.read() as connection:
        shown = series_status(
            series_records(connection, read.series(connection, "s"), policy=POLICY), world.clock.now()
        )
    assert [(run.arm, run.blocked) for run in shown.last_runs if run.blocked] == [("tracked", reason)]
    assert (shown.blocked.reason, shown.blocked.since) == (reason, world.at(1))


def test_told_to_end_in_the_trivial_task_it_waits_for_no_retry_and_says_so(make_world: Any) -> None:
    world, told = make_world(roles=("tracked",)), Drain()

    def busy(ask: Ask, times: int) -> ProviderError:
        told.tell()
        return ProviderError("overloaded", "busy")

    world.answers["tracked"] = busy
    token = drain.set(told)
    try:
        with pytest.raises(Drained, match="tracked: canary_failed: overloaded: busy"):
            world.measure(1, canary=True)
    finally:
        drain.reset(token)
    assert len(world.asked) == 1
    world.answers["tracked"] = good
    world.measure(1, hour=5)
    assert [outcome for _, _, outcome, _ in world.outcomes(1)] == ["refused", "completed"]


def test_a_slot_whose_first_attempt_did_not_answer_is_still_judged(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: ProviderError("overloaded", "busy")
    world.measure(1, canary=True)
    world.answers["tracked"] = lambda ask, n: Reply("<answer>-1</answer>", "stop")
    world.measure(1, hour=5)
    with world.store.read() as connection:
        notes = connection.execute(select(schema.validity.c.reason)).scalars().all()
    assert notes == ["canary_failed", "zero_pass_all"]


def test_a_wrong_answer_to_the_trivial_task_is_an_event_and_stops_nothing(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: (
        Reply("I am not sure", "stop") if ask.item_id == "pre-flight" else good(ask)
    )
    world.measure(1, canary=True)
    assert [outcome for _, _, outcome, _ in world.outcomes(1)] == ["completed"]
    with world.store.read() as connection:
        (event,) = events(connection, "s", first=world.at(1), last=world.at(1))
    assert (event.kind, event.detail) == ("canary_answer", {"answered": False})
    values = take_snapshot(world.store, ["s"], policy=POLICY, now=world.clock.now()).values
    told = values["event_last_timestamp_seconds"]
    assert told == {("s", "tracked", "canary_answer"): event.at.timestamp()}


@pytest.mark.parametrize(("standing", "noted"), [("echo", True), ("reported", False)])
def test_where_a_name_only_repeats_the_request_it_is_said_that_expect_resolved_holds_nobody(
    make_world: Any, standing: str, noted: bool
) -> None:
    world = make_world(roles=("tracked",), expect_resolved="m-1")
    world.answers["tracked"] = lambda ask, n: replace(good(ask), resolved_model="m-1", standing=standing)

    async def found() -> preflight.Preflight:
        slot = world.slot(world.at(1))
        async with preflight.open_lanes(slot, ["tracked"]) as (lanes, _):
            return await preflight.preflight(slot, lanes, asks=slot.owed())

    finding = next(each for each in asyncio.run(found()).findings if each.check == "canary")
    assert finding.problem is None
    assert ("identifies nothing: expect_resolved holds nobody" in finding.note) == noted


def test_without_a_sandbox_the_harness_is_not_compared_and_cannot_be_accepted(
    make_world: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = make_world()
    with monkeypatch.context() as seen:
        seen.setattr(preflight, "sandbox_state", lambda _slot: ({"sandbox child": "sha256:1"}, None))
        world.measure(1)
    monkeypatch.setattr(preflight, "needs_sandbox", lambda _items: True)
    slot = replace(world.slot(world.at(2)), backend=SystemdSocket(str(tmp_path / "none")))

    async def examine() -> list[preflight.Finding]:
        async with preflight.open_lanes(slot, {"tracked"}) as (lanes, _):
            return (await preflight.preflight(slot, lanes, asks=slot.owed(), canary=False)).findings

    findings = {finding.check: finding for finding in asyncio.run(examine())}
    assert findings["sandbox"].reason.startswith("sandbox_unavailable: the sandbox for code items does not work: ")
    assert findings["sandbox"].cure.startswith("start it: `systemctl enable --now canaryd-sandbox.socket`")
    fingerprint = findings["fingerprint"]
    assert (fingerprint.problem, fingerprint.made) == (None, False)
    assert fingerprint.note == "not compared: the sandbox is a part of it and could not be looked at"
    with pytest.raises(MeasurementRefused, match=r"canaryd-sandbox\.socket"):
        drift_of(slot)


def test_a_run_without_the_trivial_task_is_a_deviation(make_world: Any) -> None:
    world = make_world()
    world.measure(1, canary=False)
    with world.store.read() as connection:
        (note,) = deviations(connection, "s")
        records = series_records(connection, read.series(connection, "s"), policy=POLICY)
    assert (note.kind, note.slot_date) == ("no_canary", world.at(1))
    shown = status.Status("0", "store", world.clock.now(), "system", (series_status(records, world.clock.now()),))
    assert "1 slot measured without the trivial task, the last on 2027-01-01" in status.as_text(shown)


def test_a_refused_arm_is_asked_again_and_the_same_refusal_is_one_row(make_world: Any) -> None:
    world = make_world(roles=("tracked",), budget=Budget(calls_per_day=5))
    world.measure(1)
    world.measure(1, hour=4)
    said = "budget: calls_per_day is 5, 0 are used up and 6 more are needed"
    assert world.outcomes(1) == [("tracked", 1, "refused", said)]
    world.config = replace(world.config, budget=Budget())
    world.measure(1, hour=5)
    assert [(attempt, outcome) for _, attempt, outcome, _ in world.outcomes(1)] == [(1, "refused"), (2, "completed")]


def test_a_clock_before_what_is_stored_is_not_trusted(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.measure(1)
    slot = world.slot(world.at(2))
    slot = replace(slot, clock=FakeClock(datetime(2027, 1, 1, 1, 30, tzinfo=UTC)))
    assert clock_problem(slot.clock, slot.store) == (
        "the clock says 2027-01-01 01:30Z, but a sample was stored at 2027-01-01 03:10Z"
    )
    slot = replace(slot, clock=FakeClock(datetime(2027, 1, 1, 2, 30, tzinfo=UTC)))
    assert clock_problem(slot.clock, slot.store) is None, "an hour is allowed"
    slot = replace(slot, clock=FakeClock(datetime(2007, 1, 1, tzinfo=UTC)))
    assert clock_problem(slot.clock, slot.store) == "the clock says 2007-01-01, which is before this canaryd was made"


def test_a_clock_that_leaps_ahead_closes_and_measures_nothing_until_a_person_notes_the_pause(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.measure(1)
    asked = len(world.asked)
    with pytest.raises(MeasurementRefused, match=r"the clock says 2027-04-02, 91 days after everything that is stored"):
        world.measure(92, hour=4)
    with pytest.raises(MeasurementRefused, match="nothing was closed"):
        world.decide(366)
    assert (len(world.asked), world.outcomes(2), world.outcomes(92)) == (asked, [], [])
    world.measure(2)
    assert world.outcomes(2) == [("tracked", 1, "completed", "")]
    note = Deviation("s", "noted", world.at(92, 5), "the laboratory was closed", {}, at=world.clock.now())
    add_deviation(world.store, note)
    world.measure(92, hour=6)
    assert (world.outcomes(3)[0][2], world.outcomes(92)[0][2]) == ("missed", "completed")


def test_a_budget_of_50_calls_refuses_a_panel_of_78_before_the_first_call(make_world: Any) -> None:
    world = make_world(items=78, roles=("tracked",), budget=Budget(calls_per_day=50))
    world.measure(1, canary=True)
    assert world.asked == []
    assert world.outcomes(1) == [
        ("tracked", 1, "refused", "budget: calls_per_day is 50, 0 are used up and 79 more are needed")
    ]


def test_what_was_used_up_counts_failed_calls_and_the_trivial_task(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: (
        ProviderError("overloaded", "cut off", input_tokens=100, output_tokens=4)
        if ask.item_id == "i0" and n == 0
        else good(ask)
    )
    world.measure(1, canary=True)
    with world.store.read() as connection:
        spent = harness.spending(connection, "s", first=world.at(1), last=world.at(1))
    assert spent == {("tracked", world.at(1)): harness.Spending(8, 800, 74)}


def test_a_month_is_budgeted_too_and_foreseen_from_the_days_before(make_world: Any) -> None:
    world = make_world(roles=("tracked",), budget=Budget(tokens_per_month=1400), params={"max_tokens": 10})
    world.answers["tracked"] = good
    world.measure(1)
    world.measure(2)
    world.measure(3)
    assert world.outcomes(2)[0][2] == "completed"
    assert world.outcomes(3) == [
        ("tracked", 1, "refused", "budget: tokens_per_month is 1400, 1320 are used up and 660 more are needed")
    ]


def test_money_is_counted_by_the_price_in_force(make_world: Any) -> None:
    world = make_world(roles=("tracked",), budget=Budget(money_per_day=0.001), params={"max_tokens": 10})
    world.answers["tracked"] = good
    world.prices = (
        Price("scripted", "model-tracked", date(2027, 1, 1), 0.5, 1.0),
        Price("scripted", "model-tracked", date(2027, 1, 2), 50.0, 100.0),
    )
    world.measure(1)
    world.measure(2)
    assert world.outcomes(1)[0][2] == "completed"
    assert world.outcomes(2)[0][3] == "budget: money_per_day is 0.001, 0 are used up and 0.036 more are needed"


def test_a_price_that_is_not_in_force_yet_refuses(make_world: Any) -> None:
    world = make_world(roles=("tracked",), budget=Budget(money_per_day=5.0))
    world.prices = (Price("scripted", "model-tracked", date(2027, 2, 1), 0.5, 1.0),)
    world.measure(1)
    assert world.outcomes(1)[0][3] == "budget: no price of 'model-tracked' on 'scripted' is in force on 2027-01-01"
    assert world.asked == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CredentialsError("there is no key 'mine'"), "credentials"),
        (ConfigError("arm 'tracked': the program 'claude' is not on PATH"), "configuration"),
    ],
)
@pytest.mark.parametrize("broken", ["tracked", "control"])
def test_an_arm_that_cannot_be_opened_is_closed_with_its_reason_and_the_other_is_measured(
    make_world: Any, error: Exception, reason: str, broken: str
) -> None:
    world = make_world()
    whole = world.provider
    world.provider = lambda arm: throw(error) if arm.name == broken else whole(arm)
    (other,) = {"tracked", "control"} - {broken}
    result = world.measure(1, canary=True)
    assert {run.start.arm: run.end.outcome for run in result.runs} == {broken: "refused", other: "completed"}
    assert {ask.arm for ask in world.asked} == {other}
    assert sample_count(world) == 6
    assert not result.succeeded, "a day succeeded only if the tracked arm and every control did"
    with world.store.read() as connection:
        values = take_snapshot(
            world.store, ["s"], policy=SlotPolicy(190, timedelta(hours=12), 4), now=world.clock.now()
        )
        records = series_records(connection, read.series(connection, "s"), policy=POLICY)
    blocked = [labels for labels, value in values.values["run_blocked"].items() if value]
    assert blocked == [("s", broken, reason)]
    shown = series_status(records, world.clock.now())
    assert [(run.arm, run.blocked) for run in shown.last_runs if run.blocked] == [(broken, reason)]
    assert shown.last_success is None

    world.measure(1, hour=4, canary=True)
    assert len(world.outcomes(1)) == 2, "the same refusal is one row"
    world.provider = whole
    mended = world.measure(1, hour=5, canary=True)
    assert [(run.start.arm, run.end.outcome) for run in mended.runs] == [(broken, "completed")]
    assert mended.succeeded


def test_where_no_arm_can_be_opened_each_keeps_its_own_reason(make_world: Any) -> None:
    world = make_world()
    world.provider = lambda arm: throw(CredentialsError(f"there is no key '{arm.name}'"))
    result = world.measure(1, canary=True)
    assert [(run.start.arm, run.end.reason) for run in result.runs] == [
        ("tracked", "credentials: there is no key 'tracked'"),
        ("control", "credentials: there is no key 'control'"),
    ]
    assert world.asked == []


def test_a_replica_that_cannot_be_opened_fails_no_day(make_world: Any) -> None:
    world = make_world(roles=("tracked", "control", "replica"))
    whole = world.provider
    world.provider = lambda arm: throw(CredentialsError("no key")) if arm.name == "replica" else whole(arm)
    result = world.measure(1, canary=True)
    assert {run.start.arm for run in result.runs if run.end.outcome == "completed"} == {"tracked", "control"}
    assert result.succeeded


def test_a_fault_in_one_arm_s_trivial_task_closes_that_arm_alone(make_world: Any) -> None:
    world = make_world()
    world.answers["tracked"] = lambda ask, n: throw(KeyError("choices"))
    world.measure(1, canary=True)
    assert world.outcomes(1) == [
        ("control", 1, "completed", ""),
        ("tracked", 1, "refused", "canary_failed: internal: KeyError"),
    ]


def test_what_studies_used_up_counts_and_a_positive_control_of_theirs_is_no_arm(make_world: Any) -> None:
    world = make_world(items=6, roles=("tracked",), budget=Budget(calls_per_day=12))
    today = world.at(1)
    for n, arm in enumerate(("tracked", "swapped")):
        key = studies.StudyKey("s", "validate", arm, world.panel.digest, {"provider": "scripted", "model": "m"})
        number = studies.open_study(world.store, key, now=world.clock.now())
        taken = Sample(
            SampleKey("s", arm, today, "i0", 0),
            Grade(1.0, answered=True, passed=True, grader="exact/1"),
            Reply("0", "stop", response_id=f"r{n}"),
            asked_at=world.clock.now(),
            ended_at=world.clock.now(),
            calls=4,
        )
        studies.append_samples(world.store, [taken], study_id=number)
    world.measure(1)
    assert world.asked == []
    assert world.outcomes(1)[0][3] == "budget: calls_per_day is 12, 8 are used up and 6 more are needed"


def test_what_cannot_be_recorded_is_refused_before_anything_is_claimed(make_world: Any) -> None:
    world = make_world()
    tracked, control = world.config.arms
    mixed = replace(control, options={"extra_body": {"effort": {"level": "low"}}})
    world.config = replace(world.config, arms=(tracked, mixed))
    world.measure(1, canary=True)
    said = 'configuration: configuration.effort is {"level": "low"}, but only a single value can be recorded'
    assert world.outcomes(1) == [("control", 1, "refused", said), ("tracked", 1, "completed", "")]


class Reporting(ScriptedProvider):
    """An application that reports its configuration."""

    first_report: ClassVar = {"provider": "p", "model": "m"}
    last_report: ClassVar = first_report


def asked_last(world: Any, last: Any) -> Any:
    """Measure day 1 at 23:10 with a fault or a step of the clock where the application is asked once more."""
    (arm,) = world.config.arms
    world.config = replace(world.config, arms=(replace(arm, options={"config_path": "config"}),))

    def answer(ask: Ask, times: int) -> Any:
        world.asked.append(ask)
        return last(ask, times) or good(ask)

    world.provider = lambda arm: Reporting(answer)
    return world.measure(1, hour=23, canary=True)


def test_a_fault_where_an_application_is_asked_once_more_ends_no_run(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    asked_last(world, lambda ask, times: throw(KeyError("config")) if times else None)
    assert (len(world.asked), world.outcomes(1)) == (8, [("tracked", 1, "completed", "")])


def test_no_application_is_asked_once_more_after_the_end_of_the_slot(make_world: Any) -> None:
    world = make_world(roles=("tracked",))

    def late(ask: Ask, times: int) -> None:
        if len(world.asked) == 7:
            world.clock.moment = datetime(2027, 1, 2, 0, 5, tzinfo=UTC)

    asked_last(world, late)
    assert (len(world.asked), world.outcomes(1)) == (7, [("tracked", 1, "completed", "")])
