"""A measurement day: what is asked, what is left alone, and how each run ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from canaryd import daily
from canaryd.errors import Locked
from canaryd.providers.base import ProviderError
from canaryd.records import Ask, Failure, Reply, RunEnd
from canaryd.runner.closing import Books, next_start
from canaryd.runner.project import LEASE_POLICY, held
from canaryd.store import observed, read, samples, write
from canaryd.store.lease import acquire_lease
from canaryd.store.notes import invalid_runs
from canaryd.store.process import Holder
from canaryd.store.rows import Span


def good(ask: Ask, times: int = 0) -> Reply:
    number = int(ask.item_id[1:])
    return Reply(f"<answer>{2 * number}</answer>", "stop")


def bad(ask: Ask, times: int = 0) -> Reply:
    return Reply("<answer>-1</answer>", "stop")


def down(kind: str) -> Any:
    return lambda ask, times: ProviderError(kind, "no luck")


def counts(world: Any, arm: str, day: int, *, include_invalid: bool = False) -> tuple[int, dict[str, int]]:
    slot_date = world.at(day)
    with world.store.read() as connection:
        tally = samples.tally(connection, Span("s", arm, slot_date, slot_date), include_invalid=include_invalid)
    return tally.scored, dict(tally.failures)


def notes(world: Any, day: int) -> dict[tuple[str, int], str]:
    slot_date = world.at(day)
    with world.store.read() as connection:
        runs = read.runs(connection, "s", first=slot_date, last=slot_date)
        marked = invalid_runs(connection, [run.run_id for run in runs])
    return {(r.start.arm, r.start.attempt): marked[r.run_id] for r in runs if r.run_id in marked}


def test_a_day_asks_each_item_of_each_arm_once(make_world: Any) -> None:
    world = make_world()
    result = world.measure(1)
    assert [(run.start.arm, run.end.outcome) for run in result.runs] == [
        ("tracked", "completed"),
        ("control", "completed"),
    ]
    assert len(world.asked) == len(set(world.asked)) == 12
    assert world.measure(1).runs == ()
    assert len(world.asked) == 12, "a slot that is complete is left alone"


def test_the_next_attempt_asks_only_what_is_missing(make_world: Any) -> None:
    world = make_world()
    world.answers["tracked"] = lambda ask, n: ProviderError("timeout", "late") if ask.item_id == "i3" else good(ask)
    world.measure(1)
    assert world.outcomes(1) == [
        ("control", 1, "completed", ""),
        ("tracked", 1, "incomplete", "1 sample not measured (failures: timeout)"),
    ]
    world.asked.clear()
    world.answers["tracked"] = good
    world.measure(1, hour=4)
    assert [(ask.arm, ask.item_id) for ask in world.asked] == [("tracked", "i3")]
    assert counts(world, "tracked", 1) == (6, {})


def test_what_a_dead_process_stored_is_not_asked_again(make_world: Any) -> None:
    world = make_world()

    class Killed(BaseException):
        """Stands for the end of the process."""

    def dying(ask: Ask, times: int) -> Reply:
        if len(world.asked) > 7:
            raise Killed
        return good(ask)

    world.answers = {"tracked": dying, "control": dying}
    with pytest.raises((Killed, BaseExceptionGroup)):
        world.measure(1)
    with world.store.read() as connection:
        stored = {
            key
            for arm in ("tracked", "control")
            for key in samples.final_samples(connection, "s", arm=arm, slot_date=world.at(1))
        }
        assert len(read.open_runs(connection, "s")) == 2
    assert stored
    world.asked.clear()
    world.answers = {}
    world.measure(1, hour=4)
    assert len(world.asked) == 12 - len(stored)
    assert [outcome for _, _, outcome, _ in world.outcomes(1)] == ["abandoned", "completed"] * 2


def test_a_process_that_died_after_its_last_answer_leaves_a_slot_that_is_completed(
    make_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(roles=("tracked",))

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(daily, "end_run", killed)
        with pytest.raises(KeyboardInterrupt):
            world.measure(1)
    assert len(world.asked) == 6
    (run,) = world.measure(1, hour=5).runs
    assert (run.start.attempt, run.end.outcome) == (2, "completed")
    assert len(world.asked) == 6, "nothing is asked for it"


def test_days_that_nobody_ran_are_rows_with_a_reason(make_world: Any) -> None:
    world = make_world()
    world.measure(1)
    world.measure(4)
    for day in (2, 3):
        assert world.outcomes(day) == [
            ("control", 1, "missed", "no process ran it before its UTC day ended"),
            ("tracked", 1, "missed", "no process ran it before its UTC day ended"),
        ]
    assert {ask.slot_date for ask in world.asked} == {world.at(1), world.at(4)}, "nothing is back-filled"


def test_an_arm_that_a_past_slot_lacks_is_missed_too(make_world: Any) -> None:
    world = make_world()
    slot = world.slot(world.at(1))
    with held(world.store, "s", clock=world.clock) as lease:
        books = Books(world.store, slot.series, lease, clock=world.clock, due_minute=190)
        write.record_missed(
            world.store,
            [next_start(books, "tracked", slot_date=slot.slot_date)],
            end=RunEnd(world.clock.now(), "refused", "budget: x"),
            lease=lease,
            epoch=1,
        )
    world.measure(2)
    assert [(arm, outcome) for arm, _, outcome, _ in world.outcomes(1)] == [
        ("control", "missed"),
        ("tracked", "refused"),
    ]


def test_a_late_start_stores_how_late_it_was(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    (run,) = world.measure(1, hour=9).runs
    assert run.start.started_at - run.start.due_at == timedelta(hours=6)


def test_a_reply_that_lands_after_midnight_belongs_to_its_slot(make_world: Any) -> None:
    world = make_world(roles=("tracked",), concurrency=1)

    def slow(ask: Ask, times: int) -> Reply:
        world.clock.moment = datetime(2027, 1, 2, 0, 0, 3, tzinfo=UTC)
        return good(ask)

    world.answers["tracked"] = slow
    world.measure(1, hour=23)
    ((arm, _, outcome, reason),) = world.outcomes(1)
    assert (arm, outcome, reason) == ("tracked", "incomplete", "5 samples not measured (the UTC day ended)")
    assert counts(world, "tracked", 1)[0] == 1
    assert len(world.asked) == 1


def test_a_model_that_does_not_exist_costs_one_call(make_world: Any) -> None:
    world = make_world(items=78)
    world.answers["tracked"] = down("not_found")
    world.measure(1)
    assert sum(ask.arm == "tracked" for ask in world.asked) == 1
    assert world.outcomes(1) == [
        ("control", 1, "completed", ""),
        ("tracked", 1, "config_error", "not_found: no luck"),
    ]
    assert counts(world, "tracked", 1) == (0, {"not_found": 1})


def test_a_second_claim_of_the_same_attempt_asks_nothing(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    slot = world.slot(world.at(1))
    claim = write.claim_slot

    def overtaken(store: Any, starts: Any, **rest: Any) -> Any:
        claim(store, starts, **rest)
        return claim(store, starts, **rest)

    monkeypatch.setattr(write, "claim_slot", overtaken)
    with pytest.raises(Locked, match=r"the slot 2027-01-01 of s was claimed at 03:10:00Z by another process"):
        world.measure(1)
    assert world.asked == []
    assert slot.owed()


def test_a_series_that_another_process_holds_is_not_measured(make_world: Any) -> None:
    world = make_world()
    world.at(1)
    elsewhere = Holder("another-host", machine="another", pid=7, process_start=1)
    acquire_lease(world.store, "s", holder=elsewhere, now=world.clock.now(), policy=LEASE_POLICY)
    with pytest.raises(Locked, match="held by process 7 on another-host"):
        world.measure(1)
    assert world.asked == []


def test_a_grader_that_fails_is_no_score(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from canaryd import graders

    world = make_world(roles=("tracked",))
    real = graders.grade

    def odd(item: Any, reply: Any) -> Any:
        if item.item_id == "i2":
            raise graders.GraderError("grader exact scored item i2 outside [0, 1]")
        return real(item, reply)

    monkeypatch.setattr(graders, "grade", odd)
    world.measure(1)
    assert counts(world, "tracked", 1) == (5, {"grader_error": 1})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (down("overloaded"), "infra_outage"),
        (lambda ask, n: Reply("", "stop"), "zero_outputs"),
        (bad, "zero_pass_all"),
        (down("config_mismatch"), "config_mismatch"),
        (down("sandbox_error"), "harness_error"),
    ],
)
def test_a_slot_that_measured_nearly_nothing_is_left_out(make_world: Any, answer: Any, reason: str) -> None:
    world = make_world()
    world.answers["tracked"] = answer
    world.measure(1)
    world.measure(2)
    assert notes(world, 1) == {("tracked", 1): reason}
    assert counts(world, "tracked", 1) == (0, {})
    assert counts(world, "tracked", 1, include_invalid=True) != (0, {})


def test_a_slot_is_judged_by_what_counts_of_it_and_not_by_an_attempt(make_world: Any) -> None:
    """Most of the first attempt fails, the second repairs it: the slot is valid, and nothing of it is lost."""
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: good(ask) if ask.item_id in ("i0", "i1") else ProviderError("timeout", "")
    world.measure(1)
    assert notes(world, 1) == {}, "the day is not over"
    world.answers["tracked"] = good
    world.measure(1, hour=5)
    world.measure(2)
    assert notes(world, 1) == {}
    assert counts(world, "tracked", 1) == (6, {})


def test_every_run_of_an_invalid_slot_is_marked(make_world: Any) -> None:
    """The second attempt only asks what is missing; alone it looks sound, the slot is not."""
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: ProviderError("timeout", "") if ask.item_id == "i0" else bad(ask)
    world.measure(1)
    world.answers["tracked"] = bad
    world.measure(1, hour=5)
    assert notes(world, 1) == {("tracked", 1): "zero_pass_all", ("tracked", 2): "zero_pass_all"}
    assert counts(world, "tracked", 1) == (0, {})


def test_a_window_is_decided_when_its_last_day_is_over(make_world: Any) -> None:
    world = make_world()
    for day in range(1, 5):
        assert world.measure(day).verdicts == ()
    (verdict,) = world.decide(5)
    assert (verdict.window_index, verdict.kind) == (1, "insufficient_data")
    assert world.decide(5) == ()


def test_a_daemon_that_was_down_still_gets_its_windows_decided(make_world: Any) -> None:
    world = make_world()
    for day in range(1, 5):
        world.measure(day)
    verdicts = world.decide(7)
    assert [(v.window_index, v.kind) for v in verdicts] == [
        (1, "insufficient_data"),
        (2, "not_evaluable"),
    ]
    assert [outcome for _, _, outcome, _ in world.outcomes(6)] == ["missed", "missed"]


def test_two_drops_with_a_gap_between_them_declare_nothing(make_world: Any) -> None:
    """Windows 1 and 3 lie 50 points below the baseline and window 2 was never measured."""
    world = make_world(items=12, grid=(4, 4))
    for day in (*range(1, 9), *range(13, 17)):
        low = day > 4

        def answer(ask: Ask, times: int, *, low: bool = low) -> Reply:
            return bad(ask) if low and int(ask.item_id[1:]) % 2 else good(ask)

        world.answers["tracked"] = answer
        world.measure(day)
    world.decide(17)
    with world.store.read() as connection:
        verdicts = [stored.verdict for stored in read.verdicts(connection, "s")]
    assert [v.kind for v in verdicts] == ["insufficient_data", "not_evaluable", "not_evaluable"]
    assert "no_data" in verdicts[1].reasons
    assert verdicts[2].reasons == ("previous_window",)


def test_a_reply_that_was_stored_before_is_a_replay(make_world: Any) -> None:
    world = make_world(roles=("tracked",))
    world.answers["tracked"] = lambda ask, n: Reply(good(ask).text, "stop", response_id=f"r-{ask.item_id}")
    world.measure(1)
    world.measure(2)
    assert counts(world, "tracked", 2, include_invalid=True) == (0, {"replayed": 6})
    with world.store.read() as connection:
        assert observed.response_seen(connection, "s", response_id="r-i0")
        assert not observed.response_seen(connection, "other", response_id="r-i0")


def test_another_model_than_expected_is_a_failure(make_world: Any) -> None:
    world = make_world(roles=("tracked",), expect_resolved="m-1")
    names = {"i0": "m-1", "i1": "m-2", "i2": None, "i3": "m-2", "i4": None}
    stops = {"i3": "refusal", "i4": "refusal"}
    world.answers["tracked"] = lambda ask, n: Reply(
        good(ask).text,
        stops.get(ask.item_id, "stop"),
        resolved_model=names.get(ask.item_id, "m-1"),
        standing="reported",
    )
    world.measure(1)
    with world.store.read() as connection:
        found = samples.samples(connection, Span("s", "tracked", world.at(1), world.at(1)))
    failed = {each.key.item_id: each.result for each in found if isinstance(each.result, Failure)}
    assert failed == {
        "i1": Failure("served_other", "asked for m-1, m-2 answered"),
        "i2": Failure("served_other", "asked for m-1, nobody answered"),
        "i3": Failure("served_other", "asked for m-1, m-2 answered"),
        "i4": Failure("refusal", "the reply ended with refusal"),
    }
